//! What a copy is: how long, which bytes are other than on the source, which stretches are there.

use std::ops::Range;

use super::names;
use super::patch::Patch;
use super::table::{self, Wish};
use crate::error::{Error, Result};
use crate::image::{ImageInfo, ReadAt};

/// A copy as it is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes of the copy.
    pub size: u64,
    /// Bytes of the source.
    pub source: u64,
    /// Over the source's bytes, in this order.
    pub patches: Vec<Patch>,
    /// Stretches that are copied, in ascending order; what lies between them is left out, and reads
    /// as zeros. `None`: everything.
    pub mapped: Option<Vec<Range<u64>>>,
    /// What is other, in words.
    pub words: Vec<String>,
}

/// Plans the copy of a medium that was looked at.
pub fn plan(medium: &dyn ReadAt, info: &ImageInfo, wish: &Wish<'_>) -> Result<Plan> {
    let source = wish.source;
    let mut plan = Plan { size: source, source, patches: vec![], mapped: None, words: vec![] };
    let Some(table) = &info.table else {
        if wish.ids.is_some() {
            return Err(Error::refused("the source has no partition table: no new identifiers")
                .hint("leave --new-ids out"));
        }
        return Ok(plan);
    };
    let change = table::change(medium, table, wish)?;
    (plan.patches, plan.words) = (change.patches, change.words);
    if wish.ids.is_some() {
        let names = names::rename(medium, table, &change.renamed)?;
        plan.patches.extend(names.patches);
        plan.words.extend(names.words);
    }
    // A table that was moved lies behind the end of the source.
    if let (Some(target), Some(first)) = (wish.target, first_behind(&plan.patches, source)) {
        plan.size = target;
        plan.mapped = (first > source).then(|| vec![0..source, first..target]);
    }
    Ok(plan)
}

/// The first byte of the patches that reach behind the end of the source.
fn first_behind(patches: &[Patch], source: u64) -> Option<u64> {
    patches.iter().map(Patch::range).filter(|range| range.end > source).map(|r| r.start).min()
}
