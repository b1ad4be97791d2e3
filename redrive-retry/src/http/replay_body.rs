//! A body that can be sent more than once without being copied.
//!
//! A body of bytes is cheap to clone. One that is a stream can be read once. This one keeps what has gone through it,
//! each piece shared with what was sent and not copied, up to a limit; another attempt sends what was kept and goes on
//! with the stream. Past the limit nothing is kept any more, and the request is not repeated.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::size::behind;

/// A body that keeps what it has sent; see the module's text. Clones are the same body from its beginning.
///
/// ```
/// use redrive_retry::http::ReplayBody;
///
/// # fn example<B>(request: http::Request<B>) where B: http_body::Body<Data = bytes::Bytes> + Send + 'static {
/// // Up to a mebibyte can be sent again.
/// let request = ReplayBody::wrap(request, 1 << 20);
/// # }
/// ```
pub struct ReplayBody<B> {
    shared: Arc<Mutex<Shared<B>>>,
    /// How many of the kept pieces this one has sent; one more with the trailers.
    sent: usize,
    /// Whether it was this one that went past the limit, and may go on.
    is_past: bool,
}

/// All that wait for the stream, which itself remembers only who asked last: an attempt that was given up, as like as
/// not.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Waiting {
    fn add(&self, waker: &Waker) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    fn take(&self) -> Vec<Waker> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.take().into_iter().for_each(Waker::wake);
    }
}

struct Shared<B> {
    /// The stream, until it has ended.
    rest: Option<Pin<Box<B>>>,
    kept: Vec<Bytes>,
    /// Headers after the body.
    trailers: Option<http::HeaderMap>,
    bytes: usize,
    limit: usize,
    /// Kept no longer, because there was too much of it.
    is_over: bool,
    failed: bool,
    waiting: Arc<Waiting>,
    /// Wakes all of them.
    waker: Waker,
}

/// What comes of a body.
type Sent<B> = Result<Frame<Bytes>, BodyGone<<B as Body>::Error>>;

/// Whether a request's body can be sent again, for whoever has the request and not the body.
#[derive(Clone)]
pub(crate) struct Replayable(Arc<dyn Fn() -> bool + Send + Sync>);

impl Replayable {
    pub(crate) fn can_replay(&self) -> bool {
        (self.0)()
    }
}

/// Why a body came to no end.
#[derive(Debug)]
pub enum BodyGone<E> {
    /// The stream itself failed.
    Stream(E),
    /// The stream failed, or was too long to be kept, when it was sent before.
    NotKept,
}

impl<E: fmt::Display> fmt::Display for BodyGone<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::NotKept => {
                f.write_str("the body cannot be sent again: its stream failed, or it was too long to be kept")
            }
        }
    }
}

impl<E: Error + 'static> Error for BodyGone<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Stream(error) => Some(error),
            Self::NotKept => None,
        }
    }
}

impl<B: Body<Data = Bytes>> ReplayBody<B> {
    /// A body of which up to so many bytes are kept.
    pub fn new(body: B, limit: usize) -> Self {
        let rest = (!body.is_end_stream()).then(|| Box::pin(body));
        let waiting = Arc::<Waiting>::default();
        let shared = Shared {
            rest,
            kept: Vec::new(),
            trailers: None,
            bytes: 0,
            limit,
            is_over: false,
            failed: false,
            waker: Waker::from(Arc::clone(&waiting)),
            waiting,
        };
        Self { shared: Arc::new(Mutex::new(shared)), sent: 0, is_past: false }
    }

    /// The request with such a body, which a layer of this crate then knows how to repeat.
    pub fn wrap(request: http::Request<B>, limit: usize) -> http::Request<Self>
    where
        B: Send + 'static,
    {
        let mut request = request.map(|body| Self::new(body, limit));
        let body = request.body().clone();
        request.extensions_mut().insert(Replayable(Arc::new(move || body.can_replay())));
        request
    }

    /// Whether it can be sent from its beginning.
    pub fn can_replay(&self) -> bool {
        let shared = self.shared();
        !shared.is_over && !shared.failed
    }

    fn shared(&self) -> MutexGuard<'_, Shared<B>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame that has just come, and keeps it for the others.
    fn pass_on(&mut self, shared: &mut Shared<B>, frame: Frame<Bytes>) -> Frame<Bytes> {
        match frame.data_ref() {
            Some(piece) if !shared.is_over => {
                self.is_past = !shared.keep(piece);
                self.sent = shared.kept.len();
            }
            Some(_) => {}
            None => {
                shared.trailers = frame.trailers_ref().cloned();
                shared.rest = None;
                self.sent = shared.kept.len() + 1;
            }
        }
        frame
    }

    /// Whether a part that this one has not sent is no longer there. Then it has no end, and must not look empty.
    fn is_gone(&self, shared: &Shared<B>) -> bool {
        shared.failed || (shared.is_over && !self.is_past)
    }
}

impl<B: Body<Data = Bytes>> Shared<B> {
    /// Asks the stream for what comes next.
    fn poll_rest(&mut self, cx: &Context<'_>) -> Poll<Option<Sent<B>>> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        self.waiting.add(cx.waker());
        let polled = ready!(rest.as_mut().poll_frame(&mut Context::from_waker(&self.waker)));
        match &polled {
            None => self.rest = None,
            Some(Err(_)) => self.failed = true,
            Some(Ok(_)) => {}
        }
        Poll::Ready(polled.map(|frame| frame.map_err(BodyGone::Stream)))
    }

    /// Keeps a piece; false when there is too much by now, and nothing is kept any more.
    fn keep(&mut self, piece: &Bytes) -> bool {
        self.bytes = self.bytes.saturating_add(piece.len());
        if self.bytes > self.limit {
            self.is_over = true;
            self.kept = Vec::new();
            return false;
        }
        // Any number of pieces without anything in them would be within the limit.
        if !piece.is_empty() {
            self.kept.push(piece.clone());
        }
        true
    }
}

impl<B> Clone for ReplayBody<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), sent: 0, is_past: false }
    }
}

impl<B: Body<Data = Bytes>> Body for ReplayBody<B> {
    type Data = Bytes;
    type Error = BodyGone<B::Error>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let shared = Arc::clone(&this.shared);
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(piece) = shared.kept.get(this.sent) {
            let piece = piece.clone();
            this.sent += 1;
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if this.is_gone(&shared) {
            return Poll::Ready(Some(Err(BodyGone::NotKept)));
        }
        if shared.rest.is_none() {
            return match shared.trailers.clone() {
                Some(trailers) if this.sent == shared.kept.len() => {
                    this.sent += 1;
                    Poll::Ready(Some(Ok(Frame::trailers(trailers))))
                }
                _ => Poll::Ready(None),
            };
        }
        let polled = ready!(shared.poll_rest(cx));
        let polled = polled.map(|frame| frame.map(|frame| this.pass_on(&mut shared, frame)));
        let waiting = shared.waiting.take();
        drop(shared);
        // Whoever waits for the stream finds what came among what was kept, and would not hear of it otherwise.
        waiting.into_iter().filter(|waker| !waker.will_wake(cx.waker())).for_each(Waker::wake);
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        let shared = self.shared();
        let trailers = usize::from(shared.trailers.is_some());
        !self.is_gone(&shared) && shared.rest.is_none() && self.sent >= shared.kept.len() + trailers
    }

    fn size_hint(&self) -> SizeHint {
        let shared = self.shared();
        if self.is_gone(&shared) {
            return SizeHint::default();
        }
        let kept: u64 = shared.kept.iter().skip(self.sent).map(|piece| piece.len() as u64).sum();
        let rest = shared.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        behind(kept, &rest)
    }
}

impl<B> fmt::Debug for ReplayBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayBody").field("sent", &self.sent).finish_non_exhaustive()
    }
}
