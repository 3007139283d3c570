//! Any text as a catalogue: what is read has a plan, and addresses that are https.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mediawriter::catalog::{Plan, parse};

fuzz_target!(|text: &str| {
    for entry in parse(text).unwrap_or_default() {
        if let Plan::List { list, .. } = entry.plan() {
            assert!(list.iter().all(|address| address.starts_with("https://")));
        }
    }
});
