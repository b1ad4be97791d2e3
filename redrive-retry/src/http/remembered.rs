//! An answer that is remembered, and the body of one that is, or that was too large or broke off.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

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
    /// Too much of it, or it broke off: to be sent only, until there.
    Part(AnswerBody<B>),
}

/// Reads a body, at most so many bytes of it.
pub(crate) async fn read<B>(body: B, limit: usize) -> Read<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut body = body;
    let (mut first, mut bytes) = (VecDeque::new(), 0);
    loop {
        match std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            None => break,
            Some(Ok(frame)) => {
                bytes += frame.data_ref().map_or(0, Bytes::len);
                first.push_back(frame);
            }
            Some(Err(fault)) => return Read::Part(AnswerBody { first, rest: None, fault: Some(fault) }),
        }
        if bytes > limit {
            return Read::Part(AnswerBody { first, rest: Some(body), fault: None });
        }
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
        let first: usize = self.first.iter().filter_map(Frame::data_ref).map(Bytes::len).sum();
        let mut hint = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + first as u64);
        }
        hint.set_lower(hint.lower() + first as u64);
        hint
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
