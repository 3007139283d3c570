//! `demo --championship`: five events on models of seven sticks, in simulated time. What comes out
//! are ordinary records, compared by the ordinary report: a newcomer sees what it finds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::args::{Demo, Output};
use super::call::Call;
use super::open::Target;
use super::outputs::Outputs;
use super::session::Session;
use crate::bench::profile::{Wishes, steps, written};
use crate::bench::{Plan, Profile};
use crate::device::sim;
use crate::error::{Error, Kind, Result};
use crate::host::invoker::Invoker;
use crate::report::compare::groups;
use crate::report::html::Options;
use crate::report::record;
use crate::report::table::text;
use crate::text::printable_path;
use crate::time::{Clock, SimClock};
use crate::ui;

/// An event: the writes and reads of an image are two events of one run.
struct Event {
    file: &'static str,
    title: &'static str,
    profile: Profile,
    models: &'static [&'static str],
}

impl Event {
    fn record(&self, folder: &Path, model: &str) -> PathBuf {
        folder.join(format!("{}-{model}.json", self.file))
    }

    fn page(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.html", self.file))
    }
}

const EVENTS: [Event; 3] = [
    Event {
        file: "image-5g",
        title: "write 8 GiB and read it, at a 5 Gbit/s port",
        profile: Profile::Image,
        models: &[
            "exceria-g2",
            "sspe-usc250",
            "ssd-put250",
            "esd-ema",
            "esd-emc",
            "ts32gjf790",
            "nus-ma32g",
        ],
    },
    Event {
        file: "image-10g",
        title: "write 8 GiB and read it, at a 10 Gbit/s port",
        profile: Profile::Image,
        models: &["exceria-g2-10g", "sspe-usc250-10g", "esd-ema-10g"],
    },
    Event {
        file: "marathon",
        title: "write the whole device",
        profile: Profile::Marathon,
        models: &["exceria-g2", "sspe-usc250", "ssd-put250", "esd-emc", "esd-ema"],
    },
];

pub(super) fn run(args: &Demo, call: &Call) -> Result<ExitCode> {
    let folder = &args.to;
    Invoker::current().create_dir_all(folder)?;
    let made = EVENTS.iter().flat_map(|event| {
        let records = event.models.iter().map(|model| event.record(folder, model));
        records.chain([event.page(folder)])
    });
    made.fold(Outputs::default(), |all, path| all.whole("--to", Some(&path))).check()?;
    for event in &EVENTS {
        let mut records = Vec::new();
        for model in event.models {
            call.cancel.check()?;
            let path = event.record(folder, model);
            let code = measure(model, event.profile, &path, call)?;
            if code != ExitCode::SUCCESS {
                return Ok(code);
            }
            records.push(path);
        }
        page(folder, event, &records, args.output.quiet)?;
    }
    if !args.output.quiet {
        ui::talk(&format!(
            "\nThese are models made from published figures (docs/championship.md), not measurements. For a real \
             stick:\n    sudo mediawriter bench /dev/sdX --profile image --destructive\nRecords: {}",
            printable_path(folder)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// One run of a model; its record goes to `path`.
fn measure(model: &str, profile: Profile, path: &Path, call: &Call) -> Result<ExitCode> {
    let internal = |why: String| Error::new(Kind::Internal, format!("sim:{model}: {why}"));
    let spec = sim::spec::parse(model).map_err(internal)?;
    let clock = Arc::new(SimClock::default());
    let device = sim::build(&spec, &clock);
    // As the articles had it.
    let wishes = Wishes { like_fio: true, ..Wishes::default() };
    let steps = steps(profile, device.geometry(), &wishes)?;
    let size = device.geometry().size;
    let target = Target::Sim(Box::new(spec));
    let output = Output { record: Some(path.to_owned()), quiet: true, ..Output::default() };
    let clock: Arc<dyn Clock> = clock;
    let session = Session::start("bench", &call.with(output), &clock, target.name())?;
    session.edit(|record| {
        record.device = Some(target.facts());
        record.geometry = Some(device.geometry().clone());
        record.bench = Some(record::Bench {
            profile: profile.name().to_owned(),
            size: if profile == Profile::Marathon { size } else { 8 << 30 },
            like_fio: true,
            seed: 0,
            rounds: 1,
            full_drive_writes: written(&steps).map_or(0.0, |n| n as f64 / size.max(1) as f64),
            precondition: "as found".to_owned(),
        });
    });
    let plan = Plan {
        steps,
        seed: 0,
        destroys: false,
        discard: false,
        round: 1,
        engine: None,
        holds_data: false,
    };
    let done = crate::bench::run(&*device, &plan, &session.cx);
    Ok(session.end(&done.map(|()| format!("{} measured", target.name()))))
}

/// Compares the runs of an event: a table on the screen, a page in the folder.
fn page(folder: &Path, event: &Event, records: &[PathBuf], quiet: bool) -> Result<()> {
    let (runs, _) = super::report::load(records, true)?;
    let path = event.page(folder);
    let options = Options { title: format!("Championship: {}", event.title), ..Options::default() };
    super::report::write_page(&path, &runs, &options)?;
    if !quiet {
        ui::print(&format!("== {}\n\n{}\n", event.title, text(&groups(&runs, false))));
        ui::talk(&format!("page: {}", printable_path(&path)));
    }
    Ok(())
}
