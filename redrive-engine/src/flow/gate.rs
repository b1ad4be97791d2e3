//! The gate of a flow that stands still for one message.
//!
//! A blocking retry means that nothing else of the flow begins until the message in front is through. The gate knows
//! which message that is; everyone else waits.

use tokio::sync::watch;

use crate::port::Tag;

#[derive(Debug)]
pub(crate) struct Gate {
    closed_by: watch::Sender<Option<Tag>>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { closed_by: watch::Sender::new(None) }
    }
}

impl Gate {
    /// Waits until the gate is open, or closed by this very message.
    pub(crate) async fn pass(&self, tag: Tag) {
        if self.closed_by.borrow().is_none_or(|by| by == tag) {
            return;
        }
        let mut watching = self.closed_by.subscribe();
        // The sender lives as long as the gate, so waiting cannot fail.
        let _ = watching.wait_for(|by| by.is_none_or(|by| by == tag)).await;
    }

    /// Closes the gate for all but this message; answers whether it did. Another message may have been first.
    pub(crate) fn close(&self, tag: Tag) -> bool {
        self.closed_by.send_if_modified(|by| {
            let free = by.is_none();
            if free {
                *by = Some(tag);
            }
            free
        }) || self.is_closed_by(tag)
    }

    /// Opens the gate if this message closed it.
    pub(crate) fn open(&self, tag: Tag) {
        self.closed_by.send_if_modified(|by| {
            let mine = *by == Some(tag);
            if mine {
                *by = None;
            }
            mine
        });
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed_by.borrow().is_some()
    }

    pub(crate) fn is_closed_by(&self, tag: Tag) -> bool {
        *self.closed_by.borrow() == Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(number: u64) -> Tag {
        Tag { stream: 0, epoch: 0, number }
    }

    #[tokio::test]
    async fn only_the_message_that_closed_it_passes() {
        let gate = Gate::default();
        assert!(gate.close(tag(1)));
        assert!(!gate.close(tag(2)));
        gate.pass(tag(1)).await;
        let mut other = Box::pin(gate.pass(tag(2)));
        assert!(futures_util::poll!(&mut other).is_pending());
        gate.open(tag(2));
        assert!(futures_util::poll!(&mut other).is_pending());
        gate.open(tag(1));
        other.await;
        assert!(!gate.is_closed());
    }
}
