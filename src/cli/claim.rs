//! How a target is claimed: the one order of the safety checks, for every command that opens one.
//!
//! Judged before the question, so that nobody is asked about what would be refused; again after the answer,
//! because a person takes time; once more as something that is not mounted, whatever was mounted before. What
//! was opened is compared with what was judged (`policy::same`, called by `LinuxDevice::open_by`).

use std::path::PathBuf;

use super::call::Call;
use super::open::{Opened, Target, Wish, ask};
use crate::error::Result;
use crate::text::printable_path;

/// A step of one command alone.
pub(super) type Prepare<'a> = dyn FnMut(&Target) -> Result<()> + 'a;

/// A target that was judged already, and what stands between it and its opening.
pub(super) struct Claim<'a> {
    pub(super) wish: &'a Wish<'a>,
    pub(super) call: &'a Call,
    /// Unmount what is mounted from it.
    pub(super) unmount: bool,
    /// `None`: nothing is lost, or it was asked about together with others.
    pub(super) question: Option<String>,
    /// The answer comes from the terminal itself.
    pub(super) stdin_is_source: bool,
    /// What is done to it before it is judged for the last time.
    pub(super) prepare: Option<&'a mut Prepare<'a>>,
}

/// A target that is this program's alone.
pub(super) struct Claimed {
    pub(super) target: Target,
    pub(super) opened: Opened,
    /// What was unmounted for it, in words.
    pub(super) unmounted: Vec<String>,
}

impl<'a> Claim<'a> {
    /// Without a question, and nothing to unmount.
    pub(super) fn new(wish: &'a Wish<'a>, call: &'a Call) -> Self {
        Self { wish, call, unmount: false, question: None, stdin_is_source: false, prepare: None }
    }

    /// Claims it.
    pub(super) fn of(self, target: Target) -> Result<Claimed> {
        let mut steps = Run { claim: self, unmounted: Vec::new() };
        let (target, opened) = in_order(target, &mut steps)?;
        let unmounted = steps.unmounted.iter();
        let unmounted = unmounted.map(|at| format!("unmounted {}", printable_path(at))).collect();
        Ok(Claimed { target, opened, unmounted })
    }
}

/// What claiming is made of.
trait Steps<T, O> {
    fn ask(&mut self, target: &T) -> Result<()>;
    fn judge(&mut self, target: T, may_be_mounted: bool) -> Result<T>;
    fn unmount(&mut self, target: &T) -> Result<()>;
    fn prepare(&mut self, target: &T) -> Result<()>;
    fn open(&mut self, target: &T) -> Result<O>;
}

fn in_order<T, O>(target: T, steps: &mut impl Steps<T, O>) -> Result<(T, O)> {
    steps.ask(&target)?;
    let target = steps.judge(target, true)?;
    steps.unmount(&target)?;
    steps.prepare(&target)?;
    let target = steps.judge(target, false)?;
    let opened = steps.open(&target)?;
    Ok((target, opened))
}

struct Run<'a> {
    claim: Claim<'a>,
    unmounted: Vec<PathBuf>,
}

impl Steps<Target, Opened> for Run<'_> {
    fn ask(&mut self, target: &Target) -> Result<()> {
        let Claim { wish, call, stdin_is_source, .. } = self.claim;
        match self.claim.question.take() {
            Some(question) => ask(&question, target, wish.gate, stdin_is_source, call),
            None => Ok(()),
        }
    }

    fn judge(&mut self, target: Target, may_be_mounted: bool) -> Result<Target> {
        target.judge_again(self.claim.wish, may_be_mounted && self.claim.unmount)
    }

    fn unmount(&mut self, target: &Target) -> Result<()> {
        self.unmounted = target.unmount()?;
        Ok(())
    }

    fn prepare(&mut self, target: &Target) -> Result<()> {
        self.claim.prepare.take().map_or(Ok(()), |prepare| prepare(target))
    }

    fn open(&mut self, target: &Target) -> Result<Opened> {
        target.open(self.claim.wish.purpose, self.claim.call)
    }
}

#[cfg(test)]
mod tests;
