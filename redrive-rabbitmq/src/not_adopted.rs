//! What the ledger did not take over, and lies at the end of its queue again.
//!
//! A queue is not read again for it alone at every look: that would write the same messages once a second for nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_engine::adapter::Alarms;
use tokio::time::Instant;

/// The name of the alarm.
const ALARM: &str = "not_adopted";
/// How long what was refused lies before the ledger is asked again.
const AGAIN: Duration = Duration::from_secs(60);
/// How many messages an alarm names.
const NAMED: usize = 3;

/// What was left, by queue.
#[derive(Debug)]
pub(crate) struct NotAdopted {
    alarms: Arc<Alarms>,
    left: Mutex<BTreeMap<Arc<str>, Left>>,
}

#[derive(Debug)]
struct Left {
    messages: u64,
    again: Instant,
}

impl NotAdopted {
    pub(crate) fn new(alarms: Arc<Alarms>) -> Self {
        Self { alarms, left: Mutex::default() }
    }

    fn left(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a queue with so many messages is to be read: something lies there that was not refused, or it is time to ask
    /// again.
    pub(crate) fn is_due(&self, queue: &str, messages: u64) -> bool {
        let left = self.left();
        left.get(queue).is_none_or(|left| messages > left.messages || Instant::now() >= left.again)
    }

    /// A queue was read to its end, and these of it were refused, each with why.
    pub(crate) fn looked(&self, queue: &Arc<str>, refused: &[String]) {
        if refused.is_empty() {
            if self.left().remove(queue).is_some() {
                self.alarms.clear(ALARM, queue);
            }
            return;
        }
        let messages = refused.len() as u64;
        self.left().insert(Arc::clone(queue), Left { messages, again: Instant::now() + AGAIN });
        let named = refused[..refused.len().min(NAMED)].join("; ");
        let why = format!(
            "the ledger does not take {messages} of the messages in `{queue}`, and they stay there: {named}; they are offered to it again every minute"
        );
        self.alarms.raise(ALARM, queue, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_queue_is_read_again_for_something_new_or_after_a_while() {
        let alarms: Arc<Alarms> = Arc::default();
        let left = NotAdopted::new(Arc::clone(&alarms));
        let queue: Arc<str> = "orders.dlq".into();
        assert!(left.is_due(&queue, 1));
        left.looked(&queue, &["`a`: too large".to_owned()]);
        assert!(!left.is_due(&queue, 1), "there is nothing new");
        assert!(left.is_due(&queue, 2));
        let why = alarms.all().remove(0).why;
        assert!(why.contains("`a`: too large") && why.contains("`orders.dlq`"), "{why}");
        tokio::time::advance(AGAIN).await;
        assert!(left.is_due(&queue, 1));
        left.looked(&queue, &[]);
        assert_eq!(alarms.all(), []);
        assert!(left.is_due(&queue, 1));
    }
}
