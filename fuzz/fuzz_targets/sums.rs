//! Any bytes as a list of checksums: every name in it can be asked for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mediawriter::digest::sums::{Lookup, Sums};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(sums) = Sums::parse(bytes) {
        for name in sums.names().take(8) {
            assert!(!matches!(sums.entry(&[name]), Lookup::Absent(_)), "{name:?}");
        }
    }
});
