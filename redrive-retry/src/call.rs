//! A call as a future.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Sleep;

use crate::fallback::WithFallback;
use crate::guard::{Acquire, Place};
use crate::operation::Operation;
use crate::retryer::{Inner, Retryer};
use crate::run::{After, Quick, Run};
use crate::{Attempt, Classify, Hooks, Judged, RetryError, Stop};

/// Whoever has a retryer: a borrower or an owner.
pub trait HasRetryer: sealed::Sealed {
    /// How it judges.
    type Classifier;
    /// What it tells.
    type Hooks;

    #[doc(hidden)]
    fn retryer(&self) -> &Retryer<Self::Classifier, Self::Hooks>;
}

mod sealed {
    pub trait Sealed {}
}

impl<C, H> sealed::Sealed for &Retryer<C, H> {}
impl<C, H> sealed::Sealed for Retryer<C, H> {}

impl<C, H> HasRetryer for &Retryer<C, H> {
    type Classifier = C;
    type Hooks = H;

    #[inline]
    fn retryer(&self) -> &Retryer<C, H> {
        self
    }
}

impl<C, H> HasRetryer for Retryer<C, H> {
    type Classifier = C;
    type Hooks = H;

    #[inline]
    fn retryer(&self) -> &Retryer<C, H> {
        self
    }
}

pin_project! {
    /// A call under way; see [`Retryer::call`]. Does nothing until it is polled, and may be dropped at any moment.
    #[must_use = "a call is made only when it is awaited"]
    #[project = Projected]
    pub struct Call<R, O, E>
    where
        R: HasRetryer,
        O: Operation,
    {
        retryer: R,
        operation: O,
        run: Option<Run<E>>,
        #[pin]
        step: Step<O::Future>,
        // One timer for the wait between attempts and for the end of an attempt: never both at once.
        #[pin]
        timer: Option<Sleep>,
        place: Option<Place>,
        // Whether anything was waited for since the clock was read.
        suspended: bool,
    }

    impl<R, O, E> PinnedDrop for Call<R, O, E>
    where
        R: HasRetryer,
        O: Operation,
    {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(run) = this.run {
                run.cancel(&this.retryer.retryer().inner().settings);
            }
        }
    }
}

pin_project! {
    #[project = StepNow]
    enum Step<F> {
        New,
        // Waits for its turn of the rate limit.
        Turn,
        // Waits for a place in the bulkhead, since then; nothing any more once it has really waited.
        Seat { acquire: Acquire, since: Option<u64> },
        Running { #[pin] future: F },
        // Waits between two attempts.
        Between,
        Done,
    }
}

impl<R: HasRetryer, O: Operation, E> Call<R, O, E> {
    #[inline]
    pub(crate) fn new(retryer: R, operation: O) -> Self {
        Self { retryer, operation, run: None, step: Step::New, timer: None, place: None, suspended: false }
    }

    /// When the call fails, what this function makes of the error is the answer: a cached value, a default, another
    /// source.
    ///
    /// ```
    /// use redrive_retry::Retryer;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let retryer = Retryer::builder().attempts(1).build()?;
    /// let price = retryer
    ///     .call(|_| async { Err::<u32, _>("the price service is down") })
    ///     .fallback(|_error| async { Ok::<u32, &str>(100) }) // the price of yesterday
    ///     .await;
    /// assert_eq!(price, Ok(100));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fallback<F, Fut, X>(self, fallback: F) -> WithFallback<Self, F, Fut>
    where
        F: FnOnce(RetryError<E>) -> Fut,
        Fut: Future<Output = Result<O::Value, X>>,
    {
        WithFallback::new(self, fallback)
    }
}

impl<R, O, E> Future for Call<R, O, E>
where
    R: HasRetryer,
    O: Operation,
    R::Classifier: Classify<O::Value, O::Error, Error = E>,
    R::Hooks: Hooks<E>,
{
    type Output = Result<O::Value, RetryError<E>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let inner = this.retryer.retryer().inner();
        let settings = &inner.settings;
        // Most calls succeed at once or with their first attempt. They get the straight way.
        let first = if !matches!(*this.step, Step::New) {
            *this.suspended = true;
            None
        } else if let Some(quick) = Quick::begin(settings) {
            inner.hooks.starting(&quick.attempt);
            let future = this.operation.start(quick.attempt);
            this.step.set(Step::Running { future });
            let StepNow::Running { future } = this.step.as_mut().project() else { return Poll::Pending };
            let polled = future.poll(cx).map(|result| inner.classifier.judge(result));
            if let Poll::Ready(Judged::Done(value)) = polled {
                quick.succeed(inner);
                this.step.set(Step::Done);
                return Poll::Ready(Ok(value));
            }
            // Made in its place: it is too large to be carried there.
            this.run.get_or_insert_with(|| Run::from((quick, settings)));
            Some(polled)
        } else {
            match Run::begin(settings) {
                Ok(run) => *this.run = Some(run),
                Err(refused) => {
                    this.step.set(Step::Done);
                    return Poll::Ready(Err(refused));
                }
            }
            None
        };
        this.go_on(cx, first)
    }
}

impl<R, O, E> Projected<'_, R, O, E>
where
    R: HasRetryer,
    O: Operation,
    R::Classifier: Classify<O::Value, O::Error, Error = E>,
    R::Hooks: Hooks<E>,
{
    /// Goes on with a call that is under way; `polled` is what its attempt has just said, if it was asked already.
    #[inline(never)]
    fn go_on(
        &mut self,
        cx: &mut Context<'_>,
        mut polled: Option<Poll<Judged<O::Value, E>>>,
    ) -> Poll<Result<O::Value, RetryError<E>>> {
        let inner = self.retryer.retryer().inner();
        let settings = &inner.settings;
        let Some(run) = &mut *self.run else { return Poll::Pending };
        loop {
            let entered = match self.step.as_mut().project() {
                StepNow::Running { future } => {
                    let polled = polled.take().unwrap_or_else(|| {
                        run.inside(|| future.poll(cx)).map(|result| inner.classifier.judge(result))
                    });
                    let after = match polled {
                        Poll::Ready(judged) => {
                            let suspended = *self.suspended;
                            let now = |run: &Run<E>| {
                                if suspended { settings.now() } else { run.recent(settings) }
                            };
                            run.ended(inner, judged, now, || self.operation.is_repeatable())
                        }
                        Poll::Pending => {
                            let left = || run.attempt_left(settings.now());
                            ready!(poll_end(self.timer.as_mut(), cx, left));
                            run.timed_out(inner, settings.now(), self.operation.is_repeatable())
                        }
                    };
                    // What the attempt holds goes before anything is waited for.
                    self.step.set(Step::Between);
                    *self.place = None;
                    match after {
                        After::Done(value) => {
                            run.succeed(inner, *self.suspended);
                            self.step.set(Step::Done);
                            return Poll::Ready(Ok(value));
                        }
                        After::Stop(stop) => Err(stop),
                        After::Wait(wait) if wait.is_zero() => {
                            if self.timer.is_some() {
                                self.timer.set(None);
                            }
                            if settings.is_plain {
                                Ok(Entered::Place(run.since()))
                            } else {
                                Ok(Entered::Call(run.since()))
                            }
                        }
                        After::Wait(wait) => {
                            self.timer.set(Some(tokio::time::sleep(wait)));
                            continue;
                        }
                    }
                }
                StepNow::New => Ok(Entered::Call(run.since())),
                StepNow::Between => {
                    ready!(poll_timer(self.timer.as_mut(), cx));
                    Ok(Entered::Call(settings.now()))
                }
                StepNow::Turn => {
                    ready!(poll_timer(self.timer.as_mut(), cx));
                    Ok(Entered::Turn(settings.now()))
                }
                StepNow::Seat { acquire, since } => match Pin::new(&mut *acquire).poll(cx) {
                    Poll::Ready(Ok(place)) => {
                        *self.place = Some(place);
                        self.timer.set(None);
                        Ok(Entered::Place(since.unwrap_or_else(|| run.recent(settings))))
                    }
                    Poll::Ready(Err(full)) => Err(Stop::Bulkhead(full)),
                    Poll::Pending => {
                        let longest = match since.take() {
                            Some(_) => run.longest_wait(settings, settings.now()),
                            // Its timer is set already, if it has an end.
                            None => Ok(None),
                        };
                        match longest {
                            Ok(longest) => {
                                ready!(poll_end(self.timer.as_mut(), cx, || longest));
                                Err(Stop::Bulkhead(acquire.full()))
                            }
                            Err(stop) => Err(stop),
                        }
                    }
                },
                StepNow::Done => return Poll::Pending,
            };
            let way = match entered {
                // What was sent may still be on its way while one waits, and use up what would be sent again.
                Ok(_) if run.is_retry() && !self.operation.is_repeatable() => Err(Stop::NotRepeatable),
                Ok(Entered::Place(now)) => {
                    run.start::<O::Value, O::Error, _, _>(inner, now).map(Way::Attempt)
                }
                Ok(entered) => way_in::<O::Value, O::Error, _, _, _>(run, inner, entered),
                Err(stop) => Err(stop),
            };
            match way {
                Ok(Way::Attempt(attempt)) => {
                    *self.suspended = false;
                    let future = run.inside(|| self.operation.start(attempt));
                    self.step.set(Step::Running { future });
                }
                Ok(Way::Turn(wait)) => {
                    self.timer.set(Some(tokio::time::sleep(wait)));
                    self.step.set(Step::Turn);
                }
                Ok(Way::Seat(acquire, since)) => {
                    self.timer.set(None);
                    self.step.set(Step::Seat { acquire, since: Some(since) });
                }
                Err(stop) => {
                    *self.place = None;
                    self.step.set(Step::Done);
                    return Poll::Ready(Err(run.give_up(inner, stop)));
                }
            }
        }
    }
}

/// The way into an attempt: a turn, a place, and the attempt itself.
fn way_in<T, X, C, H, E>(run: &mut Run<E>, inner: &Inner<C, H>, entered: Entered) -> Result<Way, Stop>
where
    C: Classify<T, X, Error = E>,
    H: Hooks<E>,
{
    let settings = &inner.settings;
    let (now, needs_turn, needs_place) = match entered {
        Entered::Call(now) => (now, true, true),
        Entered::Turn(now) => (now, false, true),
        Entered::Place(now) => (now, false, false),
    };
    if needs_turn {
        let turn = run.take_turn(settings, now)?;
        if !turn.is_zero() {
            return Ok(Way::Turn(turn));
        }
    } else {
        // Others may have taken the last call while it waited for its turn.
        run.ask_call_budget(settings, now)?;
    }
    if let Some(bulkhead) = settings.bulkhead.as_ref().filter(|_| needs_place) {
        return Ok(Way::Seat(bulkhead.acquire(), now));
    }
    run.start::<T, X, _, _>(inner, now).map(Way::Attempt)
}

/// How far a call has come on its way into an attempt, and when.
enum Entered {
    Call(u64),
    Turn(u64),
    Place(u64),
}

/// What is next on that way.
enum Way {
    Turn(Duration),
    Seat(Acquire, u64),
    Attempt(Attempt),
}

fn poll_timer(timer: Pin<&mut Option<Sleep>>, cx: &mut Context<'_>) -> Poll<()> {
    let mut timer = timer;
    if let Some(sleep) = timer.as_mut().as_pin_mut() {
        ready!(sleep.poll(cx));
    }
    timer.set(None);
    Poll::Ready(())
}

/// Waits for the end of something that has so much time left; the timer is made when it is first needed, which for
/// most calls is never.
fn poll_end(
    timer: Pin<&mut Option<Sleep>>,
    cx: &mut Context<'_>,
    left: impl FnOnce() -> Option<Duration>,
) -> Poll<()> {
    let mut timer = timer;
    if timer.is_none() {
        let Some(left) = left() else { return Poll::Pending };
        timer.set(Some(tokio::time::sleep(left)));
    }
    poll_timer(timer, cx)
}

impl<R: HasRetryer, O: Operation, E> fmt::Debug for Call<R, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
