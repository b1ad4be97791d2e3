//! Tells the telemetry what happens, where there is one. Without the feature this is nothing at all.

#[cfg(feature = "telemetry")]
pub(crate) use with::Observed;
#[cfg(not(feature = "telemetry"))]
pub(crate) use without::Observed;

#[cfg(feature = "telemetry")]
mod with {
    use std::time::Duration;

    use crate::retryer::Settings;
    use crate::telemetry::Ended;
    use crate::{Cause, Stop};

    /// What is observed of one call.
    #[derive(Debug)]
    pub(crate) struct Observed {
        span: tracing::Span,
    }

    impl Observed {
        pub(crate) const NOTHING: Self = Self { span: tracing::Span::none() };

        /// An attempt begins, after a wait if it is not the first.
        pub(crate) fn starting(&mut self, settings: &Settings, number: u32, wait: Option<Duration>) {
            let Some(telemetry) = &settings.telemetry else { return };
            if let Some(wait) = wait {
                telemetry.retried(wait);
            }
            self.end(false);
            self.span = telemetry.span(number);
        }

        /// Ends the span of the attempt that was the last so far, now that it is known whether another follows.
        fn end(&mut self, is_last: bool) {
            self.span.record("retry.last", is_last);
            self.span = tracing::Span::none();
        }

        /// Runs a part of the attempt inside its span.
        pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
            self.span.in_scope(work)
        }

        pub(crate) fn failed<E>(settings: &Settings, cause: &Cause<E>) {
            let Some(telemetry) = &settings.telemetry else { return };
            telemetry.attempted(match cause {
                Cause::Error(_) => Ended::Failure,
                Cause::TimedOut(_) => Ended::Timeout,
            });
        }

        pub(crate) fn succeeded(&mut self, settings: &Settings) {
            let Some(telemetry) = &settings.telemetry else { return };
            self.end(true);
            telemetry.attempted(Ended::Success);
            telemetry.succeeded();
        }

        pub(crate) fn gave_up(&mut self, settings: &Settings, stop: Stop, attempted: bool) {
            let Some(telemetry) = &settings.telemetry else { return };
            self.end(true);
            telemetry.gave_up(stop, attempted);
        }

        /// Nobody waits for the call any more.
        pub(crate) fn cancelled(&mut self) {
            if !self.span.is_none() {
                self.end(true);
            }
        }
    }
}

#[cfg(not(feature = "telemetry"))]
#[expect(clippy::unused_self, reason = "it has the form of what it stands in for")]
mod without {
    use std::time::Duration;

    use crate::retryer::Settings;
    use crate::{Cause, Stop};

    #[derive(Debug)]
    pub(crate) struct Observed;

    impl Observed {
        pub(crate) const NOTHING: Self = Self;

        pub(crate) fn starting(&mut self, _: &Settings, _: u32, _: Option<Duration>) {}

        #[inline]
        pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }

        pub(crate) fn failed<E>(_: &Settings, _: &Cause<E>) {}

        pub(crate) fn succeeded(&mut self, _: &Settings) {}

        pub(crate) fn gave_up(&mut self, _: &Settings, _: Stop, _: bool) {}

        #[inline]
        pub(crate) fn cancelled(&mut self) {}
    }
}
