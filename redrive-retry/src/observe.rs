//! Tells the telemetry what happens, where there is one. Without the feature this is nothing at all.

#[cfg(feature = "telemetry")]
pub(crate) use with::Observed;
#[cfg(not(feature = "telemetry"))]
pub(crate) use without::Observed;

#[cfg(feature = "telemetry")]
mod with {
    use crate::hooks::Next;
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

        pub(crate) fn starting(&mut self, settings: &Settings, number: u32) {
            if let Some(telemetry) = &settings.telemetry {
                self.span = telemetry.span(number);
            }
        }

        /// Runs a part of the attempt inside its span.
        pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
            self.span.in_scope(work)
        }

        pub(crate) fn failed<E>(&mut self, settings: &Settings, cause: &Cause<E>, next: &Next) {
            let Some(telemetry) = &settings.telemetry else { return };
            telemetry.attempted(match cause {
                Cause::Error(_) => Ended::Failure,
                Cause::TimedOut(_) => Ended::Timeout,
            });
            self.span.record("retry.last", matches!(next, Next::Stop(_)));
            self.span = tracing::Span::none();
            if let Next::Retry(wait) = next {
                telemetry.retried(*wait);
            }
        }

        pub(crate) fn succeeded(&mut self, settings: &Settings) {
            let Some(telemetry) = &settings.telemetry else { return };
            self.span.record("retry.last", true);
            self.span = tracing::Span::none();
            telemetry.attempted(Ended::Success);
            telemetry.succeeded();
        }

        pub(crate) fn gave_up(settings: &Settings, stop: Stop, attempted: bool) {
            if let Some(telemetry) = &settings.telemetry {
                telemetry.gave_up(stop, attempted);
            }
        }
    }
}

#[cfg(not(feature = "telemetry"))]
#[expect(clippy::unused_self, reason = "it has the form of what it stands in for")]
mod without {
    use crate::hooks::Next;
    use crate::retryer::Settings;
    use crate::{Cause, Stop};

    #[derive(Debug)]
    pub(crate) struct Observed;

    impl Observed {
        pub(crate) const NOTHING: Self = Self;

        pub(crate) fn starting(&mut self, _: &Settings, _: u32) {}

        #[inline]
        pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }

        pub(crate) fn failed<E>(&mut self, _: &Settings, _: &Cause<E>, _: &Next) {}

        pub(crate) fn succeeded(&mut self, _: &Settings) {}

        pub(crate) fn gave_up(_: &Settings, _: Stop, _: bool) {}
    }
}
