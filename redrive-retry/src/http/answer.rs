//! What an HTTP answer means.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Extensions, HeaderMap, StatusCode};
use redrive_core::parse_retry_after;

use super::unanswered::{Unanswered, unanswered};
use crate::guard::Outcome;
use crate::tower::{BehindGuard, LayerError};
use crate::{Classify, Judged, ResultsBy, SharedClock, Stop};

/// An answer, of whatever client.
pub trait HttpAnswer {
    /// Its status.
    fn status(&self) -> StatusCode;
    /// Its headers.
    fn headers(&self) -> &HeaderMap;
    /// What travels with it inside the program.
    fn extensions(&self) -> &Extensions;
    /// The same, to be changed.
    fn extensions_mut(&mut self) -> &mut Extensions;
}

impl<B> HttpAnswer for http::Response<B> {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }

    fn extensions(&self) -> &Extensions {
        self.extensions()
    }

    fn extensions_mut(&mut self) -> &mut Extensions {
        self.extensions_mut()
    }
}

/// Whether a status says that another attempt may work: 408, 425, 429 and 5xx, without 501 and 505, which say that
/// the server never will.
pub fn is_retryable(status: StatusCode) -> bool {
    match status.as_u16() {
        408 | 425 | 429 => true,
        501 | 505 => false,
        _ => status.is_server_error(),
    }
}

/// Whether an answer only puts the request off: a conflict that says when to come back, as while the first request with
/// the same key is running.
pub(crate) fn is_not_yet(status: StatusCode, headers: &HeaderMap) -> bool {
    status == StatusCode::CONFLICT && headers.contains_key(RETRY_AFTER)
}

/// An attempt that failed: an answer that asks for another, or none at all.
#[derive(Debug)]
pub enum HttpFailure<A, E> {
    /// It was answered with this status.
    Status {
        /// The status.
        status: StatusCode,
        /// The answer; nothing any more once another attempt was begun.
        answer: Option<A>,
    },
    /// It was not answered.
    Transport(E),
}

/// Judges HTTP answers: see the [module](super).
#[derive(Debug, Clone, Default)]
pub struct HttpAnswers {
    clock: SharedClock,
}

/// A classifier of HTTP answers: [`HttpAnswers`], the same behind a guard, a function
/// ([`Builder::judge`](crate::Builder::judge)), or one of your own. Its [error](Classify::Error) is a [`FailedRequest`].
///
/// Retries of requests take no other, so that one which was forgotten is missed where they are made.
#[diagnostic::on_unimplemented(
    message = "this retryer does not judge HTTP answers but by `{Self}`",
    label = "its builder was not told how to judge HTTP answers",
    note = "say `.classify(HttpAnswers::default())` to the builder, before `behind_guard`",
    note = "a classifier of your own implements `HttpJudge`"
)]
pub trait HttpJudge {}

impl HttpJudge for HttpAnswers {}
impl<C: HttpJudge> HttpJudge for BehindGuard<C> {}
impl<F> HttpJudge for ResultsBy<F> {}

impl HttpAnswers {
    /// Reads the dates in `Retry-After` by another clock.
    pub fn with_clock(clock: impl Into<SharedClock>) -> Self {
        Self { clock: clock.into() }
    }

    fn advice(&self, headers: &HeaderMap) -> Option<Duration> {
        parse_retry_after(headers.get(RETRY_AFTER)?.as_bytes(), self.clock.wall())
    }

    fn judge_answer<A: HttpAnswer, E>(&self, answer: A) -> Judged<A, HttpFailure<A, E>> {
        let status = answer.status();
        let not_yet = is_not_yet(status, answer.headers());
        if !not_yet && !is_retryable(status) {
            return Judged::Done(answer);
        }
        let after = self.advice(answer.headers());
        let error = HttpFailure::Status { status, answer: Some(answer) };
        if not_yet { Judged::NotYet { error, after } } else { Judged::Retry { error, after } }
    }
}

impl<A: HttpAnswer, E: 'static> Classify<A, E> for HttpAnswers {
    type Error = HttpFailure<A, E>;

    fn judge(&self, result: Result<A, E>) -> Judged<A, HttpFailure<A, E>> {
        match result {
            Ok(answer) => self.judge_answer(answer),
            Err(error) => match unanswered(&error) {
                Unanswered::MayPass => Judged::retry(HttpFailure::Transport(error)),
                #[cfg(feature = "reqwest")]
                Unanswered::LedAstray => Judged::Fail(HttpFailure::Transport(error)),
                Unanswered::NotSent => Judged::NotMade(HttpFailure::Transport(error)),
            },
        }
    }

    fn let_go(&self, error: &mut HttpFailure<A, E>) {
        // A body that nobody reads would keep its connection.
        if let HttpFailure::Status { answer, .. } = error {
            *answer = None;
        }
    }
}

/// What went wrong in an attempt, without the answer itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpCause<E> {
    /// It was answered with this status.
    Status(StatusCode),
    /// It was not answered.
    Transport(E),
}

impl<E: fmt::Display> fmt::Display for HttpCause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the answer was {status}"),
            Self::Transport(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for HttpCause<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Status(_) => None,
            Self::Transport(error) => Some(error),
        }
    }
}

impl<A, E> From<HttpFailure<A, E>> for HttpCause<E> {
    fn from(failure: HttpFailure<A, E>) -> Self {
        match failure {
            HttpFailure::Status { status, .. } => Self::Status(status),
            HttpFailure::Transport(error) => Self::Transport(error),
        }
    }
}

/// What a classifier makes of a request that failed: with the last answer in it, where there is one to hand on.
///
/// [`HttpFailure`] is one, also behind a guard ([`Builder::behind_guard`](crate::Builder::behind_guard)). A classifier of
/// your own best asks [`HttpAnswers`] for what it does not judge itself.
pub trait FailedRequest {
    /// The answer.
    type Answer: HttpAnswer;
    /// The same without it.
    type Cause;

    /// The answer, which is then gone.
    fn take_answer(&mut self) -> Option<Self::Answer>;
    /// What is told of it when there is no answer to hand on.
    fn into_cause(self) -> Self::Cause;
}

impl<A: HttpAnswer, E> FailedRequest for HttpFailure<A, E> {
    type Answer = A;
    type Cause = HttpCause<E>;

    fn take_answer(&mut self) -> Option<A> {
        match self {
            Self::Status { answer, .. } => answer.take(),
            Self::Transport(_) => None,
        }
    }

    fn into_cause(self) -> HttpCause<E> {
        self.into()
    }
}

impl<G, F: FailedRequest> FailedRequest for LayerError<G, F> {
    type Answer = F::Answer;
    type Cause = LayerError<G, F::Cause>;

    fn take_answer(&mut self) -> Option<F::Answer> {
        match self {
            Self::Refused(_) => None,
            Self::Failed(failed) => failed.take_answer(),
        }
    }

    fn into_cause(self) -> Self::Cause {
        match self {
            Self::Refused(guard) => LayerError::Refused(guard),
            Self::Failed(failed) => LayerError::Failed(failed.into_cause()),
        }
    }
}

/// In the extensions of an answer that asks for another attempt and is handed on all the same: why there was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retried {
    /// How many attempts were made.
    pub attempts: u32,
    /// Why no further one was.
    pub stop: Stop,
    /// How long all of it took.
    pub took: Duration,
    /// What the call says about the endpoint: see [`RetryError::outcome`](crate::RetryError::outcome).
    pub outcome: Option<Outcome>,
    /// When asking again may help, where that is known: see [`RetryError::retry_after`](crate::RetryError::retry_after).
    pub retry_after: Option<Duration>,
}
