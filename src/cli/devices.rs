//! `devices`.

use std::process::ExitCode;

use super::args::Devices;
use super::call::Call;
use super::labels;
use crate::device::probe::System;
use crate::error::Result;
use crate::ui;
use crate::ui::devices::{Show, json, list};

#[expect(clippy::unnecessary_wraps, reason = "all commands are called alike")]
pub(super) fn run(args: &Devices, _call: &Call) -> Result<ExitCode> {
    let mut devices = System::host().all();
    devices.iter_mut().for_each(labels::fill);
    let show = if args.all { Show::All } else { Show::Media };
    ui::print(&if args.json { json(&devices, show) } else { list(&devices, show) });
    Ok(ExitCode::SUCCESS)
}
