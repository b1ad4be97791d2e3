//! The downstream's mind: what it answers to whom and when.

use std::time::Duration;

use serde_json::Value;

use super::script::{self, LIMIT, Mood, SCHEMA};

/// What a call is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Accepted,
    /// It failed for no reason of the order.
    Busy,
    /// It is down altogether.
    Down,
    /// Later, please.
    Limited,
    /// This is no order.
    Unreadable,
    /// An order in a language it does not speak.
    UnknownSchema(u64),
}

/// The downstream's mind.
#[derive(Debug, Default)]
pub(crate) struct Temper {
    /// Calls in a scene of blips.
    blips: u64,
    /// Calls that may still pass while there is a limit, and when that was counted.
    tokens: f64,
    counted: Duration,
    /// Whether the fix is out: the new schema is understood.
    pub(crate) fixed: bool,
}

impl Temper {
    pub(crate) fn answer(&mut self, at: Duration, body: &[u8]) -> Answer {
        match script::scene(at).mood {
            Mood::Down => return Answer::Down,
            Mood::Blips => {
                self.blips += 1;
                if self.blips.is_multiple_of(4) {
                    return Answer::Busy;
                }
            }
            Mood::Limited if !self.has_room(at) => return Answer::Limited,
            Mood::Limited | Mood::Calm => {}
        }
        let Ok(order) = serde_json::from_slice::<Value>(body) else { return Answer::Unreadable };
        match order.get("schema").and_then(Value::as_u64) {
            Some(SCHEMA) => Answer::Accepted,
            Some(_) if self.fixed => Answer::Accepted,
            Some(schema) => Answer::UnknownSchema(schema),
            None => Answer::Unreadable,
        }
    }

    /// A bucket that holds a second's calls.
    fn has_room(&mut self, at: Duration) -> bool {
        let since = at.saturating_sub(self.counted).as_secs_f64();
        self.counted = at;
        self.tokens = (self.tokens + since * f64::from(LIMIT)).min(f64::from(LIMIT));
        let room = self.tokens >= 1.0;
        if room {
            self.tokens -= 1.0;
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::{NEW_SCHEMA, Order};
    use super::*;

    const CALM: Duration = Duration::from_secs(1);

    fn body(number: u32) -> Vec<u8> {
        Order(number).body().into_bytes()
    }

    #[test]
    fn orders_are_answered_by_what_they_are() {
        let mut temper = Temper::default();
        assert_eq!(temper.answer(CALM, &body(0)), Answer::Accepted);
        assert_eq!(temper.answer(CALM, &body(160)), Answer::Unreadable);
        assert_eq!(temper.answer(CALM, &body(200)), Answer::UnknownSchema(NEW_SCHEMA));
        temper.fixed = true;
        assert_eq!(temper.answer(CALM, &body(200)), Answer::Accepted);
        assert_eq!(temper.answer(CALM, &body(160)), Answer::Unreadable, "no fix helps it");
    }

    #[test]
    fn one_call_in_four_is_a_blip_and_every_call_an_outage() {
        let mut temper = Temper::default();
        let blips = (0..100).filter(|_| temper.answer(Duration::from_secs(7), &body(0)) == Answer::Busy);
        assert_eq!(blips.count(), 25);
        let down =
            (14..44).all(|second| temper.answer(Duration::from_secs(second), &body(0)) == Answer::Down);
        assert!(down);
    }

    #[test]
    fn the_limit_lets_so_many_a_second_through() {
        let mut temper = Temper::default();
        let mut accepted = 0;
        for tenth in 500..560 {
            for _ in 0..4 {
                let answer = temper.answer(Duration::from_millis(tenth * 100), &body(0));
                accepted += u32::from(answer == Answer::Accepted);
            }
        }
        assert!(
            (7 * LIMIT - 2..=7 * LIMIT).contains(&accepted),
            "{accepted} in six seconds and one in store"
        );
    }
}
