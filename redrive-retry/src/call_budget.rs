//! One budget for everything that is called on behalf of one message.
//!
//! A message that is tried six times, by a handler that makes two calls, each retried five times, is sixty calls.
//! Each layer alone looks modest. So the layer that started it says how many calls are left and until when, and every
//! [`Retryer`](crate::Retryer) below takes from that, without being handed anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

tokio::task_local! {
    static CURRENT: CallBudget;
}

/// What is left of a budget of calls, and its deadline. Clones share it.
///
/// Inside a handler of a Redrive flow there is one already: the engine sets it around the call, and charges the
/// message with what was used. Elsewhere, [`scope`](Self::scope) sets one.
///
/// It belongs to the task. A task that the handler spawns has none unless it takes it along:
///
/// ```
/// use redrive_retry::CallBudget;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let budget = CallBudget::new(Some(10), None);
/// budget.scope(async {
///     let alone = tokio::spawn(async { CallBudget::current().is_some() });
///     assert!(!alone.await?);
///     let along = tokio::spawn(CallBudget::carry(async { CallBudget::current().is_some() }));
///     assert!(along.await?);
///     Ok::<(), tokio::task::JoinError>(())
/// }).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct CallBudget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Nothing means without limit.
    calls: Option<u32>,
    used: AtomicU32,
    deadline: Option<Instant>,
}

impl CallBudget {
    /// A budget of so many calls, until then; nothing means without limit.
    pub fn new(calls: Option<u32>, deadline: Option<Instant>) -> Self {
        Self { inner: Arc::new(Inner { calls, used: AtomicU32::new(0), deadline }) }
    }

    /// Begins anew, as another budget. One that nobody else has is used again, without an allocation.
    pub fn renew(&mut self, calls: Option<u32>, deadline: Option<Instant>) {
        match Arc::get_mut(&mut self.inner) {
            Some(inner) => *inner = Inner { calls, used: AtomicU32::new(0), deadline },
            None => *self = Self::new(calls, deadline),
        }
    }

    /// The budget of the task or thread that asks.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    #[inline]
    pub(crate) fn is_set() -> bool {
        CURRENT.try_with(|_| ()).is_ok()
    }

    /// Runs a future within this budget, and within this one alone: one that was set outside of it neither counts nor
    /// holds inside.
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self.clone(), work)
    }

    /// Runs a function within this budget, as on a thread for blocking calls.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), work)
    }

    /// The future within the budget of the task that calls this, for a task that is to be spawned. Without one it
    /// runs as it is.
    pub fn carry<F: Future>(work: F) -> impl Future<Output = F::Output> {
        let budget = Self::current();
        async move {
            match budget {
                Some(budget) => budget.scope(work).await,
                None => work.await,
            }
        }
    }

    /// Calls that were made.
    pub fn used(&self) -> u32 {
        self.inner.used.load(Ordering::Relaxed)
    }

    /// Calls that are left; nothing means without limit.
    pub fn left(&self) -> Option<u32> {
        self.inner.calls.map(|calls| calls.saturating_sub(self.used()))
    }

    /// The time that is left; nothing means without limit.
    pub fn time_left(&self) -> Option<Duration> {
        self.inner.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Takes one call; false, and nothing is taken, when none is left. For calls that no [`Retryer`](crate::Retryer)
    /// makes.
    #[must_use = "a call may be made only when it was taken"]
    pub fn try_take(&self) -> bool {
        let taken = self.inner.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            let left = self.inner.calls.is_none_or(|calls| used < calls);
            left.then(|| used.saturating_add(1))
        });
        taken.is_ok()
    }

    /// Gives back one call that was taken and not made.
    pub(crate) fn give_back(&self) {
        let used = &self.inner.used;
        // Nothing is left to be done where it is none already.
        let _ = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| used.checked_sub(1));
    }
}
