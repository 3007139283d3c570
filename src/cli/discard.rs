//! `discard`: gives blocks back, or says exactly why it cannot be done.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::DiscardArgs;
use super::call::Call;
use super::claim::{Claim, Claimed};
use super::medium;
use super::open::{Target, Wish, resolve};
use super::outputs::Outputs;
use super::session::Session;
use super::trim;
use super::usage;
use crate::device::facts::Facts;
use crate::device::linux::LinuxDevice;
use crate::device::policy::{Purpose, approve};
use crate::device::probe::System;
use crate::device::scsi::{Provisioning, explain};
use crate::device::{BlockDevice, Discard};
use crate::error::{Error, Kind, Result};
use crate::event::Span;
use crate::flow::discard::{Plan, Samples, discard, sample};
use crate::sys::sgio;
use crate::text::{printable, printable_path, shell_word};
use crate::ui;
use crate::units::Bytes;

pub(super) fn run(args: &DiscardArgs, call: &Call) -> Result<ExitCode> {
    if let Some(path) = &args.trim {
        return trim::run(path, &args.gate, call);
    }
    let word = args.target.clone().ok_or_else(|| usage("no TARGET was given"))?;
    let wish = Wish {
        purpose: Purpose::Discard,
        gate: &args.gate,
        image_size: None,
        source: None,
        measures: false,
    };
    Outputs::of(&args.output, "--record").target(&word, true).check()?;
    let target = resolve(&word, &wish)?;
    wanted(args, target.facts().size)?;
    let switch = match &target {
        Target::Block(approved) if !args.zero => needs_switch(approved.facts(), args)?,
        Target::Block(_) | Target::File(_) | Target::Sim(_) => false,
    };
    let mut switched = None;
    let mut prepare = |target: &Target| {
        if switch {
            switched = Switched::to_unmap(&target.facts())?;
        }
        Ok(())
    };
    let claimed = Claim {
        question: Some(question(args, &target, switch)),
        unmount: args.gate.unmount,
        prepare: Some(&mut prepare),
        ..Claim::new(&wish, call)
    }
    .of(target);
    match claimed {
        Ok(claimed) => work(args, &claimed, switched.as_ref(), call),
        Err(error) => {
            switched.iter().for_each(Switched::put_back);
            Err(error)
        }
    }
}

/// The range that was asked for, on a device of `size` bytes.
fn wanted(args: &DiscardArgs, size: u64) -> Result<Span> {
    let offset = args.offset.0;
    let room = size.checked_sub(offset).filter(|room| *room > 0).ok_or_else(|| {
        usage(format!("--offset {offset} lies behind the end of the target, {size} bytes"))
    })?;
    let len = args.length.map_or(room, |length| length.0);
    if len == 0 || len > room {
        return Err(usage(format!(
            "--offset {offset} and --length {len}: from there the target has 1 to {room} bytes"
        )));
    }
    Ok(Span { offset, len })
}

/// Whether provisioning_mode has to be switched; an error where there is no discard and nothing
/// may be switched.
fn needs_switch(facts: &Facts, args: &DiscardArgs) -> Result<bool> {
    if facts.discard.max_bytes > 0 {
        return Ok(false);
    }
    let drive = ask_drive(facts);
    let lines = explain(facts, &drive);
    if args.enable_unmap && drive.announces_unmap() && facts.discard.provisioning_file.is_some() {
        return Ok(true);
    }
    let mut text = lines.join("\n  ");
    if args.enable_unmap {
        text.push_str("\n  --enable-unmap was given, but the drive does not announce UNMAP: nothing was changed");
    }
    Err(Error::new(
        Kind::Io,
        format!("{} cannot be discarded\n  {text}", printable_path(&facts.path)),
    )
    .hint("--zero overwrites it with zeros instead, at the speed of writing"))
}

/// The pages from /sys where the kernel has them, else from the drive itself.
fn ask_drive(facts: &Facts) -> Provisioning {
    let rules = crate::device::policy::Rules {
        purpose: Purpose::ReadOnly,
        ..crate::device::policy::Rules::default()
    };
    let device = approve(facts.clone(), &rules)
        .ok()
        .and_then(|a| LinuxDevice::open(&a, System::host()).ok());
    let page = |known: &Option<Vec<u8>>, code| {
        known.clone().or_else(|| device.as_ref().and_then(|d| sgio::vpd_page(d.file(), code).ok()))
    };
    let (b0, b2) = (page(&facts.discard.vpd_b0, 0xb0), page(&facts.discard.vpd_b2, 0xb2));
    let capacity = device.as_ref().and_then(|d| sgio::read_capacity_16(d.file()).ok());
    Provisioning::parse(b0.as_deref(), b2.as_deref(), capacity.as_deref())
}

fn question(args: &DiscardArgs, target: &Target, switch: bool) -> String {
    let what = medium::in_words(target);
    let how = if args.zero {
        "overwritten with zeros"
    } else if args.secure {
        "given back securely (BLKSECDISCARD); nothing can be recovered"
    } else {
        "given back to the drive (discard); treat all data as lost, but not as erased"
    };
    let length = args.length.map_or_else(|| "to the end".to_owned(), |length| length.to_string());
    let switch = if switch {
        "\nprovisioning_mode is set to unmap first. Risk: a bridge that announces UNMAP and does it wrong can hang \
         or damage data on the whole drive."
    } else {
        ""
    };
    format!("{what}From byte {}, {length}: blocks are {how}.{switch}", args.offset.0)
}

/// A provisioning_mode that this run changed.
struct Switched {
    file: PathBuf,
    before: String,
}

impl Switched {
    /// `None` where there is nothing to switch.
    fn to_unmap(facts: &Facts) -> Result<Option<Self>> {
        let discard = &facts.discard;
        let (Some(file), Some(before)) = (&discard.provisioning_file, &discard.provisioning_mode)
        else {
            return Ok(None);
        };
        set_mode(file, "unmap")?;
        Ok(Some(Self { file: file.clone(), before: before.clone() }))
    }

    fn keep(&self) {
        let (file, mode) = (shell_word(&self.file.to_string_lossy()), shell_word(&self.before));
        ui::talk(&format!(
            "provisioning_mode stays unmap until the drive is unplugged; back: echo {mode} | sudo tee {file}"
        ));
    }

    /// After any failure.
    fn put_back(&self) {
        if let Err(error) = set_mode(&self.file, &self.before) {
            ui::talk(&format!("warning: provisioning_mode could not be put back: {error}"));
        }
    }
}

fn set_mode(file: &Path, mode: &str) -> Result<()> {
    fs::write(file, mode).map_err(|e| {
        let denied = e.raw_os_error() == Some(libc::EACCES);
        let error = Error::io(format!("cannot write {mode} to {}", printable_path(file)), e);
        if denied { error.hint("run it with sudo") } else { error }
    })?;
    ui::talk(&format!("wrote {} to {}", printable(mode), printable_path(file)));
    Ok(())
}

fn work(
    args: &DiscardArgs,
    claimed: &Claimed,
    switched: Option<&Switched>,
    call: &Call,
) -> Result<ExitCode> {
    let Claimed { target, opened, .. } = claimed;
    let device = &*opened.device;
    let session = Session::start("discard", call, &opened.clock, target.name())
        .inspect_err(|_| switched.into_iter().for_each(Switched::put_back))?;
    session.edit(|record| {
        record.device = Some(target.facts());
        record.geometry = Some(device.geometry().clone());
    });
    let done = give_back(args, device, &session);
    // A discard that worked keeps the new mode, so that later ones work too.
    let then = if done.is_ok() { Switched::keep } else { Switched::put_back };
    switched.into_iter().for_each(then);
    medium::reread_partition_table(device, &session);
    Ok(session.end(&done))
}

fn give_back(args: &DiscardArgs, device: &dyn BlockDevice, session: &Session) -> Result<String> {
    let how = match (args.zero, args.secure) {
        (true, _) => Discard::Zero,
        (_, true) => Discard::Secure,
        _ => Discard::Trim,
    };
    let plan = Plan { range: wanted(args, device.geometry().size)?, how, budget: None };
    let done = discard(device, &plan, &session.cx)?;
    if done.done.len == 0 {
        return Err(usage(format!(
            "nothing was discarded: the {} bytes asked for fill no whole block of what {} can discard",
            plan.range.len, session.cx.target
        )));
    }
    let seconds = done.nanos as f64 / 1e9;
    let verb = match how {
        Discard::Zero | Discard::ZeroByDevice => "zeroed",
        Discard::Secure => "securely discarded",
        Discard::Trim => "discarded",
    };
    let mut text =
        format!("{} bytes {verb} ({}) in {seconds:.3} s", done.done.len, Bytes(done.done.len));
    if done.left_alone > 0 {
        write!(text, "; {} bytes at the ends fill no granule and were left alone", done.left_alone)
            .ok();
    }
    if args.sample {
        let Samples { taken, zero, ones } = sample(device, done.done, &session.cx)?;
        write!(text, "; of {taken} places read, {zero} return zeros, {ones} return 0xff, {} return other data", taken - zero - ones).ok();
    }
    Ok(text)
}
