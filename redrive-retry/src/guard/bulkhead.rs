//! How many calls run at once, with a bounded queue in front.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use redrive_core::guard::{ConcurrencyLimit, GuardError};

use super::locked;

/// A number of places for calls, and of seats for those that wait for one. Clones share it.
///
/// One slow downstream system must not hold every task of a process: with a bulkhead it holds as many as there are
/// places, a few more wait in the order in which they came, and the rest is refused at once, while refusing still
/// helps.
///
/// ```
/// use redrive_retry::Bulkhead;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let bulkhead = Bulkhead::new(1, 0)?;
/// let place = bulkhead.acquire().await?;
/// assert!(bulkhead.acquire().await.is_err()); // no seat to wait in
/// drop(place);
/// assert!(bulkhead.acquire().await.is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Bulkhead {
    inner: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    limit: ConcurrencyLimit,
    seats: usize,
    /// Numbers grow, so the queue is sorted by them.
    waiting: VecDeque<(u64, Waker)>,
    /// Those that were given a place and have not seen it yet; each holds one.
    called: Vec<u64>,
    next: u64,
}

/// Neither a place nor a seat is free, or no place soon enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bulkhead is full: {places} calls run and {waiting} wait")]
pub struct BulkheadFull {
    /// How many places there are.
    pub places: u32,
    /// How many wait for one.
    pub waiting: usize,
}

impl Bulkhead {
    /// So many places, at least 1, and so many seats for those that wait.
    pub fn new(places: u32, seats: usize) -> Result<Self, GuardError> {
        let limit = ConcurrencyLimit::new(places)?;
        let state = State { limit, seats, waiting: VecDeque::new(), called: Vec::new(), next: 0 };
        Ok(Self { inner: Arc::new(Mutex::new(state)) })
    }

    /// Waits for a place; refused at once when no seat is free.
    ///
    /// May be dropped at any moment: the seat, or the place, goes to the next.
    pub fn acquire(&self) -> Acquire {
        Acquire { bulkhead: self.clone(), number: None }
    }

    /// Takes a place if one is free and nobody waits for it.
    pub fn try_acquire(&self) -> Option<Place> {
        locked(&self.inner).try_place().then(|| Place { bulkhead: self.clone() })
    }

    /// Waits for a place on this thread, at most so long; nothing when the time is over.
    pub fn acquire_blocking(&self, longest: Duration) -> Result<Option<Place>, BulkheadFull> {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut acquire = self.acquire();
        let began = Instant::now();
        loop {
            if let Poll::Ready(place) = Pin::new(&mut acquire).poll(&mut context) {
                return place.map(Some);
            }
            let left = longest.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::park_timeout(left);
        }
    }

    /// Changes the number of places. Calls that run beyond a smaller number may finish.
    pub fn resize(&self, places: u32) -> Result<(), GuardError> {
        let mut state = locked(&self.inner);
        state.limit.resize(places)?;
        let mut woken = Vec::new();
        while !state.waiting.is_empty() && state.limit.try_acquire() {
            woken.extend(state.call_next());
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Calls that run now.
    pub fn running(&self) -> u32 {
        locked(&self.inner).limit.in_flight()
    }

    /// Calls that wait now.
    pub fn waiting(&self) -> usize {
        locked(&self.inner).waiting.len()
    }

    /// What is said to one that no longer waits for a place.
    pub(crate) fn full(&self) -> BulkheadFull {
        let state = locked(&self.inner);
        BulkheadFull { places: state.limit.limit(), waiting: state.waiting.len() }
    }

    /// A place is free: the next in the queue gets it, else it is given back.
    fn leave(&self) {
        let mut state = locked(&self.inner);
        // After the number of places was made smaller, places that come free beyond it are not given on.
        let over = state.limit.in_flight() > state.limit.limit();
        let next = if over { None } else { state.call_next() };
        if next.is_none() {
            state.limit.release();
        }
        drop(state);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

impl State {
    /// A place for one that has just come: not before those that wait.
    fn try_place(&mut self) -> bool {
        self.waiting.is_empty() && self.limit.try_acquire()
    }

    /// Gives a place that is taken already to the next in the queue.
    fn call_next(&mut self) -> Option<Waker> {
        let (number, waker) = self.waiting.pop_front()?;
        self.called.push(number);
        Some(waker)
    }

    /// Whether this one was called; it is then no longer among them.
    fn was_called(&mut self, number: u64) -> bool {
        let found = self.called.iter().position(|called| *called == number);
        found.map(|at| self.called.swap_remove(at)).is_some()
    }

    fn seat(&mut self, number: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&number, |(number, _)| *number).ok()
    }
}

/// Waiting for a place; see [`Bulkhead::acquire`].
#[derive(Debug)]
#[must_use = "waits only when awaited"]
pub struct Acquire {
    bulkhead: Bulkhead,
    number: Option<u64>,
}

impl Acquire {
    /// What is said when it is given up.
    pub(crate) fn full(&self) -> BulkheadFull {
        self.bulkhead.full()
    }
}

impl Future for Acquire {
    type Output = Result<Place, BulkheadFull>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut state = locked(&this.bulkhead.inner);
        let Some(number) = this.number else {
            if state.try_place() {
                drop(state);
                return Poll::Ready(Ok(Place { bulkhead: this.bulkhead.clone() }));
            }
            if state.waiting.len() >= state.seats {
                let (places, waiting) = (state.limit.limit(), state.waiting.len());
                return Poll::Ready(Err(BulkheadFull { places, waiting }));
            }
            let number = state.next;
            state.next += 1;
            state.waiting.push_back((number, cx.waker().clone()));
            this.number = Some(number);
            return Poll::Pending;
        };
        if state.was_called(number) {
            drop(state);
            this.number = None;
            return Poll::Ready(Ok(Place { bulkhead: this.bulkhead.clone() }));
        }
        if let Some((_, waker)) = state.seat(number).and_then(|seat| state.waiting.get_mut(seat)) {
            waker.clone_from(cx.waker());
        }
        Poll::Pending
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = locked(&self.bulkhead.inner);
        if state.was_called(number) {
            drop(state);
            self.bulkhead.leave();
        } else if let Some(seat) = state.seat(number) {
            let gone = state.waiting.remove(seat);
            drop(state);
            // A waker may run code of its own when it goes.
            drop(gone);
        }
    }
}

/// A place that is taken; dropped, it goes to the next.
#[derive(Debug)]
#[must_use = "dropped, the place is free again"]
pub struct Place {
    bulkhead: Bulkhead,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.bulkhead.leave();
    }
}
