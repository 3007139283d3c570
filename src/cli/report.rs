//! `report`: reads measurements from files, compares them, and writes tables, charts and pages.
//! Touches no device.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::{PaletteWord, Report, TableFormat};
use super::call::Call;
use super::outputs::Outputs;
use super::usage;
use crate::error::{Context as _, Error, Kind, Result};
use crate::host::invoker::Invoker;
use crate::report::chart::png::{self, Fonts};
use crate::report::chart::svg::{Palette, standalone};
use crate::report::chart::{Axis, braille, curve};
use crate::report::compare::{Group, groups, slower};
use crate::report::html::{Options, drawings, page};
use crate::report::runs::{Run, by_test};
use crate::report::{export, hyperfine, import, table};
use crate::text::printable_path;
use crate::ui;
use crate::units::Rate;

/// A record of a whole day is some tens of MiB; a larger file is none.
const LARGEST: u64 = 512 << 20;
/// Lines of a chart in the terminal.
const HEIGHT: usize = 6;

pub(super) fn run(args: &Report, _call: &Call) -> Result<ExitCode> {
    if let Some(percent) = args.fail_slower {
        return fail_slower(args, percent);
    }
    let records = match args.last {
        Some(count) => newest(count)?,
        None => args.records.clone(),
    };
    let (mut runs, remarks) = load(&records, args.strict)?;
    for remark in remarks {
        ui::talk(&format!("warning: {remark}"));
    }
    let has = |text: &str, part: &Option<String>| {
        part.as_ref().is_none_or(|part| text.to_lowercase().contains(&part.to_lowercase()))
    };
    runs.retain(|run| has(&run.device, &args.device) && has(&run.test, &args.test));
    if runs.is_empty() {
        return Err(usage("no run is left to be shown")
            .hint("leave --device and --test out to see what there is"));
    }
    let compared = groups(&runs, args.force);
    write_files(args, &records, &runs, &compared)?;
    show(args, &runs, &compared)?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &Report) -> Options {
    let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs_f64());
    Options {
        title: args.title.clone(),
        range: (seconds(args.from).unwrap_or(0.0), seconds(args.to).unwrap_or(f64::INFINITY)),
        palette: match args.palette {
            PaletteWord::Safe => Palette::Safe,
            PaletteWord::FioPlot => Palette::FioPlot,
        },
        force: args.force,
    }
}

/// The newest records of the state folder; their names begin with the time.
fn newest(count: usize) -> Result<Vec<PathBuf>> {
    let folder = Invoker::current()
        .state_dir()
        .ok_or_else(|| Error::new(Kind::Io, "there is no home folder"))?
        .join("records");
    let mut found = files(&folder)?;
    found.sort();
    let first = found.len().saturating_sub(count);
    let newest = found.split_off(first);
    if newest.is_empty() {
        return Err(Error::new(Kind::Io, format!("{} has no record", printable_path(&folder)))
            .hint("a flash, a verify or a bench leaves one"));
    }
    Ok(newest)
}

/// Files in a folder that may hold measurements.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).context(|| format!("cannot read {}", printable_path(folder)))?;
    let kinds = ["json", "log", "csv"];
    let wanted = |path: &PathBuf| {
        path.extension().and_then(|end| end.to_str()).is_some_and(|end| kinds.contains(&end))
    };
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(wanted).collect();
    found.sort();
    Ok(found)
}

/// The runs of all files; what cannot be read is a remark, or with `strict` the error.
pub(super) fn load(records: &[PathBuf], strict: bool) -> Result<(Vec<Run>, Vec<String>)> {
    let (mut runs, mut remarks) = (Vec::new(), Vec::new());
    for path in &files_of(records)? {
        let name = printable_path(path);
        match read(path) {
            Ok((found, said)) => {
                runs.extend(found);
                remarks.extend(said);
            }
            Err(error) if strict => return Err(error),
            Err(error) => remarks.push(format!("{name} is left out: {}", error.message())),
        }
    }
    if runs.is_empty() {
        let why =
            if remarks.is_empty() { String::new() } else { format!(": {}", remarks.join("; ")) };
        return Err(Error::new(Kind::Io, format!("there is no measurement to show{why}")).hint(
            "give records of mediawriter, its --log files, or JSON and bandwidth logs of fio",
        ));
    }
    Ok((runs, remarks))
}

/// The files that were named, and those in the folders that were.
fn files_of(records: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for path in records {
        if path.is_dir() { paths.extend(files(path)?) } else { paths.push(path.clone()) }
    }
    Ok(paths)
}

fn read(path: &Path) -> Result<(Vec<Run>, Vec<String>)> {
    let name = printable_path(path);
    let size = fs::metadata(path).context(|| format!("cannot read {name}"))?.len();
    if size > LARGEST {
        return Err(Error::new(Kind::Io, format!("{name} is too large to be a measurement")));
    }
    let bytes = fs::read(path).context(|| format!("cannot read {name}"))?;
    import::read(&bytes, &name).map_err(|why| Error::new(Kind::Io, format!("{name}: {why}")))
}

fn save(path: &Path, text: &str) -> Result<()> {
    Invoker::current().save_atomically(path, text.as_bytes())
}

/// Makes the page.
pub(super) fn write_page(path: &Path, runs: &[Run], options: &Options) -> Result<()> {
    let text = page(runs, options).map_err(|e| Error::new(Kind::Internal, e.to_string()))?;
    save(path, &text)
}

/// Everything is drawn and judged before the first file is replaced.
fn write_files(args: &Report, records: &[PathBuf], runs: &[Run], compared: &[Group]) -> Result<()> {
    let options = options(args);
    let charts = drawn(args, runs, compared, &options)?;
    let fio = args.export_fio.as_deref().map_or_else(Vec::new, |folder| for_fio(folder, runs));
    let invoker = Invoker::current();
    for folder in fio.iter().filter_map(|made| made.path.parent()) {
        invoker.create_dir_all(folder)?;
    }
    let outputs = Outputs::default()
        .text("--output", args.output.as_deref())
        .text("--html", args.html.as_deref())
        .text("--export-hyperfine", args.export_hyperfine.as_deref())
        .reading("a record that is read", files_of(records)?);
    let option = if args.svg.is_some() { "--svg or --png" } else { "--png" };
    let outputs = charts.iter().fold(outputs, |all, made| all.whole(option, Some(&made.path)));
    fio.iter().fold(outputs, |all, made| all.whole("--export-fio", Some(&made.path))).check()?;
    if let Some(path) = &args.html {
        write_page(path, runs, &options)?;
        ui::talk(&format!("page: {}", printable_path(path)));
    }
    for made in charts.iter().chain(&fio) {
        invoker.save_atomically(&made.path, &made.bytes)?;
        if !made.told.is_empty() {
            ui::talk(&made.told);
        }
    }
    if let Some(folder) = &args.export_fio {
        ui::talk(&format!("written for fio-plot: {}", printable_path(folder)));
    }
    if let Some(path) = &args.export_hyperfine {
        let ending = path.extension().and_then(|ending| ending.to_str());
        save(path, &hyperfine::export(runs, hyperfine::Format::of_ending(ending)))?;
    }
    Ok(())
}

/// What is made besides the table and the page: each with its path and what is told of it.
struct Made {
    path: PathBuf,
    bytes: Vec<u8>,
    told: String,
}

/// Each chart as a file of its own: NAME-1.svg for the first, whatever ending NAME has.
fn drawn(args: &Report, runs: &[Run], compared: &[Group], options: &Options) -> Result<Vec<Made>> {
    let charts: Vec<(String, String)> = compared
        .iter()
        .zip(by_test(runs))
        .flat_map(|(group, (_, members))| drawings(group, &members, options).charts)
        .collect();
    let made = |path: &Path, end: &str, bytes, title: &str| {
        let mut name = path.with_extension("").into_os_string();
        name.push(format!("-{end}"));
        let path = PathBuf::from(name);
        Made { told: format!("{}: {title}", printable_path(&path)), path, bytes }
    };
    let mut all = Vec::new();
    if let Some(path) = &args.svg {
        for (number, (title, chart)) in (1..).zip(&charts) {
            let file = standalone(chart, options.palette).into_bytes();
            all.push(made(path, &format!("{number}.svg"), file, title));
        }
    }
    if let Some(path) = &args.png {
        let fonts = Fonts::of_system()?;
        for (number, (title, chart)) in (1..).zip(&charts) {
            let file = png::draw(chart, options.palette, &fonts)
                .map_err(|why| Error::new(Kind::Internal, format!("{title}: {why}")))?;
            all.push(made(path, &format!("{number}.png"), file, title));
        }
    }
    Ok(all)
}

/// A folder for each run, as bench-fio has one for each device.
fn for_fio(folder: &Path, runs: &[Run]) -> Vec<Made> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let mut used: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for run in runs.iter().filter(|run| !run.rows.is_empty()) {
        let words = format!("{} {}", run.label(), run.test);
        let mut name: String = words.chars().take(60).map(plain).collect();
        while used.contains(&name) {
            name.push('x');
        }
        used.push(name.clone());
        for (file, text) in export::fio(run) {
            let path = folder.join(&name).join(file);
            all.push(Made { path, bytes: text.into_bytes(), told: String::new() });
        }
    }
    all
}

fn show(args: &Report, runs: &[Run], compared: &[Group]) -> Result<()> {
    let text = match args.format {
        TableFormat::Text => table::text(compared),
        TableFormat::Markdown => table::markdown(compared),
        TableFormat::Csv => table::csv(compared),
        TableFormat::Json => {
            table::json(compared).map_err(|e| Error::new(Kind::Internal, e.to_string()))?
        }
    };
    match &args.output {
        Some(path) => save(path, &text)?,
        None => ui::print(&text),
    }
    if args.chart {
        ui::print(&charts(args, runs));
    }
    Ok(())
}

/// A small chart for each run, all of a test on one scale.
fn charts(args: &Report, runs: &[Run]) -> String {
    let width = ui::columns().clamp(40, 120) - 2;
    let ascii = args.ascii || !ui::speaks_unicode();
    let range = options(args).range;
    let mut out = String::new();
    for (test, group) in by_test(runs) {
        let curves: Vec<_> =
            group.iter().map(|run| curve(run, Axis::Time, 2 * width, range)).collect();
        let columns = curves.iter().flat_map(|curve| &curve.columns);
        let fastest = columns.map(|column| column.high).fold(0.0, f64::max);
        // A String takes every write.
        if fastest <= 0.0 {
            continue;
        }
        let top = Rate { bytes_per_second: fastest };
        writeln!(out, "\n{test}: 0 to {top}").ok();
        for curve in &curves {
            writeln!(out, "  {}, {:.0} s", curve.label, curve.end).ok();
            for line in braille::chart(curve, width, HEIGHT, fastest, ascii) {
                writeln!(out, "  {}", line.trim_end()).ok();
            }
        }
    }
    out
}

fn fail_slower(args: &Report, percent: f64) -> Result<ExitCode> {
    let [base, new] = &args.records[..] else {
        return Err(usage("--fail-slower compares two RECORDs: BASE and NEW"));
    };
    if !(0.0..=100.0).contains(&percent) {
        return Err(usage(format!("--fail-slower {percent}: a percentage from 0 to 100")));
    }
    let runs = |path: &PathBuf| load(std::slice::from_ref(path), true).map(|loaded| loaded.0);
    let found = slower(&runs(base)?, &runs(new)?, args.force).map_err(|why| {
        Error::refused(format!("the runs are not comparable: {why}"))
            .hint("--force compares them all the same")
    })?;
    let mut worst = 0.0;
    for test in &found {
        let rate = |bytes_per_second| Rate { bytes_per_second };
        let by = test.by * 100.0;
        let word = if by >= 0.0 { "slower" } else { "faster" };
        let interval = test.interval.map_or_else(String::new, |interval| format!("; {interval}"));
        ui::print(&format!(
            "{}: {} before, {} now, {:.1} % {word}{interval}\n",
            test.test,
            rate(test.before),
            rate(test.after),
            by.abs()
        ));
        // An interval that holds 1 is no evidence.
        if test.interval.is_none_or(|interval| interval.differs()) {
            worst = f64::max(worst, by);
        }
    }
    if worst > percent {
        return Err(Error::new(
            Kind::Regression,
            format!("slower by {worst:.1} %, more than the {percent} % that are allowed"),
        ));
    }
    Ok(ExitCode::SUCCESS)
}
