//! Whose turn it is when fresh and retried messages wait for the same place.
//!
//! Without a rule, a backlog of retries starves what has just arrived, or the other way round. The rule is a
//! credit counter: no randomness, no clock, the same picks for the same questions.

use super::{GuardError, MILLION, millionths};

/// Which kind of message goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Turn {
    /// A message that was never attempted.
    Fresh,
    /// A message that failed before.
    Retry,
}

/// Gives retries at most a share of the turns while both kinds wait, and all of them while they wait alone.
///
/// Over any `k` turns in a row for which both kinds waited, retries get more than `share × k − 1` and fewer than
/// `share × k + 1`. Turns that one kind took because the other was idle are nobody's debt. The share is kept to
/// a millionth. Default: 0.3, the share that the retry budget has too.
///
/// ```
/// use redrive_core::guard::{FairShare, Turn};
///
/// let mut fair = FairShare::new(0.25)?;
/// let turns: Vec<_> = (0..8).filter_map(|_| fair.next(true, true)).collect();
/// assert_eq!(turns.iter().filter(|turn| **turn == Turn::Retry).count(), 2);
///
/// assert_eq!(fair.next(false, true), Some(Turn::Retry));
/// assert_eq!(fair.next(true, false), Some(Turn::Fresh));
/// assert_eq!(fair.next(false, false), None);
/// # Ok::<(), redrive_core::guard::GuardError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FairShare {
    share: u64,
    /// What retries have saved up, in millionths of a turn; always below one turn.
    credit: u64,
}

impl FairShare {
    /// A share above 0 and below 1, so that neither kind starves.
    pub fn new(retry_share: f64) -> Result<Self, GuardError> {
        let help = "write a share above 0 and below 1, such as 0.3";
        if !(retry_share > 0.0 && retry_share < 1.0) {
            return Err(GuardError::new("retry_share", retry_share, help));
        }
        let share = millionths(retry_share);
        if share == 0 || share >= MILLION {
            return Err(GuardError::new("retry_share", retry_share, help));
        }
        Ok(Self { share, credit: 0 })
    }

    /// Picks the kind that goes next among those that are ready; `None` when neither is.
    pub fn next(&mut self, fresh_ready: bool, retry_ready: bool) -> Option<Turn> {
        match (fresh_ready, retry_ready) {
            (false, false) => None,
            (true, false) => Some(Turn::Fresh),
            (false, true) => Some(Turn::Retry),
            (true, true) => {
                self.credit += self.share;
                if self.credit < MILLION {
                    return Some(Turn::Fresh);
                }
                self.credit -= MILLION;
                Some(Turn::Retry)
            }
        }
    }
}

impl Default for FairShare {
    fn default() -> Self {
        Self { share: 300_000, credit: 0 }
    }
}
