//! A directory to work in, tools that may be missing, and the two referees.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mediawriter::image::{FileImage, ImageInfo, ReadAt, inspect, signatures};

/// A directory of its own, removed at the end.
pub(crate) struct Lab(PathBuf);

impl Lab {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("image-tools-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn sparse(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(mib << 20).unwrap();
        path
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let places = path.split(':').chain(["/usr/sbin", "/sbin"]);
    let found = places.map(|dir| Path::new(dir).join(name)).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("SKIP {name}: not installed");
    }
    found
}

/// Runs a command line split at blanks; `None` when the tool is missing.
pub(crate) fn run(line: &str) -> Option<Output> {
    let mut words = line.split_whitespace();
    let program = tool(words.next().unwrap())?;
    let out = Command::new(program).args(words).output().unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    Some(out)
}

pub(crate) fn look(path: &Path) -> ImageInfo {
    let image = FileImage::new(File::open(path).unwrap()).unwrap();
    inspect(&image, path.to_str().unwrap()).unwrap()
}

pub(crate) fn blkid(path: &Path, key: &str) -> Option<String> {
    let out = Command::new(tool("blkid")?)
        .args(["-p", "-s", key, "-o", "value"])
        .arg(path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Everything that wipefs lists is listed, at the same place; returns what is listed besides.
pub(crate) fn same_as_wipefs(path: &Path) -> Vec<(u64, &'static str)> {
    let image = FileImage::new(File::open(path).unwrap()).unwrap();
    let ours = signatures(&image, image.size().unwrap(), 512).unwrap();
    let Some(wipefs) = tool("wipefs") else {
        return Vec::new();
    };
    let args = ["-n", "--noheadings", "--output", "OFFSET,LENGTH,TYPE"];
    let out = Command::new(wipefs).args(args).arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut theirs = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [offset, length, name] = fields[..] else { panic!("{line}") };
        let offset = u64::from_str_radix(offset.trim_start_matches("0x"), 16).unwrap();
        theirs.push((offset, length.parse::<u64>().unwrap(), name.to_owned()));
    }
    for (offset, len, name) in &theirs {
        let found = ours.iter().any(|s| s.offset == *offset && s.len == *len && s.name == name);
        assert!(found, "{}: wipefs has {name} at {offset:#x}+{len}: {ours:x?}", path.display());
    }
    let extra = ours.iter().filter(|s| !theirs.iter().any(|t| t.0 == s.offset && t.2 == s.name));
    extra.map(|s| (s.offset, s.name)).collect()
}
