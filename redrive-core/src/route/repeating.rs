//! The fewest hops through levels that may be passed more than once.
//!
//! Taking the longest level that fits is not enough: 12 on 9, 6 and 1 would be 9+1+1+1 instead of 6+6. It is,
//! though, the first of all ways when compared level by level, so it is the answer whenever no shorter way exists.

use super::level::{Level, Levels};

pub(super) fn plan(levels: &Levels, delay: u64, hops: usize) -> Vec<Level> {
    let smallest = levels.smallest().as_millis();
    let longest_first = longest_first(levels, delay, hops);
    let covered: u64 = longest_first.iter().map(|level| level.as_millis()).sum();
    let complete = delay - covered < smallest;

    // A sum from `low` to `delay` leaves less than the smallest level.
    let low = delay.saturating_sub(smallest - 1);
    let fewest = usize::try_from(low.div_ceil(levels.largest().as_millis())).unwrap_or(usize::MAX);
    let shorter_than = if complete { longest_first.len() } else { hops + 1 };
    if let Some(count) = (fewest..shorter_than).find(|count| best_sum(levels, *count, low, delay).is_some()) {
        return first_way(levels, count, low, delay);
    }
    if complete {
        return longest_first;
    }
    // Every hop is used: with one to spare, the smallest level would still fit.
    match best_sum(levels, hops, 0, delay) {
        Some(most) => first_way(levels, hops, most, most),
        None => longest_first,
    }
}

fn longest_first(levels: &Levels, delay: u64, hops: usize) -> Vec<Level> {
    let mut left = delay;
    let mut way = Vec::with_capacity(hops);
    for level in levels.as_slice() {
        while way.len() < hops && level.as_millis() <= left {
            left -= level.as_millis();
            way.push(*level);
        }
    }
    way
}

/// The largest sum of exactly `count` levels from `low` to `high`.
fn best_sum(levels: &Levels, count: usize, low: u64, high: u64) -> Option<u64> {
    let half = levels.sums.len() - 1;
    let few = &levels.sums[count.saturating_sub(half)];
    let many = &levels.sums[count.min(half)];
    // `few` ascends, so the largest partner that fits only moves down.
    let mut fits = many.len();
    let mut best = None;
    for sum in few {
        let Some(room) = high.checked_sub(*sum) else { break };
        fits = match few.len() {
            1 => many.partition_point(|partner| *partner <= room),
            _ => fits - many[..fits].iter().rev().take_while(|partner| **partner > room).count(),
        };
        let Some(partner) = fits.checked_sub(1).map(|at| many[at]) else { break };
        best = best.max(Some(sum + partner));
        if best == Some(high) {
            break;
        }
    }
    best.filter(|sum| *sum >= low)
}

/// The first way, longest levels first, of exactly `count` levels whose sum is from `low` to `high`.
///
/// A level that was passed over is in no such way, so the levels come out in descending order by themselves.
fn first_way(levels: &Levels, count: usize, low: u64, high: u64) -> Vec<Level> {
    let mut way = Vec::with_capacity(count);
    let (mut low, mut high) = (low, high);
    let mut from = 0;
    for left in (0..count).rev() {
        let found = levels.as_slice()[from..].iter().position(|level| {
            let level = level.as_millis();
            level <= high && best_sum(levels, left, low.saturating_sub(level), high - level).is_some()
        });
        let Some(at) = found else { break };
        from += at;
        let level = levels.as_slice()[from];
        low = low.saturating_sub(level.as_millis());
        high -= level.as_millis();
        way.push(level);
    }
    way
}
