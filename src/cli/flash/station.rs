//! `flash --station`: every stick of the given kind that is plugged in is written, until Ctrl-C. What
//! is plugged in already, and what does not match, is never opened.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::job::Job;
use super::many::{BLOCK, End, Shared, answering, finish, plugged_in};
use super::{judge_image, open, outputs, usage};
use crate::cli::args::Flash;
use crate::cli::call::Call;
use crate::cli::open::ask_for;
use crate::cli::session::Held;
use crate::cli::source::Image;
use crate::device::facts::{Facts, Identity};
use crate::device::usb::UsbIds;
use crate::error::{Error, Result};
use crate::image::Advice;
use crate::ui::{self, Board};
use crate::units::Bytes;

/// How often is looked who came and went. A stick is begun when it looked the same twice, so that
/// the kernel has read its tables and its strings.
const LOOK: Duration = Duration::from_millis(500);

pub(super) fn run(args: &Flash, call: &Call) -> Result<ExitCode> {
    let Some(ids) = args.fleet.all_matching.clone() else {
        return Err(usage(
            "--station writes whatever is plugged in: say what, with --all-matching",
        ));
    };
    let image = open(args, &call.cancel)?;
    let info = image.inspect()?;
    let composes = info.advice() == Advice::Compose;
    if !composes {
        judge_image(&info, &image)?;
    }
    if !image.source().info().restartable {
        return Err(Error::refused(format!(
            "{} can be read once, and --station reads it for every stick",
            image.source().info().name
        ))
        .hint("store it in a file first (mediawriter download, or curl -o), and name the file"));
    }
    let there = plugged_in(&ids);
    let question = question(args, &image, &ids, there.len());
    if args.dry_run {
        ui::print(&format!("{question}\nDry run: nothing was written.\n"));
        return Ok(ExitCode::SUCCESS);
    }
    ask_for(&question, "station", &args.gate, image.is_stdin(), call)?;
    let board = Board::stderr(args.output.quiet);
    let held = Arc::new(Held::for_a_job(false));
    let shared = Shared { args, call, board: &board, held: &held };
    board.say(&format!("station: waits for {ids}; Ctrl-C ends it"));
    let ends = answering(&board, || shared.attend(&ids, &image, composes, &there));
    board.close();
    if ends.is_empty() {
        ui::talk("station: ended, and no stick was plugged in");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(finish(&args.output, &ends))
}

fn question(args: &Flash, image: &Image, ids: &UsbIds, there: usize) -> String {
    let info = image.source().info();
    let size = info.len.map_or_else(|| "unknown size".to_owned(), |len| Bytes(len).to_string());
    let left = match there {
        0 => String::new(),
        n => format!("         {n} that are plugged in already are left alone\n"),
    };
    let how = if args.no_verify { "not verified" } else { "read back and compared" };
    let map = image.map().map_or_else(String::new, |map| format!("Map      {map}\n"));
    format!(
        "Source   {}\n         {size}\n{map}\
         Target   EVERY disk that is a USB device {ids} and is plugged in from now on, until Ctrl-C:\n         \
         everything on it will be lost\n{left}\
         Plan     each is written at once, flushed, {how}\n",
        info.name
    )
}

/// A stick that came.
#[derive(Clone, Debug, PartialEq)]
struct Plugged {
    port: String,
    identity: Identity,
    facts: Facts,
}

impl Plugged {
    fn of(facts: Facts) -> Self {
        let port = facts.usb.as_ref().and_then(|usb| usb.port.clone());
        let port = port.unwrap_or_else(|| facts.name.clone());
        Self { port, identity: facts.identity(), facts }
    }
}

/// Who came and went. Pure.
#[derive(Debug, Default)]
struct Ports {
    /// Begun, or not to be touched.
    known: Vec<Identity>,
    /// Seen once.
    fresh: Vec<Identity>,
}

impl Ports {
    fn new(there: &[Facts]) -> Self {
        Self { known: there.iter().map(Facts::identity).collect(), fresh: Vec::new() }
    }

    /// Takes what is plugged in now; what is to be begun.
    fn look(&mut self, now: Vec<Facts>) -> Vec<Plugged> {
        let now: Vec<Plugged> = now.into_iter().map(Plugged::of).collect();
        // What was pulled out is new when it comes again.
        self.known.retain(|known| now.iter().any(|stick| stick.identity == *known));
        let fresh: Vec<Plugged> =
            now.into_iter().filter(|stick| !self.known.contains(&stick.identity)).collect();
        let (begin, wait): (Vec<_>, Vec<_>) =
            fresh.into_iter().partition(|stick| self.fresh.contains(&stick.identity));
        self.fresh = wait.into_iter().map(|stick| stick.identity).collect();
        self.known.extend(begin.iter().map(|stick| stick.identity.clone()));
        begin
    }
}

impl Shared<'_> {
    /// Writes what comes until somebody stops it; how each ended, in the order of their ends.
    fn attend(&self, ids: &UsbIds, image: &Image, composes: bool, there: &[Facts]) -> Vec<End> {
        let ends = Mutex::new(Vec::new());
        let mut ports = Ports::new(there);
        let mut count = 0_u32;
        thread::scope(|scope| {
            while self.call.cancel.signal().is_none() {
                for stick in ports.look(plugged_in(ids)) {
                    count += 1;
                    let (ends, number) = (&ends, count);
                    scope.spawn(move || {
                        let end = self.stick(&stick, image, composes, number);
                        ends.lock().unwrap_or_else(PoisonError::into_inner).push(end);
                    });
                }
                crossbeam_channel::after(LOOK).recv().ok();
            }
        });
        ends.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn stick(&self, stick: &Plugged, image: &Image, composes: bool, number: u32) -> End {
        let line = format!("port {}", stick.port);
        let node = stick.facts.path.as_os_str();
        let own = || {
            if composes {
                open(self.args, &self.call.cancel)
            } else {
                Ok(image.for_another(image.shared()))
            }
        };
        let job =
            own().and_then(|image| Job::new(self.args, image, node, BLOCK, &self.call.cancel));
        match job {
            // The node may have become another disk's meanwhile.
            Ok(job) if job.target().facts().identity() == stick.identity => {
                let files = format!("{number}-{}", stick.facts.name);
                match outputs(self.args, Some((node, &self.output(&files)))).check() {
                    Ok(()) => self.one(job, &line, &files),
                    Err(error) => self.never_began(line.clone(), error, &mut self.board.row(&line)),
                }
            }
            Ok(_) => {
                let error = Error::refused("another disk took its place").hint("plug it in again");
                self.never_began(line.clone(), error, &mut self.board.row(&line))
            }
            Err(error) => self.never_began(line.clone(), error, &mut self.board.row(&line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::facts::Usb;

    fn stick(port: &str, seq: u64) -> Facts {
        let usb = Usb { port: Some(port.to_owned()), ..Usb::default() };
        Facts { usb: Some(usb), diskseq: Some(seq), size: 1 << 30, ..Facts::default() }
    }

    fn ports(found: Vec<Plugged>) -> Vec<String> {
        found.into_iter().map(|stick| stick.port).collect()
    }

    #[test]
    fn what_is_there_at_the_start_is_left_alone_until_it_was_pulled_out() {
        let mut seen = Ports::new(&[stick("1-1", 5)]);
        for _ in 0..3 {
            assert!(seen.look(vec![stick("1-1", 5)]).is_empty());
        }
        assert!(seen.look(vec![]).is_empty());
        // The kernel never uses a number again.
        assert!(seen.look(vec![stick("1-1", 6)]).is_empty());
        assert_eq!(ports(seen.look(vec![stick("1-1", 6)])), ["1-1"]);
    }

    #[test]
    fn every_stick_is_begun_once_when_it_looked_the_same_twice() {
        let mut seen = Ports::new(&[]);
        assert!(seen.look(vec![stick("1-1", 1)]).is_empty());
        assert_eq!(ports(seen.look(vec![stick("1-1", 1), stick("1-2", 2)])), ["1-1"]);
        assert_eq!(ports(seen.look(vec![stick("1-1", 1), stick("1-2", 2)])), ["1-2"]);
        for _ in 0..3 {
            assert!(seen.look(vec![stick("1-1", 1), stick("1-2", 2)]).is_empty());
        }
        // Its size was not known at first.
        let growing = |size| Facts { size, ..stick("1-3", 3) };
        assert!(seen.look(vec![growing(512)]).is_empty());
        assert!(seen.look(vec![growing(1 << 30)]).is_empty());
        assert_eq!(ports(seen.look(vec![growing(1 << 30)])), ["1-3"]);
    }

    /// A kernel older than 5.15 has no numbers: a stick that was away for one look is another one.
    #[test]
    fn without_numbers_a_stick_that_was_away_is_new() {
        let old = || Facts { diskseq: None, serial: Some("A".to_owned()), ..stick("1-1", 0) };
        let mut seen = Ports::new(&[old()]);
        assert!(seen.look(vec![old()]).is_empty());
        seen.look(vec![]);
        seen.look(vec![old()]);
        assert_eq!(ports(seen.look(vec![old()])), ["1-1"]);
    }
}
