//! What a benchmark writes: bytes that do not compress, that are different everywhere, and that
//! say where they belong, so that every test can be checked. Made several times faster than any
//! stick writes: a table of random words, copied and XORed with a key of the sector.
//!
//! ```text
//! sector of 512 bytes, words of 8 bytes, little endian
//! | "MWBENCH1" | offset on the medium | seed | table[start..] ^ key ... | last word, top byte 0 |
//! ```
//! The zero byte at the end keeps a first sector from ever looking like a boot sector (55 AA).

use crate::units::MIB;

/// Bytes that carry a stamp of their own.
pub const SECTOR: usize = 512;
const WORDS: usize = SECTOR / 8;
const MAGIC: u64 = u64::from_le_bytes(*b"MWBENCH1");
/// Words of the table: 64 KiB, so that it stays in a second-level cache.
const TABLE: usize = 8192;

/// The data of one run.
#[derive(Clone)]
pub struct Data {
    seed: u64,
    table: Box<[u64]>,
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Data(seed {})", self.seed)
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): one step of the state, one output.
pub(super) fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Data {
    /// Data of a seed. Two runs with different seeds have nothing in common, so what an earlier
    /// run left behind is never taken for what this one wrote.
    pub fn new(seed: u64) -> Self {
        let word = |index: u64| mix(mix(seed) ^ index);
        Self { seed, table: (0..(TABLE + WORDS) as u64).map(word).collect() }
    }

    /// The key of a sector, and where in the table it begins.
    fn key(&self, offset: u64) -> (u64, usize) {
        let key = mix(self.seed ^ mix(offset));
        (key, usize::try_from(key % TABLE as u64).unwrap_or(0))
    }

    /// Fills whole sectors that belong at `offset`.
    pub fn fill(&self, offset: u64, buf: &mut [u8]) {
        let mut at = offset;
        for sector in buf.chunks_exact_mut(SECTOR) {
            let (key, start) = self.key(at);
            let words = &self.table[start..start + WORDS];
            for (out, word) in sector.chunks_exact_mut(8).zip(words) {
                out.copy_from_slice(&(word ^ key).to_le_bytes());
            }
            sector[..8].copy_from_slice(&MAGIC.to_le_bytes());
            sector[8..16].copy_from_slice(&at.to_le_bytes());
            sector[16..24].copy_from_slice(&self.seed.to_le_bytes());
            sector[SECTOR - 1] = 0;
            at += SECTOR as u64;
        }
    }

    /// Whether every whole sector of `buf`, read at `offset`, holds what [`Data::fill`] put there.
    pub fn is_at(&self, offset: u64, buf: &[u8]) -> bool {
        let mut at = offset;
        buf.chunks_exact(SECTOR).all(|sector| {
            let (key, start) = self.key(at);
            let words = &self.table[start..start + WORDS];
            let word = |index: usize| {
                let bytes = &sector[8 * index..8 * index + 8];
                u64::from_le_bytes(bytes.try_into().unwrap_or_default())
            };
            let stamp = (word(0) ^ MAGIC) | (word(1) ^ at) | (word(2) ^ self.seed);
            // One sum over all words is a loop that the compiler turns into vector code.
            let body = (3..WORDS - 1).fold(0, |sum, i| sum | (word(i) ^ words[i] ^ key));
            let last = word(WORDS - 1) ^ ((words[WORDS - 1] ^ key) & (u64::MAX >> 8));
            at += SECTOR as u64;
            stamp | body | last == 0
        })
    }

    /// Where a sector that this run wrote belongs, wherever it was read.
    pub fn origin(&self, sector: &[u8]) -> Option<u64> {
        let at = u64::from_le_bytes(sector.get(8..16)?.try_into().ok()?);
        // No sector lies so near the end of all numbers; bytes that are all ones say it does.
        let sane = sector.len() == SECTOR && at.checked_add(SECTOR as u64).is_some();
        (sane && self.is_at(at, sector)).then_some(at)
    }

    /// Bytes a second that [`Data::fill`] makes here, measured over a few MiB with `now`.
    pub fn speed(&self, now: impl Fn() -> std::time::Duration) -> Option<u64> {
        let mut buf = vec![0; usize::try_from(MIB).ok()?];
        self.fill(0, &mut buf);
        let rounds: u64 = 16;
        let start = now();
        for round in 0..rounds {
            self.fill(round * MIB, &mut buf);
            std::hint::black_box(&mut buf);
        }
        let nanos = now().saturating_sub(start).as_nanos();
        let speed = u128::from(rounds * MIB) * 1_000_000_000;
        speed.checked_div(nanos).and_then(|speed| u64::try_from(speed).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sector_is_its_own_and_one_wrong_bit_or_place_is_seen() {
        let data = Data::new(7);
        let mut buf = vec![0; 8 * SECTOR];
        data.fill(1 << 20, &mut buf);
        assert!(data.is_at(1 << 20, &buf));
        assert!(!data.is_at((1 << 20) + 512, &buf), "written elsewhere: a wrapped fake");
        assert_eq!(data.origin(&buf[512..1024]), Some((1 << 20) + 512));
        assert_eq!(Data::new(8).origin(&buf[512..1024]), None);
        assert_eq!(data.origin(&[0xff; SECTOR]), None);
        assert!(!Data::new(8).is_at(1 << 20, &buf), "left over from another run");
        for bit in (0..buf.len() * 8).step_by(61) {
            buf[bit / 8] ^= 1 << (bit % 8);
            assert!(!data.is_at(1 << 20, &buf), "bit {bit}");
            buf[bit / 8] ^= 1 << (bit % 8);
        }
        let sectors: std::collections::BTreeSet<&[u8]> = buf.chunks(SECTOR).collect();
        assert_eq!(sectors.len(), 8);
    }

    #[test]
    fn it_does_not_compress_and_never_looks_bootable() {
        let mut buf = vec![0; 1 << 20];
        Data::new(3).fill(0, &mut buf);
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &buf).unwrap();
        let packed = packed.finish().unwrap().len();
        assert!(packed > buf.len() * 95 / 100, "{packed} of {}", buf.len());
        for seed in 0..2_000 {
            let mut sector = [0; SECTOR];
            Data::new(seed).fill(0, &mut sector);
            assert_eq!(sector[511], 0);
        }
    }
}
