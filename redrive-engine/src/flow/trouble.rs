//! What keeps a flow from its broker.
//!
//! While nothing can be settled, every further call would be work that cannot be written down, and that is done again
//! after a crash. So no call begins until the broker settles again; what is in hand stays there, uncharged.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::port::PortError;

/// What keeps the flow from its broker, when something does.
#[derive(Debug)]
pub(crate) struct Trouble {
    settling: watch::Sender<Option<Arc<str>>>,
    reading: Mutex<Option<Arc<str>>>,
}

impl Default for Trouble {
    fn default() -> Self {
        Self { settling: watch::Sender::new(None), reading: Mutex::default() }
    }
}

impl Trouble {
    /// The broker did not settle; no call begins until it does.
    pub(crate) fn cannot_settle(&self, error: &PortError) {
        self.settling.send_replace(Some(error.to_string().into()));
    }

    /// The broker settles; tells whether it had not before.
    pub(crate) fn settles(&self) -> bool {
        self.settling.send_if_modified(|why| why.take().is_some())
    }

    /// Waits until settling works.
    pub(crate) async fn pass(&self) {
        if self.settling.borrow().is_none() {
            return;
        }
        // The sender lives as long as the flow, so waiting cannot fail.
        let _ = self.settling.subscribe().wait_for(Option::is_none).await;
    }

    /// The source did not answer.
    pub(crate) fn cannot_read(&self, error: &PortError) {
        *self.reading() = Some(error.to_string().into());
    }

    /// The source answers; tells whether it had not before.
    pub(crate) fn reads(&self) -> bool {
        self.reading().take().is_some()
    }

    /// What was said last, when something is the matter.
    pub(crate) fn why(&self) -> Option<Arc<str>> {
        self.settling.borrow().clone().or_else(|| self.reading().clone())
    }

    fn reading(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_passes_until_it_settles_again() {
        let trouble = Trouble::default();
        trouble.pass().await;
        trouble.cannot_settle(&PortError::Unavailable("full".to_owned()));
        assert_eq!(trouble.why().as_deref(), Some("full"));
        let mut passing = Box::pin(trouble.pass());
        assert!(futures_util::poll!(&mut passing).is_pending());
        assert!(trouble.settles());
        passing.await;
        assert!(!trouble.settles(), "it was well already");
        assert_eq!(trouble.why(), None);
    }

    #[tokio::test]
    async fn a_source_that_is_away_keeps_no_call_waiting() {
        let trouble = Trouble::default();
        trouble.cannot_read(&PortError::Broken("damaged".to_owned()));
        trouble.pass().await;
        assert_eq!(trouble.why().as_deref(), Some("damaged"));
        assert!(trouble.reads());
        assert_eq!(trouble.why(), None);
    }
}
