//! Whether bytes are zeros, as fast as they can be read.

/// Place of the first byte that is not zero. Blocks first: a comparison of bytes as one number each would take longer than reading them.
pub fn first_not_zero(bytes: &[u8]) -> Option<usize> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let odd = |block: &[u8]| block != &ZEROS[..block.len()];
    let block = bytes.chunks(ZEROS.len()).position(odd)? * ZEROS.len();
    bytes[block..].iter().position(|byte| *byte != 0).map(|place| block + place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_is_found_wherever_it_is() {
        for len in [0, 1, 4095, 4096, 4097, 9000] {
            let mut bytes = vec![0; len];
            assert_eq!(first_not_zero(&bytes), None);
            for place in (0..len).step_by(997).chain(len.checked_sub(1)) {
                bytes[place..].fill(7);
                assert_eq!(first_not_zero(&bytes), Some(place));
                bytes[place..].fill(0);
            }
        }
    }
}
