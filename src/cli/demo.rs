//! `demo`: the main job without root and without hardware, on a file that stands for a stick.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::args::Demo;
use super::call::Call;
use super::championship;
use super::medium;
use super::open::{Target, locate};
use super::outputs::Outputs;
use super::session::Session;
use crate::device::BlockDevice as _;
use crate::device::file::FileDevice;
use crate::device::handle::Access;
use crate::error::{Context as _, Error, Result};
use crate::flow::Transfer;
use crate::flow::flash::{DiscardMode, Flashed, Plan, flash};
use crate::host::invoker::{CreateMode, Invoker};
use crate::image;
use crate::report::record::{Settings, SourceFacts};
use crate::source::Published;
use crate::source::Source as _;
use crate::source::memory::MemorySource;
use crate::text::{printable_path, shell_word};
use crate::time::{Clock, SystemClock};
use crate::ui;
use crate::units::{Bytes, MIB};

/// Size of the stick and of the image that is written to it.
const STICK: u64 = 128 * MIB;
const IMAGE: usize = 96 << 20;
/// What the boot sector prints on the screen and the first serial port.
const GREETING: &[u8] = b"Hello from the stick that mediawriter made.\r\n\0";

pub(super) fn run(args: &Demo, call: &Call) -> Result<ExitCode> {
    if args.championship {
        return championship::run(args, call);
    }
    let (path, keep) = match &args.keep {
        Some(path) => (path.clone(), true),
        None => (scratch(), false),
    };
    Outputs::of(&args.output, "--record").whole("--keep", Some(&path)).check()?;
    let file = Invoker::current().create(&path, CreateMode::NewOnly)?;
    file.set_len(STICK)
        .context(|| format!("cannot make {} {} long", printable_path(&path), Bytes(STICK)))?;
    drop(file);
    if !args.output.quiet {
        ui::talk(&format!(
            "demo: a bootable image of {} goes onto {}, a file of {} that stands for a stick\n",
            Bytes(IMAGE as u64),
            printable_path(&path),
            Bytes(STICK)
        ));
    }
    let code = write(&path, call);
    if !keep {
        // It was made a moment ago, under a name of its own, by this process.
        std::fs::remove_file(&path).ok();
    }
    if code.is_ok() && !args.output.quiet {
        ui::talk(&farewell(keep.then_some(&path)));
    }
    code
}

fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("mediawriter-demo-{}.img", std::process::id()))
}

fn write(path: &Path, call: &Call) -> Result<ExitCode> {
    let source = MemorySource::new("an image made for this demo", demo_image());
    let info = image::inspect(&*source.preview(), "demo")
        .map_err(|e| Error::io("cannot look at the image", e))?;
    let device = FileDevice::open(path, Access::Exclusive)?;
    let target = Target::File(path.to_owned());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let session = Session::start("demo", call, &clock, target.name())?;
    let transfer = Transfer { block: 4 << 20, adapt: true, queue_depth: 2 };
    medium::describe(&session, &target, &device);
    session.edit(|record| {
        record.source = Some(SourceFacts {
            name: source.info().name.clone(),
            kind: "memory".to_owned(),
            size: source.info().len,
            ..SourceFacts::default()
        });
        record.settings = Some(Settings {
            block_size: transfer.block as u64,
            queue_depth: 2,
            direct: device.geometry().direct,
            discard: "auto".to_owned(),
        });
    });
    let plan = Plan {
        transfer,
        published: Published::default(),
        mask: None,
        sparse: false,
        changed_only: false,
        verify: true,
        discard: DiscardMode::Auto(std::time::Duration::from_secs(60)),
    };
    let done = flash(&source, &device, &plan, &|span| locate(&info, span), &session.cx);
    let done = done.map(|Flashed { bytes, map, .. }| {
        session.edit(|record| record.chunk_map = Some(map));
        format!("{} written, flushed and read back: every byte matches", Bytes(bytes))
    });
    Ok(session.end(&done))
}

fn farewell(kept: Option<&PathBuf>) -> String {
    let boot = kept.map_or_else(
        || "With --keep FILE the stick stays, and boots in an emulator.".to_owned(),
        |path| {
            format!(
                "Boot it: qemu-system-x86_64 -drive format=raw,file={}",
                shell_word(&path.to_string_lossy())
            )
        },
    );
    format!(
        "\n{boot}\nFor a real stick: `mediawriter devices` lists what is plugged in, then\n    \
         sudo mediawriter flash ubuntu.iso /dev/sdX"
    )
}

/// A disk image: a boot sector that prints a line, one partition of non-filesystem data (type
/// 0xda), and bytes that do not compress.
fn demo_image() -> Vec<u8> {
    let mut image = noise(IMAGE);
    image[..512].copy_from_slice(&boot_sector());
    image[512..1 << 20].fill(0);
    image
}

/// 16-bit code at 0x7c00 (the BIOS loads sector 0 there and jumps to it): prints the greeting
/// with INT 10h (teletype) and INT 14h (COM1), then halts.
fn boot_sector() -> [u8; 512] {
    let code: [u8; 31] = [
        0x31, 0xc0, // xor ax, ax
        0x8e, 0xd8, // mov ds, ax
        0xfc, // cld
        0xbe, 0x40, 0x7c, // mov si, 0x7c40
        0xac, // next: lodsb
        0x84, 0xc0, // test al, al
        0x74, 0x0f, // jz end
        0xb4, 0x0e, // mov ah, 0x0e
        0xbb, 0x07, 0x00, // mov bx, 7
        0xcd, 0x10, // int 0x10
        0xb4, 0x01, // mov ah, 1
        0x31, 0xd2, // xor dx, dx
        0xcd, 0x14, // int 0x14
        0xeb, 0xec, // jmp next
        0xf4, // end: hlt
        0xeb, 0xfd, // jmp end
    ];
    let mut sector = [0; 512];
    sector[..code.len()].copy_from_slice(&code);
    sector[0x40..0x40 + GREETING.len()].copy_from_slice(GREETING);
    // One active partition from 1 MiB to the end of the image; CHS fields say "use LBA".
    let entry = &mut sector[446..462];
    entry[0] = 0x80;
    entry[1..4].copy_from_slice(&[0xfe, 0xff, 0xff]);
    entry[4] = 0xda;
    entry[5..8].copy_from_slice(&[0xfe, 0xff, 0xff]);
    entry[8..12].copy_from_slice(&2048u32.to_le_bytes());
    let sectors = u32::try_from(IMAGE / 512).unwrap_or(u32::MAX) - 2048;
    entry[12..16].copy_from_slice(&sectors.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// xorshift64*, the same in every run.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x6d65_6469_6177_7269_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
