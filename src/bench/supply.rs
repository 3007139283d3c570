//! Which piece comes next: shared by all threads of a test. No I/O here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::data::mix;
use crate::event::Span;
use crate::event::measure::Order;

/// When a test ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After as many bytes.
    Bytes(u64),
    /// After this time; a sequential test begins anew at the end of its span.
    Time(Duration),
}

/// The pieces of a test.
#[derive(Debug)]
pub(super) struct Supply<'a> {
    order: Order,
    span: Span,
    block: u64,
    /// Of a trace.
    list: &'a [Span],
    /// Pieces there are.
    count: u64,
    /// When no more are handed out.
    deadline: Option<Duration>,
    next: AtomicU64,
}

impl<'a> Supply<'a> {
    /// Blocks of a span, in order or at random.
    pub(super) fn blocks(
        order: Order,
        span: Span,
        block: u64,
        until: Until,
        now: Duration,
    ) -> Self {
        let (count, deadline) = match until {
            Until::Bytes(bytes) => (bytes.div_ceil(block.max(1)), None),
            Until::Time(time) => (u64::MAX, Some(now + time)),
        };
        Self { order, span, block, list: &[], count, deadline, next: AtomicU64::new(0) }
    }

    /// What a trace lists, once.
    pub(super) fn trace(list: &'a [Span]) -> Self {
        Self {
            order: Order::Trace,
            span: Span::default(),
            block: 0,
            list,
            count: list.len() as u64,
            deadline: None,
            next: AtomicU64::new(0),
        }
    }

    /// The next piece, unless the test is over.
    pub(super) fn next(&self, random: &mut u64, now: Duration) -> Option<Span> {
        if self.deadline.is_some_and(|end| now >= end) {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if index >= self.count {
            return None;
        }
        match self.order {
            Order::Trace => self.list.get(usize::try_from(index).ok()?).copied(),
            Order::Sequential => Some(self.piece(index)),
            Order::Random => {
                *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
                Some(self.piece(mix(*random)))
            }
        }
    }

    fn piece(&self, index: u64) -> Span {
        let blocks = match self.order {
            // Whole blocks alone: a short one would be another test.
            Order::Random => (self.span.len / self.block).max(1),
            Order::Sequential | Order::Trace => self.span.len.div_ceil(self.block).max(1),
        };
        let at = index % blocks * self.block;
        Span { offset: self.span.offset + at, len: self.block.min(self.span.len - at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { offset: 1 << 20, len: 10_240 };

    fn all(supply: &Supply<'_>) -> Vec<(u64, u64)> {
        let mut random = 1;
        std::iter::from_fn(|| supply.next(&mut random, Duration::ZERO))
            .map(|piece| (piece.offset - SPAN.offset, piece.len))
            .take(1_000)
            .collect()
    }

    #[test]
    fn a_sequential_test_covers_its_span_once_with_a_short_last_block() {
        let until = Until::Bytes(SPAN.len);
        let supply = Supply::blocks(Order::Sequential, SPAN, 4096, until, Duration::ZERO);
        assert_eq!(all(&supply), [(0, 4096), (4096, 4096), (8192, 2048)]);
    }

    #[test]
    fn a_test_of_some_time_goes_round_until_the_time_is_over() {
        let until = Until::Time(Duration::from_secs(5));
        let supply = Supply::blocks(Order::Sequential, SPAN, 4096, until, Duration::from_secs(1));
        assert_eq!(all(&supply).len(), 1_000);
        assert_eq!(supply.next(&mut 0, Duration::from_secs(6)), None);
    }

    #[test]
    fn random_pieces_are_whole_blocks_everywhere_in_the_span_and_the_same_for_a_seed() {
        let supply =
            || Supply::blocks(Order::Random, SPAN, 1024, Until::Bytes(300 << 10), Duration::ZERO);
        let seen = all(&supply());
        assert_eq!(seen.len(), 300);
        assert_eq!(seen, all(&supply()));
        let places: std::collections::BTreeSet<u64> = seen.iter().map(|piece| piece.0).collect();
        assert_eq!(places, (0..10).map(|block| block * 1024).collect());
    }
}
