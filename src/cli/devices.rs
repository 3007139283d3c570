//! `devices`.

use std::process::ExitCode;

use super::args::Devices;
use crate::device::probe::System;
use crate::ui;
use crate::ui::devices::{Show, json, list};

pub(super) fn run(args: &Devices) -> ExitCode {
    let devices = System::host().all();
    let show = if args.all { Show::All } else { Show::Media };
    ui::print(&if args.json { json(&devices, show) } else { list(&devices, show) });
    ExitCode::SUCCESS
}
