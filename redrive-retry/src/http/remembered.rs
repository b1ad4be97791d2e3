//! An answer that is remembered, and the body of one that is, or that was too large or broke off.

use std::collections::VecDeque;
use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::size::behind;
use crate::idempotency::Answer;

/// On an answer that was remembered.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

pin_project! {
    /// A body that was read already, as a whole or in its first part.
    pub struct AnswerBody<B>
    where
        B: Body,
    {
        first: VecDeque<Frame<Bytes>>,
        #[pin]
        rest: Option<B>,
        // What ended the reading.
        fault: Option<B::Error>,
    }
}

impl<B: Body> AnswerBody<B> {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        let first = if bytes.is_empty() { VecDeque::new() } else { VecDeque::from([Frame::data(bytes)]) };
        Self { first, rest: None, fault: None }
    }

    pub(crate) fn untouched(body: B) -> Self {
        Self { first: VecDeque::new(), rest: Some(body), fault: None }
    }
}

/// What reading a body up to a limit has found.
pub(crate) enum Read<B: Body> {
    /// All of it, to be remembered and to be sent.
    Whole(Bytes, AnswerBody<B>),
    /// Too much of it, or it took too long or broke off: to be sent only, with what is still to come.
    Part(AnswerBody<B>),
}

/// Reads a body, at most so many bytes of it and so long: whoever waits for it has nothing before this ends.
pub(crate) async fn read<B>(body: B, limit: usize, time: Duration) -> Read<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (mut body, began) = (body, Instant::now());
    let (mut first, mut bytes) = (VecDeque::new(), 0);
    let mut over = pin!(None);
    loop {
        let next = std::future::poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(Some(frame)),
            // Most bodies are there already, and need no timer.
            Poll::Pending => {
                if over.is_none() {
                    over.set(Some(tokio::time::sleep(time.saturating_sub(began.elapsed()))));
                }
                over.as_mut().as_pin_mut().map_or(Poll::Pending, |over| over.poll(cx).map(|()| None))
            }
        });
        match next.await {
            Some(None) => break,
            Some(Some(Err(fault))) => {
                return Read::Part(AnswerBody { first, rest: None, fault: Some(fault) });
            }
            // It says nothing, and any number of them would be within the limit.
            Some(Some(Ok(frame))) if frame.data_ref().is_some_and(Bytes::is_empty) => {}
            Some(Some(Ok(frame))) => {
                bytes += frame.data_ref().map_or(0, Bytes::len);
                first.push_back(frame);
            }
            None => return Read::Part(AnswerBody { first, rest: Some(body), fault: None }),
        }
        // A body that always has something lets neither a timer nor another task have a turn.
        if bytes > limit || began.elapsed() >= time {
            return Read::Part(AnswerBody { first, rest: Some(body), fault: None });
        }
        tokio::task::coop::consume_budget().await;
    }
    let mut pieces = first.iter().filter_map(Frame::data_ref);
    let whole = match (pieces.next(), pieces.next()) {
        (None, _) => Bytes::new(),
        (Some(only), None) => only.clone(),
        _ => first.iter().filter_map(Frame::data_ref).flatten().copied().collect(),
    };
    Read::Whole(whole, AnswerBody { first, rest: None, fault: None })
}

impl<B: Body<Data = Bytes>> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if let Some(frame) = this.first.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(fault) = this.fault.take() {
            return Poll::Ready(Some(Err(fault)));
        }
        match this.rest.as_pin_mut() {
            Some(rest) => rest.poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.fault.is_none() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        if self.fault.is_some() {
            return SizeHint::default();
        }
        let first: u64 = self.first.iter().filter_map(Frame::data_ref).map(|piece| piece.len() as u64).sum();
        let rest = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        behind(first, &rest)
    }
}

impl<B: Body> fmt::Debug for AnswerBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody").finish_non_exhaustive()
    }
}

/// The answer to a repetition.
pub(crate) fn remembered<A: Body>(answer: Answer) -> Response<AnswerBody<A>> {
    let mut response = Response::new(AnswerBody::whole(answer.body.unwrap_or_default()));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or_default();
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_maybe_shared(value))
        {
            response.headers_mut().append(name, value);
        }
    }
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
