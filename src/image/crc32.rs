//! CRC-32 as GPT uses it (UEFI 2.10, section 5.3: the CCITT32 polynomial, reflected, 0xEDB88320).
//!
//! Owns: the checksum over slices. One table of 256 entries is plenty for the 16 KiB of a
//! partition table; nothing longer is summed here.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut out = [0; 256];
    let mut i = 0;
    let mut seed: u32 = 0;
    while i < 256 {
        let mut value = seed;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xEDB8_8320 } else { value >> 1 };
            bit += 1;
        }
        out[i] = value;
        i += 1;
        seed += 1;
    }
    out
}

/// The CRC-32 of `bytes`.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc = (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
