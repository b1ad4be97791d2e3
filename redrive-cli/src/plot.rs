//! When the attempts come, drawn on a line of time. The scale is logarithmic, since a schedule goes from
//! milliseconds to days.

use std::fmt::Write;
use std::time::Duration;

use redrive::core::Row;

use crate::explain::rounded;

/// More lines than this are not looked at.
const MOST_ROWS: usize = 30;
/// Columns to the left of the line of time.
const MARGIN: usize = 8;

/// The line of time: for each attempt the time between the earliest and the latest moment it can come, and the
/// mean.
pub(crate) fn timeline(rows: &[Row], width: usize) -> String {
    let mut ages = Vec::new();
    let (mut min, mut mean) = (Duration::ZERO, Duration::ZERO);
    for row in rows.iter().skip(1).take(MOST_ROWS) {
        min = min.saturating_add(row.min);
        mean = mean.saturating_add(row.mean);
        ages.push((row.attempt, min, mean, row.age_max));
    }
    let first = ages.iter().map(|(_, min, ..)| *min).find(|age| !age.is_zero());
    let (Some(first), Some((.., last))) = (first, ages.last()) else { return String::new() };
    let scale = Scale::new(first, *last, width.saturating_sub(MARGIN + 2));
    let mut text = String::from("\n");
    for (attempt, min, mean, max) in &ages {
        let (from, at, to) = (scale.column(*min), scale.column(*mean), scale.column(*max));
        let mut line: Vec<char> = vec![' '; scale.columns];
        for cell in &mut line[from..=to.max(from)] {
            *cell = '─';
        }
        line[at.clamp(from, to.max(from))] = '●';
        let line: String = line.into_iter().collect();
        let _ = writeln!(text, "  {attempt:>4}  {}", line.trim_end());
    }
    if rows.len() > MOST_ROWS + 1 {
        let _ = writeln!(text, "     …");
    }
    let _ = writeln!(text, "        {}", scale.axis());
    let _ = writeln!(text, "        {}", scale.labels());
    let _ = writeln!(text, "        time since the first failure, logarithmic");
    text
}

struct Scale {
    low: f64,
    high: f64,
    columns: usize,
    ticks: Vec<Duration>,
}

/// Round times that a person counts in.
const TICKS: [u64; 13] = [
    1,
    10,
    100,
    1_000,
    10_000,
    60_000,
    600_000,
    3_600_000,
    21_600_000,
    86_400_000,
    604_800_000,
    2_592_000_000,
    31_536_000_000,
];

impl Scale {
    fn new(first: Duration, last: Duration, columns: usize) -> Self {
        let millis = |duration: Duration| duration.as_secs_f64() * 1_000.0;
        let low_tick = TICKS.iter().rev().find(|tick| **tick as f64 <= millis(first)).unwrap_or(&TICKS[0]);
        let high = millis(last).max(*low_tick as f64 * 10.0);
        let low = (*low_tick as f64).ln();
        let high = high.ln();
        let ticks = TICKS.iter().filter(|tick| (low..=high).contains(&(**tick as f64).ln()));
        Self {
            low,
            high,
            columns: columns.max(20),
            ticks: ticks.map(|tick| Duration::from_millis(*tick)).collect(),
        }
    }

    fn column(&self, age: Duration) -> usize {
        let at = (age.as_secs_f64() * 1_000.0).max(0.001).ln();
        let share = ((at - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        (share * (self.columns - 1) as f64).round() as usize
    }

    fn axis(&self) -> String {
        let mut line: Vec<char> = vec!['─'; self.columns];
        for tick in &self.ticks {
            line[self.column(*tick)] = '┬';
        }
        line.into_iter().collect()
    }

    fn labels(&self) -> String {
        let mut line = String::new();
        for tick in &self.ticks {
            let (label, at) = (rounded(*tick), self.column(*tick));
            let room = line.is_empty() || line.chars().count() < at;
            if room && at + label.len() <= self.columns {
                let _ = write!(line, "{:1$}{label}", "", at - line.chars().count());
            }
        }
        line
    }
}
