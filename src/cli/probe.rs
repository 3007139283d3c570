//! `probe`: how large a medium really is.

use std::process::ExitCode;

use super::args::Probe;
use super::call::Call;
use super::claim::{Claim, Claimed};
use super::medium;
use super::open::{Target, Wish, resolve};
use super::outputs::Outputs;
use super::session::Session;
use super::usage;
use crate::bench::capacity::{Plan, probe};
use crate::device::BlockDevice;
use crate::device::policy::Purpose;
use crate::device::probe::System;
use crate::error::{Error, Kind, Result};
use crate::flow::Context;
use crate::time::wall_clock_nanos;

pub(super) fn run(args: &Probe, call: &Call) -> Result<ExitCode> {
    if !args.destructive {
        return Err(usage("probe overwrites what is on the target; say --destructive if it may")
            .hint(
                "`mediawriter verify` and `bench --profile read` keep everything, and cannot tell",
            ));
    }
    Outputs::of(&args.output, "--record").target(&args.target, true).check()?;
    let wish = Wish {
        purpose: Purpose::Write,
        gate: &args.gate,
        image_size: None,
        source: None,
        measures: false,
    };
    let target = resolve(&args.target, &wish)?;
    let (question, unmount) = (Some(question(args, &target)), args.gate.unmount);
    let claim = Claim { unmount, question, ..Claim::new(&wish, call) };
    let Claimed { target, opened, .. } = claim.of(target)?;
    let device = &*opened.device;
    let session = Session::start("probe", call, &opened.clock, target.name())?;
    medium::describe(&session, &target, device);
    session.edit(|record| {
        record.conditions.max_request = System::host().max_request(target.facts().rdev);
    });
    let done = genuine(device, args.full, &session.cx);
    medium::reread_partition_table(device, &session);
    Ok(session.end(&done))
}

fn question(args: &Probe, target: &Target) -> String {
    let what = medium::in_words(target);
    let how = if args.full { "every byte of it is" } else { "samples all over it are" };
    format!("{what}Everything on it will be lost: {how} overwritten to see what is really there.\n")
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
