//! What keeps a flow from its broker.
//!
//! While nothing can be settled, every further call would be work that cannot be written down, and that is done again
//! after a crash. So no call begins until the broker settles again; what is in hand stays there, uncharged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::port::PortError;

/// What keeps the flow from its broker, when something does.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    any: AtomicBool,
    why: Mutex<Why>,
}

#[derive(Debug, Default)]
struct Why {
    settling: Option<Arc<str>>,
    reading: Option<Arc<str>>,
}

impl Trouble {
    fn why_not(&self) -> MutexGuard<'_, Why> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The broker did not settle.
    pub(crate) fn cannot_settle(&self, error: &PortError) {
        self.any.store(true, Ordering::Relaxed);
        self.why_not().settling = Some(error.to_string().into());
    }

    /// The broker settles; tells whether it had not before.
    pub(crate) fn settles(&self) -> bool {
        self.any.load(Ordering::Relaxed) && self.why_not().settling.take().is_some()
    }

    /// The source did not answer.
    pub(crate) fn cannot_read(&self, error: &PortError) {
        self.any.store(true, Ordering::Relaxed);
        self.why_not().reading = Some(error.to_string().into());
    }

    /// The source answers; tells whether it had not before.
    pub(crate) fn reads(&self) -> bool {
        self.any.load(Ordering::Relaxed) && self.why_not().reading.take().is_some()
    }

    /// What was said last, when something is the matter.
    pub(crate) fn why(&self) -> Option<Arc<str>> {
        let why = self.why_not();
        why.settling.clone().or_else(|| why.reading.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_is_told_once() {
        let trouble = Trouble::default();
        assert!(!trouble.settles() && !trouble.reads());
        trouble.cannot_read(&PortError::Broken("damaged".to_owned()));
        trouble.cannot_settle(&PortError::Unavailable("full".to_owned()));
        assert_eq!(trouble.why().as_deref(), Some("full"));
        assert!(trouble.settles());
        assert!(!trouble.settles(), "it was well already");
        assert_eq!(trouble.why().as_deref(), Some("damaged"));
        assert!(trouble.reads());
        assert_eq!(trouble.why(), None);
    }
}
