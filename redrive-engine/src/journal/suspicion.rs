//! Who is suspected after a crash: a pure step from what the last process left to what the next one begins with.

use std::collections::HashMap;
use std::time::Duration;

use redrive_core::Timestamp;

use super::layout::{Image, Suspect};

/// A suspect whose message has not come back for so long is forgotten.
pub(super) const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// Messages whose calls were running when the last process died.
    pub crashed: usize,
    /// Suspects that were forgotten because they never came back.
    pub expired: usize,
    /// Suspects that were forgotten because there was no room for them.
    pub displaced: usize,
}

/// Charges what was running with a crash, and forgets what is too old or too much.
pub(super) fn after_death(left: Image, room: usize, now: Timestamp) -> (Vec<Suspect>, Found) {
    let mut suspects: HashMap<u64, Suspect> = HashMap::new();
    for mut suspect in left.suspects {
        // A clock that was set back leaves times in the future; they would never grow old.
        suspect.last = suspect.last.min(now);
        let known = suspects.entry(suspect.name).or_insert(suspect);
        known.crashes = known.crashes.max(suspect.crashes);
        known.last = known.last.max(suspect.last);
    }
    // Two copies of one message in two calls are one crash.
    let mut running = left.running;
    running.sort_unstable();
    running.dedup();
    for name in &running {
        let known = suspects.entry(*name).or_insert(Suspect { name: *name, crashes: 0, last: now });
        known.crashes = known.crashes.saturating_add(1);
        known.last = now;
    }
    let known = suspects.len();
    let mut suspects: Vec<Suspect> =
        suspects.into_values().filter(|suspect| !is_old(suspect.last, now)).collect();
    let expired = known - suspects.len();
    // The latest first; among equals those that crashed most often.
    suspects.sort_unstable_by_key(|suspect| std::cmp::Reverse((suspect.last, suspect.crashes, suspect.name)));
    let displaced = suspects.len().saturating_sub(room);
    suspects.truncate(room);
    (suspects, Found { crashed: running.len(), expired, displaced })
}

/// Whether a suspect that last crashed then is to be forgotten.
pub(super) fn is_old(last: Timestamp, now: Timestamp) -> bool {
    now.since(last) >= FORGOTTEN_AFTER
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_millis(1_782_896_400_000 + hours * HOUR)
    }

    fn suspect(name: u64, crashes: u32, hours: i64) -> Suspect {
        Suspect { name, crashes, last: at(hours) }
    }

    fn left(running: &[u64], suspects: &[Suspect]) -> Image {
        Image { key: [0; 2], calls: 8, room: 8, running: running.to_vec(), suspects: suspects.to_vec() }
    }

    #[test]
    fn what_ran_is_charged_once_and_what_waited_is_not() {
        let (suspects, found) =
            after_death(left(&[7, 9, 7], &[suspect(7, 1, 0), suspect(5, 1, 0)]), 8, at(1));
        assert_eq!(suspects, [suspect(7, 2, 1), suspect(9, 1, 1), suspect(5, 1, 0)]);
        assert_eq!(found, Found { crashed: 2, expired: 0, displaced: 0 });
    }

    #[test]
    fn a_day_later_a_suspect_is_forgotten_unless_it_crashed_again() {
        let (suspects, found) = after_death(left(&[7], &[suspect(7, 1, 0), suspect(5, 1, 0)]), 8, at(24));
        assert_eq!(suspects, [suspect(7, 2, 24)]);
        assert_eq!(found, Found { crashed: 1, expired: 1, displaced: 0 });
    }

    #[test]
    fn the_oldest_make_room() {
        let known = [suspect(1, 1, 3), suspect(2, 9, 1), suspect(3, 2, 2), suspect(4, 1, 2)];
        let (suspects, found) = after_death(left(&[], &known), 2, at(4));
        assert_eq!(suspects, [suspect(1, 1, 3), suspect(3, 2, 2)]);
        assert_eq!(found, Found { crashed: 0, expired: 0, displaced: 2 });
    }

    #[test]
    fn a_clock_that_was_set_back_keeps_nobody_for_ever() {
        let (suspects, _) = after_death(left(&[], &[suspect(1, 1, 9_000)]), 8, at(0));
        assert_eq!(suspects, [suspect(1, 1, 0)]);
    }

    #[test]
    fn crashes_do_not_overflow() {
        let (suspects, _) = after_death(left(&[1], &[suspect(1, u32::MAX, 0)]), 8, at(0));
        assert_eq!(suspects[0].crashes, u32::MAX);
    }
}
