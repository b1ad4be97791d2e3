//! What can be seen of the demo at one moment, and how it came there.

use std::time::Duration;

use redrive::core::guard::BreakerState;

use super::script;

/// What can be seen at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    /// The time of the script.
    pub(crate) at: Duration,
    pub(crate) placed: u64,
    /// Different orders that the downstream took.
    pub(crate) delivered: u64,
    /// Calls of the downstream.
    pub(crate) attempts: u64,
    pub(crate) failed: u64,
    /// In the queue: ready, or in hand.
    pub(crate) ready: u64,
    /// In the queue, and due later.
    pub(crate) waiting: u64,
    pub(crate) in_hand: u64,
    pub(crate) parked: u64,
    pub(crate) dead: u64,
    pub(crate) recovered: u64,
    pub(crate) breaker: Option<BreakerState>,
    pub(crate) alarms: Vec<String>,
}

impl Figures {
    /// Whether the breaker holds the flow.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.breaker, Some(BreakerState::Open | BreakerState::HalfOpen))
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ready == 0 && self.waiting == 0 && self.in_hand == 0
    }
}

/// The parts of the script that a column of a sparkline stands for.
const COLUMN: Duration = Duration::from_secs(2);

/// The figures of the script's whole length, a value every two seconds.
#[derive(Debug, Default)]
pub(crate) struct Course {
    pub(crate) delivered: Vec<u64>,
    pub(crate) attempts: Vec<u64>,
    pub(crate) queued: Vec<u64>,
    /// The sums with which the last column began, and those of the last look.
    began: (u64, u64),
    last: (u64, u64),
}

impl Course {
    pub(crate) fn add(&mut self, figures: &Figures) {
        let columns = (script::LENGTH.as_millis() / COLUMN.as_millis()) as usize;
        let column = (figures.at.as_millis() / COLUMN.as_millis()) as usize;
        if column >= columns {
            return;
        }
        if self.queued.len() <= column {
            self.began = self.last;
            self.delivered.resize(column + 1, 0);
            self.attempts.resize(column + 1, 0);
            self.queued.resize(column + 1, self.queued.last().copied().unwrap_or(0));
        }
        self.last = (figures.delivered, figures.attempts);
        self.delivered[column] = self.last.0.saturating_sub(self.began.0);
        self.attempts[column] = self.last.1.saturating_sub(self.began.1);
        self.queued[column] = figures.ready + figures.waiting;
    }
}

/// A sparkline of eight heights; a gap for a zero. The heights grow with the square root, since the flood after an
/// outage is many times the ordinary stream, and both are to be seen.
pub(crate) fn spark(values: &[u64]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let height = |value: u64| {
        let step = (value as f64 / most as f64).sqrt() * HEIGHTS.len() as f64;
        (step.ceil() as usize).checked_sub(1).and_then(|at| HEIGHTS.get(at)).copied().unwrap_or(' ')
    };
    values.iter().map(|value| height(*value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_goes_from_nothing_to_the_most() {
        assert_eq!(spark(&[0, 1, 16, 64]), " ▁▄█");
        assert_eq!(spark(&[5, 5]), "██");
        assert_eq!(spark(&[0, 0]), "  ");
        assert_eq!(spark(&[]), "");
    }

    #[test]
    fn a_column_holds_what_two_seconds_brought() {
        let mut course = Course::default();
        for second in 0..8u64 {
            let at = Duration::from_secs(second);
            course.add(&Figures {
                at,
                delivered: second * 10,
                attempts: second * 11,
                ready: second,
                ..Figures::default()
            });
        }
        course.add(&Figures { at: Duration::from_secs(70), delivered: 999, ..Figures::default() });
        assert_eq!(course.delivered, [10, 20, 20, 20]);
        assert_eq!(course.attempts, [11, 22, 22, 22]);
        assert_eq!(course.queued, [1, 3, 5, 7]);
    }
}
