//! Where outputs may go: every option that makes or replaces a file, times everything that can be
//! there already, for root, for root on behalf of a user, and for a user. docs/safety.md has the
//! table; the sizes of the product are asserted.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::lab::{self, LoopDev, MIB, PROGRAM, clean, code, disk_image, lab_has, put, sh};
use crate::same_storage::Holder;
use crate::server::{Reply, Server};

/// Nobody's name but that of these tests.
const BELOW_DEV: &str = "/dev/mediawriter-test-output";

/// Nobody's number but that of these tests.
const USER: u32 = 54_321;

/// How an option takes what is no file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Text: written into pipes as well; a file is replaced.
    Text,
    /// A file of its own, which replaces another.
    Whole,
    /// A file of its own, and nothing may be there.
    New,
}

/// An option, the way it takes things, a command line with it, and what the output's name has behind
/// `{}`.
type Opt = (&'static str, Form, &'static str, &'static str);

const OPTIONS: &[Opt] = &[
    ("flash --log", Form::Text, "flash image stick --yes --log {}", ""),
    ("flash --record", Form::Text, "flash image stick --yes --record {}", ""),
    ("flash --keep", Form::New, "flash URL stick --yes --keep {}", ""),
    ("flash --create", Form::New, "flash image {} --yes --create 4MiB", ""),
    ("verify --log", Form::Text, "verify done image --log {}", ""),
    ("verify --save-record", Form::Text, "verify done image --save-record {}", ""),
    ("discard --log", Form::Text, "discard stick --yes --log {}", ""),
    ("discard --record", Form::Text, "discard stick --yes --record {}", ""),
    ("bench --log", Form::Text, "bench done --size 1MiB --log {}", ""),
    ("bench --record", Form::Text, "bench done --size 1MiB --record {}", ""),
    ("probe --log", Form::Text, "probe stick --destructive --yes --log {}", ""),
    ("probe --record", Form::Text, "probe stick --destructive --yes --record {}", ""),
    ("clone --log", Form::Text, "clone LOOP stick.img --log {}", ""),
    ("clone --record", Form::Text, "clone LOOP stick.img --record {}", ""),
    ("clone FILE", Form::New, "clone LOOP {}", ""),
    ("clone --overwrite", Form::Whole, "clone LOOP {} --overwrite", ""),
    ("download -o", Form::Whole, "download URL -o {}", ""),
    ("download --log", Form::Text, "download URL -o got --log {}", ""),
    ("download --record", Form::Text, "download URL -o got --record {}", ""),
    ("demo --keep", Form::New, "demo --keep {}", ""),
    ("report -o", Form::Text, "report run.json -o {}", ""),
    ("report --html", Form::Text, "report run.json --html {}", ""),
    ("report --export-hyperfine", Form::Text, "report run.json --export-hyperfine {}", ""),
    ("clone, its map", Form::Whole, "clone LOOP {}.img.zst --overwrite", ".img.bmap"),
    ("report --svg", Form::Whole, "report run.json --svg {}", "-1.svg"),
    ("report --png", Form::Whole, "report run.json --png {}", "-1.png"),
    (
        "report --export-fio",
        Form::Whole,
        "report run.json --export-fio {}",
        "/KIOXIA-EXCERIA-G2-500-GB-in-an-NVMe-case--model--read/read-iodepth-2-numjobs-1.json",
    ),
    (
        "demo --championship",
        Form::Whole,
        "demo --championship --to {}",
        "/image-5g-exceria-g2.json",
    ),
];

/// What is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    Nothing,
    File,
    Null,
    Full,
    Zero,
    Generic,
    Block,
    Fifo,
    FifoNobodyReads,
    Socket,
    Folder,
    DanglingLink,
    LinkToFile,
    LinkToNode,
    LinkToBlock,
    Source,
    SourceByAnotherName,
    Target,
    AnotherOutput,
    BelowDev,
    ReadOnlyFolder,
    FullDisk,
    Attached,
    Swap,
    Locked,
}

const THERE: [There; 25] = [
    There::Nothing,
    There::File,
    There::Null,
    There::Full,
    There::Zero,
    There::Generic,
    There::Block,
    There::Fifo,
    There::FifoNobodyReads,
    There::Socket,
    There::Folder,
    There::DanglingLink,
    There::LinkToFile,
    There::LinkToNode,
    There::LinkToBlock,
    There::Source,
    There::SourceByAnotherName,
    There::Target,
    There::AnotherOutput,
    There::BelowDev,
    There::ReadOnlyFolder,
    There::FullDisk,
    There::Attached,
    There::Swap,
    There::Locked,
];

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Root,
    Sudo,
    User,
}

/// The documented exit code.
fn expected(option: &str, form: Form, there: There) -> i32 {
    use There::{
        AnotherOutput, Block, Fifo, File, Full, FullDisk, LinkToBlock, Nothing, Null,
        ReadOnlyFolder,
    };
    match (there, form) {
        (Nothing, _) | (File, Form::Text | Form::Whole) | (Null | Fifo, Form::Text) => 0,
        // Found before the first byte is fetched.
        (FullDisk, _) if option == "download -o" => 3,
        // Nothing but the output failed, and it was asked for.
        (FullDisk | ReadOnlyFolder, _) | (Full, Form::Text) => 1,
        (AnotherOutput, _) => 2,
        // The words make no sense together: TARGET is a device, and --overwrite is for files.
        (Block | LinkToBlock, _) if option == "clone --overwrite" => 2,
        // The demo's own word for a file that is there.
        (File, Form::New) if option == "demo --keep" => 1,
        _ => 3,
    }
}

/// A private folder with everything that the commands need, and a stick that only these tests have.
struct Desk {
    dir: tempfile::TempDir,
    /// What is copied, where loop devices may be attached by the caller's rights.
    disk: LoopDev,
    server: Arc<Server>,
}

impl Desk {
    fn new(server: &Arc<Server>) -> Self {
        // A mount of its own that has devices and may be full or read-only in parts.
        let dir = lab::target_folder();
        let at = |name: &str| dir.path().join(name);
        put(dir.path(), "image", &disk_image(256 << 10, 5));
        put(dir.path(), "done", &vec![0; 4 << 20]);
        sh(
            "dd",
            &[
                &format!("if={}", at("image").display()),
                &format!("of={}", at("done").display()),
                "conv=notrunc",
                "status=none",
            ],
        );
        put(dir.path(), "stick", &vec![0x5a; 4 << 20]);
        put(dir.path(), "run.json", record());
        let disk = LoopDev::new(2 * MIB);
        Self { dir, disk, server: Arc::clone(server) }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts it there; the path of the output, and what keeps it there.
    fn prepare(&self, there: There, ending: &str) -> (PathBuf, Vec<Box<dyn std::any::Any>>) {
        let name = if ending.is_empty() { "out.txt" } else { "out" };
        let out = self.at(&format!("{name}{ending}"));
        fs::create_dir_all(out.parent().unwrap()).unwrap();
        let node = |kind, major, minor| {
            mknod(&out, kind, Mode::from_bits_truncate(0o666), makedev(major, minor)).unwrap();
        };
        let link = |to: &Path| symlink(to, &out).unwrap();
        let mut keep: Vec<Box<dyn std::any::Any>> = Vec::new();
        match there {
            There::File => fs::write(&out, "of another day").unwrap(),
            There::Null => node(SFlag::S_IFCHR, 1, 3),
            There::Full => node(SFlag::S_IFCHR, 1, 7),
            There::Zero => node(SFlag::S_IFCHR, 1, 5),
            There::Generic => node(SFlag::S_IFCHR, 21, 250),
            There::Block => {
                let rdev = fs::metadata(&self.disk.device).unwrap().rdev();
                node(SFlag::S_IFBLK, nix::sys::stat::major(rdev), nix::sys::stat::minor(rdev));
            }
            There::Fifo | There::FifoNobodyReads => {
                nix::unistd::mkfifo(&out, Mode::from_bits_truncate(0o666)).unwrap();
            }
            There::Socket => node(SFlag::S_IFSOCK, 0, 0),
            There::Folder => fs::create_dir(&out).unwrap(),
            There::DanglingLink => link(&self.at("nowhere")),
            There::LinkToFile => {
                fs::write(self.at("precious"), "precious").unwrap();
                link(&self.at("precious"));
            }
            There::LinkToNode => link(Path::new("/dev/null")),
            There::LinkToBlock => link(Path::new(&self.disk.device)),
            There::Nothing | There::Source | There::AnotherOutput | There::Target => {}
            There::SourceByAnotherName => fs::hard_link(self.at("image"), &out).unwrap(),
            There::BelowDev => {
                return (format!("{BELOW_DEV}{ending}").into(), keep);
            }
            There::ReadOnlyFolder | There::FullDisk => {
                let folder = self.at("folder");
                fs::create_dir(&folder).unwrap();
                return (folder.join(format!("{name}{ending}")), keep);
            }
            There::Attached => {
                fs::write(&out, vec![7; 1 << 20]).unwrap();
                keep.push(Box::new(LoopDev::over(&out, &[])));
            }
            There::Swap => {
                sh(
                    "dd",
                    &[
                        "if=/dev/zero",
                        &format!("of={}", out.display()),
                        "bs=64K",
                        "count=16",
                        "status=none",
                    ],
                );
                fs::set_permissions(&out, std::os::unix::fs::PermissionsExt::from_mode(0o600))
                    .unwrap();
                sh("mkswap", &["-q", out.to_str().unwrap()]);
                sh("swapon", &[out.to_str().unwrap()]);
                keep.push(Box::new(Swapped(out.clone())));
            }
            There::Locked => {
                fs::write(&out, "held").unwrap();
                keep.push(Box::new(Holder::new("fcntl.lockf(f,fcntl.LOCK_EX)", &out)));
            }
        }
        (out, keep)
    }
}

/// A swap file that is switched off in the end.
struct Swapped(PathBuf);

impl Drop for Swapped {
    fn drop(&mut self) {
        Command::new("swapoff").arg(&self.0).status().ok();
    }
}

/// A record of a benchmark.
fn record() -> &'static [u8] {
    static RECORD: OnceLock<Vec<u8>> = OnceLock::new();
    RECORD.get_or_init(|| {
        let dir = lab::folder();
        let path = dir.path().join("run.json");
        let path = path.to_str().unwrap();
        lab::run(&[
            "bench",
            "sim:exceria-g2",
            "--profile",
            "read",
            "--size",
            "1GiB",
            "--record",
            path,
        ])
        .expect(0);
        fs::read(path).unwrap()
    })
}

/// What a name is, without following it: kind, device numbers, inode, and where a link leads.
fn fingerprint(path: &Path) -> String {
    let Ok(meta) = fs::symlink_metadata(path) else { return "nothing".to_owned() };
    let link = fs::read_link(path).map_or_else(|_| String::new(), |to| to.display().to_string());
    format!("{:o} {} {} {link}", meta.mode(), meta.rdev(), meta.ino())
}

/// One run; its exit code, what it said, and what came out of a pipe.
fn run(
    desk: &Desk,
    (command, ending): (&str, &str),
    out: &Path,
    there: There,
    caller: Caller,
) -> (i32, String, Vec<u8>) {
    let url = desk.server.url("/image.img");
    let named = out.to_str().unwrap().strip_suffix(ending).unwrap();
    let word = |word: &str| match word {
        "URL" => url.clone(),
        "LOOP" => desk.disk.device.clone(),
        other => other.replace("{}", named),
    };
    let words: Vec<String> = command.split(' ').map(word).collect();
    let folder = desk.at("folder");
    let mount = match there {
        There::ReadOnlyFolder => format!("mount -t tmpfs -o ro none {}; ", folder.display()),
        There::FullDisk => format!(
            "mount -t tmpfs -o size=64k,mode=777 none {0}; dd if=/dev/zero of={0}/fill bs=4k status=none 2>/dev/null; ",
            folder.display()
        ),
        _ => String::new(),
    };
    let mut run = if mount.is_empty() {
        let mut run = Command::new(PROGRAM);
        run.args(&words);
        run
    } else {
        let mut run = Command::new("unshare");
        run.args(["-m", "sh", "-c", &format!("{mount} exec \"$@\""), "sh", PROGRAM]).args(&words);
        run
    };
    clean(&mut run, desk.dir.path());
    run.env("TMPDIR", desk.dir.path());
    match caller {
        Caller::Root => {}
        Caller::Sudo => {
            run.env("SUDO_UID", USER.to_string()).env("SUDO_GID", USER.to_string());
        }
        Caller::User => {
            run.uid(USER).gid(USER);
        }
    }
    let reader = (there == There::Fifo).then(|| {
        let path = out.to_owned();
        // Opened before the program looks: for both, so that it does not wait for a writer.
        let pipe = File::options().read(true).write(true).open(&path).unwrap();
        (pipe, path)
    });
    let output = run.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let piped = reader.map_or_else(Vec::new, |(pipe, _)| {
        let mut bytes = vec![0; 1 << 16];
        let reader = thread::spawn(move || {
            let flags = nix::fcntl::OFlag::O_NONBLOCK;
            nix::fcntl::fcntl(&pipe, nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
            let n = (&pipe).read(&mut bytes).unwrap_or(0);
            bytes.truncate(n);
            bytes
        });
        reader.join().unwrap()
    });
    let text = [output.stdout, output.stderr].concat();
    (code(output.status), String::from_utf8_lossy(&text).into_owned(), piped)
}

/// Runs one member of the product and compares it with the table; `None` where there is no such member.
fn check(
    server: &Arc<Server>,
    (name, form, command, ending): Opt,
    there: There,
    caller: Caller,
) -> Option<String> {
    let reads = command.contains(" image ") || command.contains("report run.json");
    let skip = match there {
        There::Source => !reads || !ending.is_empty(),
        There::SourceByAnotherName => !reads,
        There::Target => !command.contains(" stick ") && !command.contains(" done "),
        There::AnotherOutput => !command.contains("--log") && !command.contains("--record"),
        // A table of one run fits into 64 KiB less a file; a full disk is one for what is large as well.
        There::Attached | There::Swap | There::Locked => form == Form::New,
        _ => false,
    };
    // Devices and what is root's are refused to a user by the kernel before we could.
    let of_root = caller == Caller::User
        && (command.contains("LOOP")
            || matches!(
                there,
                There::Attached | There::Swap | There::FullDisk | There::ReadOnlyFolder
            ));
    if skip || of_root {
        return None;
    }
    let desk = Desk::new(server);
    let (mut out, keep) = desk.prepare(there, ending);
    let mut command = command.to_owned();
    let source = if command.contains("run.json") { "run.json" } else { "image" };
    match there {
        There::Source => out = desk.at(source),
        There::SourceByAnotherName if source == "run.json" => {
            fs::remove_file(&out).unwrap();
            fs::hard_link(desk.at("run.json"), &out).unwrap();
        }
        There::Target => out = desk.at(if command.contains(" stick ") { "stick" } else { "done" }),
        There::AnotherOutput => {
            let other = if command.contains("--log") { "record" } else { "log" };
            let other = if command.starts_with("verify") && other == "record" {
                "save-record"
            } else {
                other
            };
            command = format!("{command} --{other} {{}}");
        }
        _ => {}
    }
    if caller != Caller::Root {
        sh("chown", &["-R", "-h", &format!("{USER}:{USER}"), desk.dir.path().to_str().unwrap()]);
    }
    let before = fingerprint(&out);
    let precious: Vec<(PathBuf, Vec<u8>)> = ["image", "stick", "done", "run.json", "precious"]
        .iter()
        .map(|name| desk.at(name))
        .filter_map(|path| Some((path.clone(), fs::read(&path).ok()?)))
        .collect();
    let (code, text, piped) = run(&desk, (&command, ending), &out, there, caller);
    let label = format!("{name}, {there:?}, {caller:?}");
    let wanted = expected(name, form, there);
    assert_eq!(code, wanted, "{label}: {text}");
    if !matches!(there, There::Nothing | There::File | There::FullDisk) || code == 3 {
        assert_eq!(fingerprint(&out), before, "{label}: what was there is there no more: {text}");
    }
    if matches!(code, 2 | 3) {
        for (path, bytes) in &precious {
            assert!(
                fs::read(path).unwrap() == *bytes,
                "{label}: {} changed: {text}",
                path.display()
            );
        }
        let file = out.file_name().unwrap().to_str().unwrap();
        // Of what is made in a folder of its own, or beside a file, that is refused.
        let file = if there == There::BelowDev { BELOW_DEV } else { file };
        let named = [file, "source-on-target", "--overwrite is for a FILE"];
        assert!(named.iter().any(|name| text.contains(name)), "{label}: {text}");
    } else {
        let kept = precious.iter().filter(|(path, _)| !path.ends_with("stick"));
        for (path, bytes) in kept {
            assert!(fs::read(path).unwrap() == *bytes, "{label}: {} changed", path.display());
        }
    }
    match (there, code) {
        (There::Fifo, 0) => assert!(!piped.is_empty(), "{label}: nothing came through the pipe"),
        (There::Nothing | There::File, 0) => {
            let meta = fs::symlink_metadata(&out).unwrap();
            assert!(meta.is_file() && meta.len() > 0, "{label}");
            let owner = if caller == Caller::Root { 0 } else { USER };
            assert_eq!(meta.uid(), owner, "{label}");
        }
        (There::Block, _) => {
            assert!(fs::symlink_metadata(&out).unwrap().file_type().is_block_device());
        }
        (There::BelowDev, _) => {
            assert!(!out.exists() && !Path::new(BELOW_DEV).exists(), "{label}");
        }
        _ => {}
    }
    drop(keep);
    Some(label)
}

/// Runs a part of the product on two threads; returns how many members there were.
fn product(options: &[Opt], callers: &[Caller]) -> usize {
    let image = Arc::new(disk_image(256 << 10, 9));
    let server = Arc::new(Server::start(move |request| Reply::good(request, &image, "\"a\"")));
    let mut all = Vec::new();
    for option in options {
        for there in THERE {
            all.extend(callers.iter().map(|caller| (*option, there, *caller)));
        }
    }
    // Every member is tried, and all that are wrong are told.
    let (mut members, mut wrong) = (0, Vec::new());
    thread::scope(|scope| {
        let parts: Vec<_> = all
            .chunks(all.len().div_ceil(2))
            .map(|part| {
                let server = &server;
                let one = move |(option, there, caller): &(_, There, Caller)| {
                    let checked = || check(server, *option, *there, *caller);
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(checked))
                        .map_err(|_| format!("{option:?} {there:?} {caller:?}"))
                };
                scope.spawn(move || part.iter().map(one).collect::<Vec<_>>())
            })
            .collect();
        for result in parts.into_iter().flat_map(|part| part.join().unwrap()) {
            match result {
                Ok(label) => members += usize::from(label.is_some()),
                Err(label) => wrong.push(label),
            }
        }
    });
    assert!(wrong.is_empty(), "{} are not as the table says: {wrong:#?}", wrong.len());
    members
}

fn possible() -> bool {
    lab_has(&["losetup", "unshare", "mount", "mkswap", "swapon", "python3", "dd"])
}

#[test]
fn c01_every_output_goes_only_where_the_table_says() {
    if !possible() {
        return;
    }
    let members = product(OPTIONS, &[Caller::Root]);
    println!("{members} pairs of an option and what is there, as root");
    assert!(members >= 450, "{members}");
}

#[test]
fn c01_on_behalf_of_a_user_and_as_one_the_table_is_the_same() {
    if !possible() {
        return;
    }
    let some = [
        "flash --log",
        "flash --record",
        "flash --keep",
        "download -o",
        "report -o",
        "demo --keep",
    ];
    let options: Vec<_> =
        OPTIONS.iter().filter(|(name, ..)| some.contains(name)).copied().collect();
    let members = product(&options, &[Caller::Sudo, Caller::User]);
    println!("{members} triples of an option, what is there, and a user");
    assert!(members >= 200, "{members}");
}

/// As root, programs have replaced nodes of /dev by files: a device that swallows became one that
/// fills memory (rmlint 763, netdata 21428, OCRmyPDF 1068, kconfiglib in zephyr 31362, bazel 31038,
/// xCAT 7091, Midnight Commander 2012). Here every option gets every name of such a node, with a
/// /dev of its own.
#[test]
fn c01_no_node_of_dev_is_ever_replaced() {
    if !possible() {
        return;
    }
    let image = Arc::new(disk_image(256 << 10, 9));
    let server = Arc::new(Server::start(move |request| Reply::good(request, &image, "\"a\"")));
    let names = [
        "/dev/null",
        "/dev/../dev/./null",
        "/dev/zero",
        "/dev/full",
        "/dev/random",
        "/dev/stdout",
        "/dev/stderr",
        "/dev/fd/1",
        "/proc/self/fd/2",
        "/dev/new",
        "/dev/shm/../new",
        "/dev/disk/by-id/new",
        "way/null",
        "link",
    ];
    // What /dev is made of, and its listing before and after.
    let script = "mount -t tmpfs -o mode=755 none /dev
        for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 /dev/${node%:*} c 1 ${node#*:}; done
        mkdir /dev/shm /dev/disk /dev/disk/by-id
        ln -s /proc/self/fd /dev/fd; ln -s fd/1 /dev/stdout; ln -s fd/2 /dev/stderr
        ln -s /dev way; ln -s /dev/null link
        mknod $LOOP b $MAJOR $MINOR
        list() { find /dev -exec stat -c '%N %F %a %u %t:%T %i' {} + | sort; }
        before=$(list); \"$@\"; code=$?
        [ \"$before\" = \"$(list)\" ] || { echo CHANGED; list; }
        [ -L link ] || echo CHANGED link
        exit $code";
    let mut pairs = 0;
    for (name, form, command, ending) in OPTIONS {
        for out in names {
            // `link` with an ending is a name of its own.
            if out == "link" && !ending.is_empty() || command.contains("{}.") {
                continue;
            }
            let desk = Desk::new(&server);
            let url = desk.server.url("/image.img");
            let words = command.split(' ').map(|word| match word {
                "URL" => url.clone(),
                "LOOP" => desk.disk.device.clone(),
                other => other.replace("{}", out.strip_suffix(ending).unwrap_or(out)),
            });
            let rdev = fs::metadata(&desk.disk.device).unwrap().rdev();
            let mut run = Command::new("unshare");
            run.args(["-m", "sh", "-c", script, "sh", PROGRAM]).args(words);
            clean(&mut run, desk.dir.path());
            run.env("TMPDIR", desk.dir.path())
                .env("LOOP", &desk.disk.device)
                .env("MAJOR", nix::sys::stat::major(rdev).to_string())
                .env("MINOR", nix::sys::stat::minor(rdev).to_string());
            let output = run.stdin(Stdio::null()).output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            let code = code(output.status);
            let label = format!("{name} {out} ({code})");
            assert!(!text.contains("CHANGED"), "{label}: {text}");
            let stream = ["null", "stdout", "stderr", "/fd/1", "/fd/2"];
            let takes = *form == Form::Text && stream.iter().any(|end| out.ends_with(end));
            assert!(matches!(code, 0..=3) && (code == 0) == takes, "{label}: {text}");
            pairs += 1;
        }
    }
    println!("{pairs} pairs of an option and a name in /dev");
    assert!(pairs >= 370, "{pairs}");
}
