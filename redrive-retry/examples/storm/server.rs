//! A server with a queue, which can be made to stop.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::sync::oneshot;

use super::ms;

/// Why a request was not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The queue was full.
    Full,
}

/// How long one round of serving takes.
pub(super) const ROUND_MS: u64 = 10;

#[derive(Debug, Clone)]
pub(super) struct Server {
    state: Rc<RefCell<State>>,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<oneshot::Sender<()>>,
    room: usize,
    arrived: u64,
}

impl Server {
    pub(super) fn new(room: usize) -> Self {
        Self { state: Rc::new(RefCell::new(State { queue: VecDeque::new(), room, arrived: 0 })) }
    }

    /// One request, from its arrival to its answer.
    pub(super) async fn request(&self) -> Result<(), Refused> {
        let answer = {
            let mut state = self.state.borrow_mut();
            state.arrived += 1;
            if state.queue.len() >= state.room {
                return Err(Refused::Full);
            }
            let (served, answer) = oneshot::channel();
            state.queue.push_back(served);
            answer
        };
        answer.await.map_err(|_| Refused::Full)
    }

    /// Serves so many requests of the queue, the oldest first, whether anybody still waits for them or not.
    pub(super) fn serve(&self, requests: u32) {
        for _ in 0..requests {
            let next = self.state.borrow_mut().queue.pop_front();
            // A client that has given up is not there any more, and the work was done for nothing.
            let Some(Ok(()) | Err(())) = next.map(|served| served.send(())) else { return };
        }
    }

    /// Requests that have arrived so far.
    pub(super) fn arrived(&self) -> u64 {
        self.state.borrow().arrived
    }
}

/// Waits for the next round.
pub(super) async fn round() {
    tokio::time::sleep(ms(ROUND_MS)).await;
}
