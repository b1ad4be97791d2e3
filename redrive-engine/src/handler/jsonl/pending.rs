//! Calls that wait for their answer, by the id of their message.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_core::{Failure, Text};
use tokio::sync::{Notify, oneshot};

use crate::handler::Attempted;

/// The calls in flight. One id is in flight once: the protocol has nothing else to tell answers apart.
#[derive(Debug, Default)]
pub(super) struct Pending {
    calls: Mutex<Calls>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    by_id: HashMap<Text, Waiting>,
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    attempt: u32,
    /// Whether the process may have seen it.
    sent: bool,
    reply: oneshot::Sender<Attempted>,
}

/// A call's place in the table, given up when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pending: Arc<Pending>,
    id: Text,
    number: u64,
}

/// A call's line on its way to the process.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) id: Text,
    pub(super) number: u64,
    pub(super) line: Vec<u8>,
}

impl Pending {
    /// Takes the place of an id, after whoever has it now.
    pub(super) async fn enter(
        self: &Arc<Self>,
        id: &Text,
        attempt: u32,
    ) -> (Place, oneshot::Receiver<Attempted>) {
        loop {
            let mut freed = pin!(self.freed.notified());
            // From here on no release is missed.
            freed.as_mut().enable();
            if let Some(entered) = self.try_enter(id, attempt) {
                return entered;
            }
            freed.await;
        }
    }

    fn try_enter(self: &Arc<Self>, id: &Text, attempt: u32) -> Option<(Place, oneshot::Receiver<Attempted>)> {
        let mut calls = self.lock();
        if calls.by_id.contains_key(id.as_str()) {
            return None;
        }
        let number = calls.next;
        calls.next += 1;
        let (reply, answer) = oneshot::channel();
        calls.by_id.insert(id.clone(), Waiting { number, attempt, sent: false, reply });
        Some((Place { pending: Arc::clone(self), id: id.clone(), number }, answer))
    }

    /// Marks a call as sent; tells whether it still waits.
    pub(super) fn send(&self, outgoing: &Outgoing) -> bool {
        match self.lock().by_id.get_mut(outgoing.id.as_str()) {
            Some(waiting) if waiting.number == outgoing.number => {
                waiting.sent = true;
                true
            }
            _ => false,
        }
    }

    /// Answers a call; tells whether there was one that had been sent.
    pub(super) fn answer(
        &self,
        id: &str,
        attempt: Option<u64>,
        attempted: impl FnOnce() -> Attempted,
    ) -> bool {
        let mut calls = self.lock();
        let fits = calls.by_id.get(id).is_some_and(|waiting| {
            waiting.sent && attempt.is_none_or(|attempt| attempt == u64::from(waiting.attempt))
        });
        let Some(waiting) = fits.then(|| calls.by_id.remove(id)).flatten() else { return false };
        drop(calls);
        self.freed.notify_waiters();
        // The call may be gone by now, like any late answer's.
        let _ = waiting.reply.send(attempted());
        true
    }

    /// Fails the calls that the process may have seen, or all of them.
    pub(super) fn fail(&self, failure: &Failure, also_unsent: bool) {
        let mut calls = self.lock();
        let gone: Vec<_> = calls.by_id.extract_if(|_, waiting| waiting.sent || also_unsent).collect();
        drop(calls);
        if gone.is_empty() {
            return;
        }
        self.freed.notify_waiters();
        for (_, waiting) in gone {
            let _ = waiting.reply.send(Attempted::failure(failure.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub(super) fn outgoing(&self, line: Vec<u8>) -> Outgoing {
        Outgoing { id: self.id.clone(), number: self.number, line }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut calls = self.pending.lock();
        if calls.by_id.get(self.id.as_str()).is_some_and(|waiting| waiting.number == self.number) {
            calls.by_id.remove(self.id.as_str());
            drop(calls);
            self.pending.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn the_second_call_of_an_id_waits_for_the_first() {
        let pending = Arc::new(Pending::default());
        let id = Text::from("1");
        let (first, _answer) = pending.enter(&id, 1).await;
        let mut second = pin!(pending.enter(&id, 2));
        assert!(std::future::poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx).is_pending())).await);
        drop(first);
        let (place, answer) = second.await;
        assert!(!pending.answer("1", None, Attempted::success), "not sent yet");
        assert!(pending.send(&place.outgoing(Vec::new())));
        assert!(!pending.answer("1", Some(1), Attempted::success), "the answer of another attempt");
        assert!(pending.answer("1", Some(2), Attempted::success));
        assert!(!pending.answer("1", None, Attempted::success), "answered twice");
        assert!(answer.await.unwrap().result.is_ok());
        assert!(!pending.send(&place.outgoing(Vec::new())));
    }
}
