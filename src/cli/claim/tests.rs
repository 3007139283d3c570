//! The order of the checks, and that none is made after one that refused.

use super::*;
use crate::error::Error;

const ORDER: [&str; 6] = ["ask", "judge", "unmount", "prepare", "judge unmounted", "open"];

/// Writes down what is done, and refuses at one step.
struct Paper {
    done: Vec<&'static str>,
    refuses: usize,
}

impl Paper {
    fn step(&mut self, name: &'static str) -> Result<()> {
        self.done.push(name);
        if self.done.len() == self.refuses { Err(Error::refused(name)) } else { Ok(()) }
    }
}

impl Steps<(), ()> for Paper {
    fn ask(&mut self, (): &()) -> Result<()> {
        self.step("ask")
    }

    fn judge(&mut self, (): (), may_be_mounted: bool) -> Result<()> {
        self.step(if may_be_mounted { "judge" } else { "judge unmounted" })
    }

    fn unmount(&mut self, (): &()) -> Result<()> {
        self.step("unmount")
    }

    fn prepare(&mut self, (): &()) -> Result<()> {
        self.step("prepare")
    }

    fn open(&mut self, (): &()) -> Result<()> {
        self.step("open")
    }
}

#[test]
fn nothing_is_opened_before_all_checks_and_nothing_is_done_after_a_refusal() {
    let mut paper = Paper { done: vec![], refuses: 0 };
    in_order((), &mut paper).unwrap();
    assert_eq!(paper.done, ORDER);
    for refuses in 1..=ORDER.len() {
        let mut paper = Paper { done: vec![], refuses };
        let error = in_order((), &mut paper).unwrap_err();
        assert_eq!(error.message(), ORDER[refuses - 1]);
        assert_eq!(paper.done, ORDER[..refuses]);
    }
}
