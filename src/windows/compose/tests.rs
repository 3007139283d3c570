//! Images of sticks from discs in memory.

use std::io::{self, Read, Write};

use super::*;
use crate::digest::ranges::Mapped;
use crate::image::{ReadAt, View, inspect};
use crate::source::Source;
use crate::windows::composed::ComposedSource;
use crate::windows::tree::{Node, Run};

/// A disc in memory; a byte is its offset, or the file's number where `data` has nothing.
#[derive(Debug, Default)]
pub(crate) struct FakeDisc {
    nodes: Vec<Node>,
    data: BTreeMap<usize, Vec<u8>>,
}

impl FakeDisc {
    pub(crate) fn with(mut self, path: &str, data: Option<Vec<u8>>) -> Self {
        let len = data.as_ref().map(|data| data.len() as u64);
        self.data.extend(data.map(|data| (self.nodes.len(), data)));
        self.sized(path, len)
    }

    pub(crate) fn sized(mut self, path: &str, len: Option<u64>) -> Self {
        let runs = len.map(|len| Run { at: Some(0), len }).into_iter().collect();
        self.nodes.push(Node { path: path.to_owned(), len, mtime: 1_600_000_000, runs });
        self
    }
}

impl Disc for FakeDisc {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }
    fn read_at(&self, file: usize, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(data) = self.data.get(&file) {
            // Short reads, as they may be.
            let len = buf.len().min(1000);
            return crate::image::Bytes(data).read_at(offset, &mut buf[..len]);
        }
        let len = self.nodes[file].len.unwrap().saturating_sub(offset);
        let len = usize::try_from(len).unwrap_or(buf.len()).min(buf.len());
        buf[..len].fill(u8::try_from(file).unwrap());
        Ok(len)
    }
}

pub(crate) fn options(mib: u64, sector: u32, table: Kind) -> Options {
    Options {
        device: Device { size: mib * MIB, sector },
        table,
        label: "CCCOMA_X64FRE".to_owned(),
        seed: *b"sixteen bytes!!!",
        part_limit: None,
    }
}

pub(crate) fn small() -> FakeDisc {
    let data = |len: u32| (0..len).map(|i| i.wrapping_mul(77).to_le_bytes()[1]).collect();
    FakeDisc::default()
        .with("bootmgr", Some(data(400_000)))
        .with("sources", None)
        .with("sources/boot.wim", Some(data(1_000_001)))
        .with("sources/Gr\u{f6}\u{df}e \u{65e5}\u{672c}.txt", Some(b"unicode".to_vec()))
        .with("sources/empty", Some(Vec::new()))
}

#[test]
fn the_image_is_its_extents_and_zeros() {
    for (sector, table, mib) in
        [(512, Kind::Gpt, 64), (512, Kind::Mbr, 65), (4096, Kind::Gpt, 300), (4096, Kind::Mbr, 300)]
    {
        let disc = Arc::new(small());
        let mut host = tempfile::NamedTempFile::new().unwrap();
        host.write_all(b"from the host").unwrap();
        let added = [
            Added {
                path: "autounattend.xml".to_owned(),
                body: Body::Bytes(b"<xml/>".to_vec()),
                mtime: 0,
                replaces: false,
            },
            host_file(host.path().to_owned(), "SOURCES/new/driver.inf".to_owned(), 0).unwrap(),
        ];
        let plan = plan(&*disc, &added, &options(mib, sector, table)).unwrap();
        assert!(plan.notes[0].contains("'CCCOMA_X64F'"));
        let source = ComposedSource::new(&plan, disc.clone(), "stick").unwrap();
        assert_eq!(source.info().len, Some(mib * MIB));
        let mut all = Vec::new();
        source.open().unwrap().read_to_end(&mut all).unwrap();
        assert_eq!(all.len() as u64, mib * MIB);
        let image = source.positional().unwrap();
        let view = View::new(&*image);
        assert_eq!(view.some(3 * MIB - 7, 5000).unwrap(), all[3 * (1 << 20) - 7..][..5000]);
        let ranges = source.mapped().unwrap();
        let mut before = 0;
        for Mapped { bytes, digest } in ranges.iter() {
            assert!(bytes.start > before || before == 0);
            assert_eq!((bytes.start % u64::from(sector), bytes.end % u64::from(sector)), (0, 0));
            let (from, to) = (before.try_into().unwrap(), bytes.start.try_into().unwrap());
            let gap: std::ops::Range<usize> = from..to;
            assert!(all[gap].iter().all(|b| *b == 0));
            (before, _) = (bytes.end, digest);
        }
        assert_eq!((ranges[0].bytes.start, before), (0, mib * MIB));
        assert!(
            ranges[0].bytes.end >= MIB && ranges.last().unwrap().bytes.start <= (mib - 1) * MIB
        );
        let paths: Vec<_> = plan.files.iter().map(|f| (f.path.as_str(), f.origin)).collect();
        assert!(paths.contains(&("sources/new/driver.inf", Origin::Added)), "{paths:?}");
        for file in &plan.files {
            let want = match file.path.as_str() {
                "autounattend.xml" => b"<xml/>".to_vec(),
                "sources/new/driver.inf" => b"from the host".to_vec(),
                path => {
                    let at = disc.nodes().iter().position(|node| node.path == path).unwrap();
                    disc.data[&at].clone()
                }
            };
            let at = file.at.map_or(0, |at| usize::try_from(at).unwrap());
            assert_eq!(all[at..at + want.len()], want, "{}", file.path);
        }
        let info = inspect(&crate::image::Bytes(&all), "stick").unwrap();
        if table == Kind::Gpt || sector == 512 {
            let fs = info.table.unwrap().partitions[0].fs.clone().unwrap();
            assert_eq!(fs.kind, crate::image::FsKind::Fat32);
        }
    }
}

#[test]
fn what_cannot_work_is_refused_with_numbers_and_paths() {
    let options = |mib| options(mib, 512, Kind::Gpt);
    let message = |disc: &FakeDisc, added: &[Added], mib| {
        plan(disc, added, &options(mib)).unwrap_err().to_string()
    };
    let large = FakeDisc::default().with("sources", None);
    let large = |name: &str| {
        FakeDisc { nodes: large.nodes.clone(), ..FakeDisc::default() }.sized(name, Some(5 << 30))
    };
    let got = message(&large("sources/install.esd"), &[], 9000);
    assert!(got.contains("solid") && got.contains("wimlib-imagex export"), "{got}");
    let got = message(&large("sources/install.wim"), &[], 9000);
    assert!(got.contains("cannot be split: it is no WIM"), "{got}");
    let got = message(&large("sources/other"), &[], 9000);
    assert!(got.contains("sources/other: 5368709120 bytes"), "{got}");
    let got = message(&FakeDisc::default().sized("a", Some(500 * MIB)), &[], 400);
    assert!(got.contains("the files need 5242") && got.contains("the volume has 4"), "{got}");
    assert!(message(&small(), &[], 20).contains("FAT32 has 65525 clusters"), "20 MiB");
    let twice = small().with("sources/BOOT.WIM", Some(vec![1]));
    assert!(message(&twice, &[], 64).contains("the same name as"), "case");
    let add = |path: &str, replaces| Added {
        path: path.to_owned(),
        body: Body::Bytes(vec![1]),
        mtime: 0,
        replaces,
    };
    assert!(message(&small(), &[add("BOOTMGR", false)], 64).contains("on the disc already"));
    assert!(message(&small(), &[add("sources", true)], 64).contains("on the disc already"));
    assert!(message(&small(), &[add("x", true), add("X", true)], 64).contains("twice"));
    assert!(message(&small(), &[add("bootmgr/x", true)], 64).contains("no such directory"));
    assert!(message(&small(), &[add("a:b", true)], 64).contains("forbids ':'"));
    let plan = plan(&small(), &[add("BOOTMGR", true)], &options(64)).unwrap();
    assert!(plan.notes.iter().any(|note| note.contains("replaces")));
    assert_eq!(plan.files.iter().filter(|file| key(&file.path) == "bootmgr").count(), 1);
}

#[test]
fn a_disc_that_ends_early_is_an_error() {
    let mut disc = small();
    disc.data.get_mut(&2).unwrap().truncate(5000);
    let disc = Arc::new(disc);
    let plan = plan(&*disc, &[], &options(64, 512, Kind::Gpt)).unwrap();
    let source = ComposedSource::new(&plan, disc, "stick").unwrap();
    let e = io::copy(&mut source.open().unwrap(), &mut io::sink()).unwrap_err();
    assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof);
}
