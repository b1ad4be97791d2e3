//! A call on the thread of the caller.

use std::time::Duration;

use crate::retryer::Inner;
use crate::run::{After, Run};
use crate::{Attempt, Classify, Hooks, RetryError, Stop};

/// A call that is under way; an operation that panics ends it.
struct UnderWay<'r, C, H, E> {
    inner: &'r Inner<C, H>,
    run: Run<E>,
}

impl<C, H, E> Drop for UnderWay<'_, C, H, E> {
    fn drop(&mut self) {
        self.run.cancel(&self.inner.settings);
    }
}

pub(crate) fn call<T, E, C, H>(
    inner: &Inner<C, H>,
    mut operation: impl FnMut(Attempt) -> Result<T, E>,
) -> Result<T, RetryError<C::Error>>
where
    C: Classify<T, E>,
    H: Hooks<C::Error>,
{
    let settings = &inner.settings;
    let mut call = UnderWay { inner, run: Run::begin(settings)? };
    let mut now = call.run.since();
    loop {
        let result = match attempt(&mut call, now, &mut operation) {
            Ok(result) => result,
            Err(stop) => return Err(call.run.give_up(inner, stop)),
        };
        // Nobody knows whether it blocked.
        let judged = inner.classifier.judge(result);
        match call.run.ended::<_, E, _, _>(inner, judged, |_| settings.now(), || true) {
            After::Done(value) => {
                call.run.succeed(inner, true);
                return Ok(value);
            }
            After::Wait(wait) if wait.is_zero() => now = call.run.since(),
            After::Wait(wait) => {
                std::thread::sleep(wait);
                now = settings.now();
            }
            After::Stop(stop) => return Err(call.run.give_up(inner, stop)),
        }
    }
}

/// Waits for a turn and a place, and makes one attempt.
fn attempt<T, X, E, C, H>(
    call: &mut UnderWay<'_, C, H, E>,
    mut now: u64,
    operation: &mut impl FnMut(Attempt) -> Result<T, X>,
) -> Result<Result<T, X>, Stop>
where
    C: Classify<T, X, Error = E>,
    H: Hooks<E>,
{
    let settings = &call.inner.settings;
    let turn = call.run.take_turn(settings, now)?;
    if !turn.is_zero() {
        std::thread::sleep(turn);
        now = settings.now();
        call.run.ask_call_budget(settings, now)?;
    }
    let _place = match &settings.bulkhead {
        None => None,
        Some(bulkhead) => match bulkhead.try_acquire() {
            Some(place) => Some(place),
            None => {
                let longest = call.run.longest_wait(settings, settings.now())?.unwrap_or(Duration::MAX);
                let place = bulkhead.acquire_blocking(longest).map_err(Stop::Bulkhead)?;
                now = settings.now();
                Some(place.ok_or_else(|| Stop::Bulkhead(bulkhead.full()))?)
            }
        },
    };
    let started = call.run.start::<T, X, _, _>(call.inner, now)?;
    Ok(call.run.inside(|| operation(started)))
}
