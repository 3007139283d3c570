//! Starts guests, talks with them over files and QMP, and reads what they left behind.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mediawriter::event::Phase;
use mediawriter::report::record::RunRecord;
use nix::fcntl::{Flock, FlockArg};

use crate::lab::{find, noise, skip};

/// The outcome of what several tests share. `Err` is why the guest could not do its work.
pub type Shared<T> = Result<T, Trouble>;

/// Why there is nothing to look at.
#[derive(Debug)]
pub enum Trouble {
    /// This machine cannot run guests.
    Skip(String),
    /// It can, and it went wrong.
    Failed(String),
}

fn failed(why: impl Into<String>) -> Trouble {
    Trouble::Failed(why.into())
}

/// What a test looks at; `None` after the reason for skipping was printed.
pub fn usable<T>(shared: &Shared<T>) -> Option<&T> {
    match shared {
        Ok(done) => Some(done),
        Err(Trouble::Failed(why)) => panic!("{why}"),
        Err(Trouble::Skip(reason)) => {
            skip(reason);
            None
        }
    }
}

/// One emulated machine at a time: each takes all processors.
static ONE: Mutex<()> = Mutex::new(());

/// Held while a machine runs; other processes that run these tests wait as well.
pub struct Turn {
    _here: MutexGuard<'static, ()>,
    _everywhere: Flock<File>,
}

/// Waits for the turn.
pub fn turn() -> Turn {
    let here = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let file = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("machine.lock")).unwrap();
    let everywhere = Flock::lock(file, FlockArg::LockExclusive).unwrap();
    Turn { _here: here, _everywhere: everywhere }
}

/// A program of tests/lab.
pub fn tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab").join(name)
}

/// Why guests cannot run here, if so.
fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("guests need root (tests/lab/README.md)".to_owned());
    }
    let tools = [
        "qemu-system-x86_64",
        "python3",
        "busybox",
        "cpio",
        "depmod",
        "mdadm",
        "cryptsetup",
        "lvm",
        "dash",
    ];
    let lacking: Vec<&str> = tools.into_iter().filter(|tool| find(tool).is_none()).collect();
    (!lacking.is_empty())
        .then(|| format!("not installed: {} (tests/lab/packages.txt)", lacking.join(", ")))
}

/// The statically linked program: `MEDIAWRITER_STATIC`, else built here, once.
fn program() -> Result<PathBuf, Trouble> {
    if let Some(given) = std::env::var_os("MEDIAWRITER_STATIC") {
        let given = PathBuf::from(given);
        return if given.is_file() {
            Ok(given)
        } else {
            Err(failed(format!("MEDIAWRITER_STATIC: there is no {}", given.display())))
        };
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = "x86_64-unknown-linux-gnu";
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--target", target, "--target-dir", "target/static"])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(root)
        .output()
        .map_err(|e| failed(format!("cargo: {e}")))?;
    if !built.status.success() {
        return Err(failed(format!(
            "the static build failed:\n{}",
            String::from_utf8_lossy(&built.stderr)
        )));
    }
    Ok(root.join("target/static").join(target).join("release/mediawriter"))
}

/// A folder for a guest, with the program in it; its old contents are gone.
pub fn folder(name: &str) -> Result<PathBuf, Trouble> {
    if let Some(reason) = missing() {
        return Err(Trouble::Skip(reason));
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guest-{name}"));
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    fs::copy(program()?, folder.join("mediawriter"))
        .map_err(|e| failed(format!("cannot copy the program: {e}")))?;
    Ok(folder)
}

/// A running guest. Killed with the test that started it.
pub struct Machine {
    folder: PathBuf,
    child: Child,
    end: Instant,
    _turn: Turn,
}

/// What a guest is made of.
pub struct Setup<'a> {
    /// From [`folder`].
    pub folder: PathBuf,
    /// What it runs, behind lib.sh.
    pub script: &'a str,
    /// Options of QEMU, in which `DIR` stands for the folder.
    pub options: &'a str,
    /// MiB; with 1024 it need not boot.
    pub memory: u32,
    /// Seconds until it is killed.
    pub seconds: u64,
}

impl Machine {
    /// Boots it.
    pub fn start(setup: Setup<'_>) -> Result<Self, Trouble> {
        let Setup { folder, script, options, memory, seconds } = setup;
        let turn = turn();
        fs::write(folder.join("guest.sh"), [include_str!("lib.sh"), script].concat()).unwrap();
        let options = options.replace("DIR", &folder.to_string_lossy());
        let console = File::create(folder.join("console")).unwrap();
        let child = Command::new(tool("usbvm"))
            .arg(&folder)
            .args(options.split_ascii_whitespace())
            .env("USBVM_MEM", memory.to_string())
            .env("USBVM_QMP", folder.join("qmp"))
            .stdin(Stdio::null())
            .stderr(console.try_clone().unwrap())
            .stdout(console)
            .spawn()
            .map_err(|e| failed(format!("usbvm: {e}")))?;
        let end = Instant::now() + Duration::from_secs(seconds);
        Ok(Self { folder, child, end, _turn: turn })
    }

    fn console(&self) -> String {
        let console = fs::read(self.folder.join("console")).unwrap_or_default();
        String::from_utf8_lossy(&console).into_owned()
    }

    /// Waits for a file that the guest makes.
    pub fn wait_for(&mut self, file: &str) -> Result<(), Trouble> {
        while !self.folder.join(file).exists() {
            if self.child.try_wait().unwrap().is_some() || Instant::now() > self.end {
                return Err(failed(format!("waited for {file}, and:\n{}", self.console())));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Makes a file that the guest waits for.
    pub fn tell(&self, file: &str) {
        File::create(self.folder.join(file)).unwrap();
    }

    /// One QMP command.
    pub fn qmp(&self, command: &str, arguments: &str) -> Result<String, Trouble> {
        let said = Command::new(tool("qmp.py"))
            .arg(self.folder.join("qmp"))
            .args([command, arguments])
            .output()
            .map_err(|e| failed(format!("qmp.py: {e}")))?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        if said.status.success() {
            Ok(text)
        } else {
            let why = String::from_utf8_lossy(&said.stderr);
            Err(failed(format!("{command} {arguments}: {text}{why}")))
        }
    }

    /// Waits for the end of its script.
    pub fn finish(mut self) -> Result<Guest, Trouble> {
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > self.end {
                return Err(failed(format!("the guest did not end in time:\n{}", self.console())));
            }
            thread::sleep(Duration::from_millis(50));
        }
        let console = self.console();
        if console.lines().any(|line| line.trim_end() == "GUEST-RC=0") {
            Ok(Guest { folder: self.folder.clone(), console })
        } else {
            Err(failed(format!("the guest's script did not succeed:\n{console}")))
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // usbvm became QEMU by exec, so this ends QEMU.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What a guest left behind.
#[derive(Debug)]
pub struct Guest {
    /// The folder it shared.
    pub folder: PathBuf,
    /// What its script printed.
    pub console: String,
}

impl Guest {
    /// Text of a result.
    pub fn text(&self, name: &str) -> String {
        let path = self.folder.join("out").join(name);
        let text =
            fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}\n{}", path.display(), self.console));
        String::from_utf8_lossy(&text).trim_end().to_owned()
    }

    /// A result that is a number.
    pub fn number(&self, name: &str) -> u64 {
        let text = self.text(name);
        text.parse().unwrap_or_else(|_| panic!("{name}: {text}"))
    }

    /// A run of the program.
    pub fn run(&self, name: &str) -> Run {
        let code = self.text(&format!("{name}.rc")).parse().unwrap();
        let said = |what: &str| self.text(&format!("{name}.{what}"));
        Run { name: name.to_owned(), code, out: said("out"), err: said("err") }
    }

    /// The record that a run wrote.
    pub fn record(&self, name: &str) -> RunRecord {
        RunRecord::parse(self.text(&format!("{name}.json")).as_bytes()).unwrap()
    }

    /// The rows of one phase in the log of a run: seconds and bytes, one row a second.
    pub fn rows(&self, name: &str, phase: Phase) -> Vec<Row> {
        let log = self.text(&format!("{name}.csv"));
        let cells = |line: &str| line.split(',').map(ToOwned::to_owned).collect::<Vec<_>>();
        let rows: Vec<_> = log
            .lines()
            .skip(1)
            .map(cells)
            .filter(|cells| cells[0] == phase.name())
            .map(|cells| Row {
                second: cells[1].parse().unwrap(),
                bytes: cells[3].parse().unwrap(),
            })
            .collect();
        assert!((0..).zip(&rows).all(|(n, row)| row.second == n), "a gap in the log:\n{log}");
        rows
    }

    /// A file of the shared folder.
    pub fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.join(name)).unwrap()
    }

    /// Fields of /sys/block/*/stat: bytes read and bytes written.
    pub fn counters(&self, name: &str) -> (u64, u64) {
        let text = self.text(name);
        let fields: Vec<u64> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
        // Documentation/block/stat.rst: sectors are of 512 bytes whatever the device has.
        (fields[2] * 512, fields[6] * 512)
    }

    /// Whether the medium behind a disk begins with the image.
    pub fn holds(&self, disk: &str, image: &str) -> bool {
        self.file(disk).starts_with(&self.file(image))
    }
}

/// One row of a log.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Since the phase began.
    pub second: u64,
    /// Completed in it.
    pub bytes: u64,
}

/// How a run of the program ended.
#[derive(Debug)]
pub struct Run {
    name: String,
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Run {
    /// Checks the exit code.
    #[track_caller]
    pub fn ends_with(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{}:\n{}\n{}", self.name, self.out, self.err);
        self
    }

    /// Checks that all these words were said, on either stream.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Self {
        let said = format!("{}\n{}", self.out, self.err);
        for word in words {
            assert!(said.contains(word), "{} does not say '{word}':\n{said}", self.name);
        }
        self
    }

    /// Checks that none of these words was said.
    #[track_caller]
    pub fn never_says(&self, words: &[&str]) -> &Self {
        let said = format!("{}\n{}", self.out, self.err);
        for word in words {
            assert!(!said.contains(word), "{} says '{word}':\n{said}", self.name);
        }
        self
    }
}

/// Boots the file behind a disk (tests/lab/boottest.py, which leaves it as it is), and wants the
/// expected words; returns the seconds it took.
pub fn boot(disk: &Path, arguments: &[&str]) -> f64 {
    let _turn = turn();
    let test = Command::new(tool("boottest.py"))
        .arg(disk)
        .args(["--timeout", "240"])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&test.stdout);
    let seen = String::from_utf8_lossy(&test.stderr);
    assert!(test.status.success(), "{} {arguments:?}:\n{said}{seen}", disk.display());
    let line: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    line["seconds"].as_f64().unwrap()
}

/// Makes a backing file of this size, filled with what is no zeros, so that every block of it is
/// there.
pub fn old_disk(path: &Path, bytes: u64) {
    fs::write(path, noise(bytes, 7)).unwrap();
    File::open(path).unwrap().sync_all().unwrap();
}

/// Makes a sparse backing file.
pub fn sparse(path: &Path, bytes: u64) {
    File::create(path).unwrap().set_len(bytes).unwrap();
}
