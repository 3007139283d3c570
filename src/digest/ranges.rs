//! SHA-256 of an image: of all its bytes, or of the stretches that a block map names, each hashed
//! once. The digest of a stretch is compared with the published one as soon as it is complete;
//! SHA-256 over these digests stands for all stretches, on both sides of a write. Pure.

use std::ops::Range;
use std::sync::Arc;

use sha1::Digest as _;

use super::{Hasher, Sha2, Sha256};

/// A stretch with data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Bytes of the image.
    pub bytes: Range<u64>,
    /// Its published digest, lower-case hex: 64 digits of SHA-256, or 40 of SHA-1.
    pub digest: Option<String>,
}

/// Bytes of all stretches.
pub fn mapped(ranges: &[Mapped]) -> u64 {
    ranges.iter().map(|range| range.bytes.end - range.bytes.start).sum()
}

/// Whether every stretch has a digest that proves something: SHA-1 finds damage alone.
pub fn proves(ranges: &[Mapped]) -> bool {
    ranges.iter().all(|range| range.digest.as_ref().is_some_and(|hex| hex.len() == 64))
}

/// A stretch that is not the published one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Bytes of the image.
    pub bytes: Range<u64>,
    /// Its digest, hex.
    pub has: String,
    /// The published one.
    pub wanted: String,
}

/// What the bytes of an image came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageDigest {
    /// What has to be equal on the medium: over all bytes, or over the digests (32 bytes each) of
    /// the stretches.
    pub proof: Sha256,
    /// Whether the stretches alone count.
    pub mapped: bool,
    /// Over all bytes, when it was computed.
    pub whole: Option<Sha256>,
}

/// Hashes an image from its first byte to its last.
#[derive(Clone, Debug)]
pub struct ImageHasher {
    whole: Option<Hasher>,
    ranges: Option<Ranges>,
}

impl ImageHasher {
    /// Of these stretches, in ascending order; of all bytes where there are none, or when that
    /// digest is wanted as well.
    pub fn new(ranges: Option<Arc<[Mapped]>>, whole: bool) -> Self {
        let whole = (whole || ranges.is_none()).then(Hasher::default);
        Self { whole, ranges: ranges.map(Ranges::new) }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        if let Some(whole) = &mut self.whole {
            whole.update(bytes);
        }
        if let Some(ranges) = &mut self.ranges {
            ranges.update(bytes);
        }
    }

    /// What decides about the medium, as far as it got.
    #[must_use]
    pub fn state(&self) -> Self {
        let whole = self.whole.clone().filter(|_| self.ranges.is_none());
        Self { whole, ranges: self.ranges.clone() }
    }

    /// Whether as many bytes led to the same state. SHA-1 proves nothing, and is left out.
    pub fn same(&self, other: &Self) -> bool {
        let whole = match (&self.whole, &other.whole) {
            (Some(own), Some(other)) => own.same(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        let ranges = match (&self.ranges, &other.ranges) {
            (Some(own), Some(other)) => {
                (own.at, own.next) == (other.at, other.next)
                    && own.sha256.same(&other.sha256)
                    && own.all.same(&other.all)
            }
            (own, other) => own.is_none() && other.is_none(),
        };
        whole && ranges
    }

    /// The first stretch that was complete and not as published.
    pub fn wrong(&self) -> Option<&Wrong> {
        self.ranges.as_ref()?.wrong.as_ref()
    }

    /// The digests of all bytes so far.
    pub fn finish(self) -> ImageDigest {
        let whole = self.whole.map(Hasher::finish);
        if let Some(ranges) = self.ranges {
            return ImageDigest { proof: ranges.all.finish(), mapped: true, whole };
        }
        let proof = whole.unwrap_or_else(|| Hasher::default().finish());
        ImageDigest { proof, mapped: false, whole }
    }
}

/// The running digest of a stretch, and of those before it.
#[derive(Clone, Debug)]
struct Ranges {
    list: Arc<[Mapped]>,
    at: u64,
    next: usize,
    sha256: Hasher,
    sha1: sha1::Sha1,
    all: Hasher,
    wrong: Option<Wrong>,
}

impl Ranges {
    fn new(ranges: Arc<[Mapped]>) -> Self {
        let (sha256, sha1, all) = Default::default();
        Self { list: ranges, at: 0, next: 0, sha256, sha1, all, wrong: None }
    }

    fn update(&mut self, mut bytes: &[u8]) {
        let ranges = Arc::clone(&self.list);
        while let Some(Mapped { bytes: range, digest }) = ranges.get(self.next) {
            let mapped = range.start <= self.at;
            let until = if mapped { range.end } else { range.start };
            let len = usize::try_from(until - self.at).unwrap_or(bytes.len()).min(bytes.len());
            let (now, later) = bytes.split_at(len);
            (bytes, self.at) = (later, self.at + len as u64);
            if mapped {
                self.sha256.update(now);
                if digest.as_ref().is_some_and(|hex| hex.len() == 40) {
                    self.sha1.update(now);
                }
            }
            if self.at < until {
                return;
            }
            if mapped {
                self.complete(&ranges[self.next]);
            }
        }
        self.at += bytes.len() as u64;
    }

    fn complete(&mut self, range: &Mapped) {
        let sha256 = std::mem::take(&mut self.sha256).finish();
        let sha1 = std::mem::take(&mut self.sha1).finalize();
        self.all.update(&sha256.0);
        self.next += 1;
        let Some(wanted) = &range.digest else { return };
        let has = match wanted.len() {
            40 => Sha2::<20>::from(<[u8; 20]>::from(sha1)).to_string(),
            _ => sha256.to_string(),
        };
        if has != *wanted && self.wrong.is_none() {
            self.wrong = Some(Wrong { bytes: range.bytes.clone(), has, wanted: wanted.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha256(bytes: &[u8]) -> Sha256 {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    fn data() -> Vec<u8> {
        (0..10_000_u32).map(|i| i.wrapping_mul(77).to_le_bytes()[1]).collect()
    }

    fn hashed(ranges: &[Mapped], bytes: &[u8], step: usize) -> ImageHasher {
        let mut hasher = ImageHasher::new(Some(ranges.into()), true);
        bytes.chunks(step).for_each(|part| hasher.update(part));
        hasher
    }

    #[test]
    fn every_stretch_is_hashed_alone_whatever_the_size_of_updates() {
        let data = data();
        let stretches = [0..4096, 4096..4097, 5000..9000, 9999..10_000];
        let part = |range: &Range<u64>| {
            let (from, to) = (range.start.try_into().unwrap(), range.end.try_into().unwrap());
            let range: Range<usize> = from..to;
            sha256(&data[range])
        };
        let all: Vec<u8> = stretches.iter().flat_map(|range| part(range).0).collect();
        let ranges: Vec<Mapped> = stretches
            .iter()
            .map(|range| Mapped { bytes: range.clone(), digest: Some(part(range).to_string()) })
            .collect();
        assert!(proves(&ranges));
        assert_eq!(mapped(&ranges), 4096 + 1 + 4000 + 1);
        for step in [1, 7, 4096, 4999, 20_000] {
            let hasher = hashed(&ranges, &data, step);
            assert_eq!(hasher.wrong(), None, "{step}");
            let (proof, whole) = (sha256(&all), Some(sha256(&data)));
            let want = ImageDigest { proof, mapped: true, whole };
            assert_eq!(hasher.finish(), want, "{step}");
        }
        // The states on the way tell whether bytes are those, from anywhere on.
        let mut hasher = ImageHasher::new(Some(ranges.as_slice().into()), true);
        for part in data.chunks(1000) {
            let mut again = hasher.state();
            let mut other = hasher.state();
            hasher.update(part);
            again.update(part);
            assert!(again.same(&hasher.state()) && !other.same(&hasher.state()));
            other.update(&part[1..]);
            assert!(!other.same(&hasher.state()));
        }
        // What lies between does not count, what lies in them does.
        let mut other = data.clone();
        other[4500] ^= 1;
        let between = hashed(&ranges, &other, 512);
        assert_eq!((between.wrong(), between.clone().finish().proof), (None, sha256(&all)));
        other[8999] ^= 1;
        let within = hashed(&ranges, &other, 512);
        assert_eq!(within.wrong().unwrap().bytes, 5000..9000);
        assert_ne!(within.finish().proof, sha256(&all));
    }

    #[test]
    fn sha1_and_no_digest_are_known_and_prove_nothing() {
        let sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d".to_owned();
        let of = |digest| [Mapped { bytes: 1..4, digest }];
        for (ranges, wrong) in [
            (of(Some(sha1.clone())), false),
            (of(Some(sha1.replace('a', "b"))), true),
            (of(None), false),
        ] {
            assert!(!proves(&ranges));
            assert_eq!(hashed(&ranges, b"xabcx", 2).wrong().is_some(), wrong);
        }
    }

    #[test]
    fn without_stretches_all_bytes_count() {
        let mut hasher = ImageHasher::new(None, false);
        hasher.update(b"abc");
        let digest = hasher.finish();
        let (proof, whole) = (sha256(b"abc"), Some(sha256(b"abc")));
        assert_eq!(digest, ImageDigest { proof, mapped: false, whole });
        let digest = ImageHasher::new(Some(Arc::from([])), false).finish();
        assert_eq!(digest.whole, None, "not computed");
        assert_eq!(digest.proof, sha256(b""));
    }
}
