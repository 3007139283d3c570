//! `download`: a file of a web server onto the disk, measured like any other phase.

use std::thread;

use crossbeam_channel::{Receiver, unbounded};

use super::{Context, internal};
use crate::error::Result;
use crate::event::Phase;
use crate::event::notice::Notice;
use crate::meter::{Meter, while_ticking};
use crate::source::http::download::{Fetched, Job, Told, download as fetch};
use crate::source::http::transfer::Remark;

/// Downloads what is missing of a file. It is whole afterwards, and not compared with anything.
pub fn download(job: &Job<'_>, cx: &Context) -> Result<Fetched> {
    let (send, told) = unbounded();
    thread::scope(|scope| {
        let work = scope.spawn(move || {
            // Nobody listens any more only when this function panicked.
            fetch(job, &cx.cancel, &|said| send.send(said).unwrap_or_default())
        });
        let mut next = told.recv().ok();
        while let Some(said) = next {
            next = match said {
                Told::Begins { total, have } => {
                    if have > 0 {
                        cx.events.tell(Notice::Resumed { have });
                    }
                    let total = total.map(|total| total.saturating_sub(have));
                    let meter = cx.meter(Phase::Download, total);
                    let next = while_ticking(&meter, || count(&told, &meter, cx));
                    meter.finish();
                    next
                }
                other => {
                    remark(&other, cx);
                    told.recv().ok()
                }
            };
        }
        work.join().map_err(|_| internal("the download panicked"))?
    })
}

/// Counts bytes until another download begins, or none follows.
fn count(told: &Receiver<Told>, meter: &Meter, cx: &Context) -> Option<Told> {
    let mut last = meter.now();
    for said in told {
        match said {
            Told::Bytes(bytes) => {
                meter.io(last, bytes);
                last = meter.now();
            }
            Told::Begins { .. } => return Some(said),
            Told::FromZero { .. } | Told::Remark(_) => remark(&said, cx),
        }
    }
    None
}

fn remark(said: &Told, cx: &Context) {
    match said {
        Told::FromZero { why } => cx.events.tell(Notice::FromZero { why: why.clone() }),
        Told::Remark(said) => say(said, cx),
        Told::Begins { .. } | Told::Bytes(_) => {}
    }
}

/// A remark of a transfer as an event.
pub fn say(said: &Remark, cx: &Context) {
    cx.events.tell(match said {
        Remark::Again { why, wait } => Notice::Again { why: why.clone(), wait: *wait },
        Remark::Alone { why } => Notice::OneConnection { why: why.clone() },
        Remark::NoParts => Notice::NoParts,
    });
}
