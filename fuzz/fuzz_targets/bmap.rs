//! Any text as a block map: what is read has its stretches in order, apart, and in the image.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mediawriter::source::bmap::parse;

fuzz_target!(|text: &str| {
    let Ok(map) = parse(text) else { return };
    let mut end = 0;
    for range in &map.ranges {
        assert!(end <= range.bytes.start && range.bytes.start < range.bytes.end);
        end = range.bytes.end;
    }
    assert!(end <= map.image_size);
    assert!(map.mapped() <= map.image_size);
});
