//! `probe`: how large a medium really is.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use super::args::{Gate, Output};
use super::open::{Opened, Target, Wish, ask, resolve};
use super::outputs::Outputs;
use super::session::{Session, never_began};
use super::usage;
use crate::bench::capacity::{Plan, probe};
use crate::cancel::CancelToken;
use crate::device::BlockDevice;
use crate::device::policy::Purpose;
use crate::device::probe::System;
use crate::error::{Error, Kind, Result};
use crate::flow::Context;
use crate::time::wall_clock_nanos;
use crate::ui::devices::{Verdict, detail};
use crate::units::Bytes;

#[derive(Args, Debug)]
pub(crate) struct Probe {
    /// Block device, existing file, or sim:...
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath)]
    pub(crate) target: OsString,
    /// Yes, everything on it may be overwritten
    #[arg(long)]
    pub(crate) destructive: bool,
    /// Write and read every byte, with the speed of every second, instead of samples: hours on a
    /// large stick
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(super) fn run(args: &Probe, words: &[OsString], cancel: CancelToken) -> Result<ExitCode> {
    match approved(args, words, &cancel) {
        Ok((target, opened)) => work(args, &target, &opened, words, cancel),
        Err(error) => never_began(words, &args.output, error),
    }
}

/// Judges, explains, asks, opens.
fn approved(args: &Probe, words: &[OsString], cancel: &CancelToken) -> Result<(Target, Opened)> {
    if !args.destructive {
        return Err(usage("probe overwrites what is on the target; say --destructive if it may")
            .hint(
                "`mediawriter verify` and `bench --profile read` keep everything, and cannot tell",
            ));
    }
    let wish = Wish {
        purpose: Purpose::Write,
        gate: &args.gate,
        image_size: None,
        source: None,
        measures: false,
    };
    Outputs::of(&args.output, "--record").target(&args.target, true).check()?;
    let target = resolve(&args.target, &wish)?;
    ask(&question(args, &target), &target, &args.gate, false, cancel)?;
    let (target, _) = target.freed(&wish, args.gate.unmount)?;
    let opened = target.open(Purpose::Write, words)?;
    Ok((target, opened))
}

fn question(args: &Probe, target: &Target) -> String {
    let facts = target.facts();
    let what = match target {
        Target::Block(_) => detail(&facts, &Verdict::of(&facts)),
        Target::File(_) | Target::Sim(_) => format!("{} ({})\n", target.name(), Bytes(facts.size)),
    };
    let how = if args.full { "every byte of it is" } else { "samples all over it are" };
    format!("{what}Everything on it will be lost: {how} overwritten to see what is really there.\n")
}

fn work(
    args: &Probe,
    target: &Target,
    opened: &Opened,
    words: &[OsString],
    cancel: CancelToken,
) -> Result<ExitCode> {
    let device = &*opened.device;
    let session = Session::start(
        "probe",
        words,
        args.output.clone(),
        opened.clock.clone(),
        (cancel, target.name()),
    )?;
    session.edit(|record| {
        let facts = target.facts();
        record.conditions.max_request = System::host().max_request(facts.rdev);
        record.device = Some(facts);
        record.geometry = Some(device.geometry().clone());
    });
    let done = genuine(device, args.full, &session.cx);
    device.reread_partitions().ok();
    Ok(session.end(&done))
}

/// Probes; an error when the medium is not what it says.
pub(super) fn genuine(device: &dyn BlockDevice, full: bool, cx: &Context) -> Result<String> {
    let capacity = probe(device, Plan { seed: wall_clock_nanos(), full }, cx)?;
    match capacity.advice() {
        None => Ok(format!("{}: {capacity}", cx.target)),
        Some(advice) => {
            let what = format!("{} is not what it says: {capacity}", cx.target);
            Err(Error::new(Kind::MediaMismatch, what).hint(advice))
        }
    }
}
