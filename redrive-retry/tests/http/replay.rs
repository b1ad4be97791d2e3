//! Bodies that are streams, sent again without being copied.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use proptest::prelude::*;
use redrive_retry::http::{BodyGone, HttpAnswers, HttpRetry, ReplayBody, Retried};
use redrive_retry::{Stop, TokioClock};
use tower::{Service as _, ServiceExt as _};

use crate::clients::quick;
use crate::server::{Fate, OK, Server};

/// A stream of pieces that can be read once.
#[derive(Debug)]
struct Pieces(VecDeque<Result<Frame<Bytes>, &'static str>>);

impl Pieces {
    fn of(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        Self(pieces.into_iter().map(|piece| Ok(Frame::data(piece))).collect())
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(self.0.pop_front())
    }
}

async fn send(server: &Server, body: Pieces, limit: usize) -> (u16, Option<Stop>) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let retryer = quick().classify(HttpAnswers::default()).build().unwrap();
    let mut client = HttpRetry::new(client, retryer).generate_keys();
    let body = body.map_err(std::io::Error::other);
    let request = ReplayBody::wrap(Request::post(server.url()).body(body).unwrap(), limit);
    let answer = client.ready().await.unwrap().call(request).await.unwrap();
    (answer.status().as_u16(), answer.extensions().get::<Retried>().map(|retried| retried.stop))
}

#[tokio::test]
async fn a_stream_is_sent_again_whole() {
    let server = Server::start([Fate::Answer(503, &[]), Fate::Reset, OK]).await;
    let pieces = (0..100).map(|number| Bytes::from(format!("piece {number};")));
    let expected: Vec<u8> = pieces.clone().flatten().collect();
    assert_eq!(send(&server, Pieces::of(pieces), 1 << 20).await, (200, None));
    let received = server.received();
    assert_eq!(received.len(), 3);
    assert!(received.iter().all(|request| request.body == expected));
}

#[tokio::test]
async fn in_a_reqwest_request_bytes_are_sent_again_and_a_stream_is_sent_once() {
    let whole = || reqwest::Body::from("a book".to_owned());
    let stream = || reqwest::Body::wrap(Pieces::of([Bytes::from("a book")]).map_err(std::io::Error::other));
    let cases: [(&dyn Fn() -> reqwest::Body, usize); 2] = [(&whole, 2), (&stream, 1)];
    for (body, sent) in cases {
        let server = Server::start([Fate::Answer(503, &[]), OK]).await;
        let retryer = quick().classify(HttpAnswers::default()).build().unwrap();
        let client = HttpRetry::reqwest(reqwest::Client::builder(), retryer).unwrap().generate_keys();
        let request = client.client().post(server.url()).body(body()).build().unwrap();
        let answer = client.execute(request).await.unwrap();
        let stop = answer.extensions().get::<Retried>().map(|retried| retried.stop);
        assert_eq!(stop, (sent == 1).then_some(Stop::NotRepeatable));
        let received = server.received();
        assert_eq!(received.len(), sent);
        assert!(received.iter().all(|received| received.body == b"a book"));
    }
}

#[tokio::test]
async fn one_that_is_too_long_to_be_kept_is_sent_once_and_whole() {
    let server = Server::start([Fate::Answer(503, &[]), OK]).await;
    let pieces = || (0..100).map(|number| Bytes::from(format!("piece {number};")));
    assert_eq!(send(&server, Pieces::of(pieces()), 50).await, (503, Some(Stop::NotRepeatable)));
    assert_eq!(server.received()[0].body, pieces().flatten().collect::<Vec<u8>>());
}

#[tokio::test]
async fn one_of_which_half_was_read_goes_on_where_it_was() {
    let mut first = ReplayBody::new(Pieces::of(["a", "b", "c"].map(Bytes::from)), 100);
    let second = first.clone();
    assert_eq!(first.frame().await.unwrap().unwrap().into_data().unwrap(), "a");
    drop(first);
    assert_eq!(second.collect().await.unwrap().to_bytes(), "abc");
}

#[tokio::test]
async fn pieces_are_shared_and_not_copied() {
    let piece = Bytes::from(vec![7; 1_000]);
    let body = ReplayBody::new(Pieces::of([piece.clone()]), 1_000);
    for _ in 0..3 {
        let mut again = body.clone();
        let sent = again.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(sent.as_ptr(), piece.as_ptr());
        assert!(again.frame().await.is_none() && again.is_end_stream());
    }
}

#[tokio::test]
async fn pieces_without_anything_in_them_are_not_kept() {
    let pieces = std::iter::repeat_n(Bytes::new(), 10_000).chain([Bytes::from("a book"), Bytes::new()]);
    let body = ReplayBody::new(Pieces::of(pieces), 6);
    assert_eq!(body.clone().collect().await.unwrap().to_bytes(), "a book");
    let mut again = body.clone();
    assert_eq!(again.frame().await.unwrap().unwrap().into_data().unwrap(), "a book");
    assert!(again.frame().await.is_none() && again.is_end_stream());
}

#[tokio::test]
async fn trailers_are_sent_again_too() {
    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", "17".parse().unwrap());
    let frames = [Ok(Frame::data(Bytes::from("a"))), Ok(Frame::trailers(trailers.clone()))];
    let body = ReplayBody::new(Pieces(frames.into_iter().collect()), 100);
    for _ in 0..2 {
        let collected = body.clone().collect().await.unwrap();
        assert_eq!(collected.trailers(), Some(&trailers));
        assert_eq!(collected.to_bytes(), "a");
    }
}

#[tokio::test]
async fn a_stream_that_failed_is_not_sent_again() {
    let frames = [Ok(Frame::data(Bytes::from("a"))), Err("the disk is gone")];
    let body = ReplayBody::new(Pieces(frames.into_iter().collect()), 100);
    let mut first = body.clone();
    assert!(first.frame().await.unwrap().is_ok());
    assert!(matches!(first.frame().await, Some(Err(BodyGone::Stream("the disk is gone")))));
    assert!(!body.can_replay());
    let again = body.collect().await.unwrap_err();
    assert_eq!(
        again.to_string(),
        "the body cannot be sent again: its stream failed, or it was too long to be kept"
    );
}

#[tokio::test]
async fn one_that_was_too_long_and_has_ended_does_not_look_empty() {
    let body = ReplayBody::new(Pieces::of(["abc", "def"].map(Bytes::from)), 4);
    let again = body.clone();
    assert_eq!(body.collect().await.unwrap().to_bytes(), "abcdef");
    assert!(!again.can_replay() && !again.is_end_stream());
    assert_eq!((again.size_hint().lower(), again.size_hint().upper()), (0, None));
    assert!(matches!(again.collect().await, Err(BodyGone::NotKept)));
}

#[tokio::test(start_paused = true)]
async fn one_that_gets_too_long_during_the_wait_is_not_sent_again() {
    let retryer = quick().clock(TokioClock).base(Duration::from_millis(100));
    let retryer = retryer.classify(HttpAnswers::default()).build().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let service = tower::service_fn(move |request: Request<ReplayBody<Pieces>>| {
        seen.fetch_add(1, Ordering::SeqCst);
        // A connection goes on sending after the server has answered.
        tokio::spawn(async move { request.into_body().collect().await.map(drop) });
        async { Ok::<_, std::io::Error>(http::Response::builder().status(503).body(()).unwrap()) }
    });
    let request = Request::put("http://orders/").body(Pieces::of(["abc", "def"].map(Bytes::from))).unwrap();
    let answer = HttpRetry::new(service, retryer).oneshot(ReplayBody::wrap(request, 4)).await.unwrap();
    let retried = answer.extensions().get::<Retried>().unwrap();
    assert_eq!((retried.stop, retried.attempts), (Stop::NotRepeatable, 1));
    assert!(retried.stop.to_string().ends_with("or its body cannot be sent again"), "{}", retried.stop);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

proptest! {
    /// However many were begun and how far each came: what is read to its end is the whole.
    #[test]
    fn every_replay_is_the_whole(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
        reads in prop::collection::vec(0usize..25, 0..6),
        limit in 0usize..300,
    ) {
        let whole: Vec<u8> = pieces.iter().flatten().copied().collect();
        let body = ReplayBody::new(Pieces::of(pieces.into_iter().map(Bytes::from)), limit);
        let poll = |body: &mut ReplayBody<Pieces>| {
            let mut context = Context::from_waker(std::task::Waker::noop());
            match Pin::new(body).poll_frame(&mut context) {
                Poll::Ready(frame) => frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default())),
                Poll::Pending => panic!("it never waits"),
            }
        };
        for count in reads {
            let mut partial = body.clone();
            for _ in 0..count {
                if poll(&mut partial).is_none() { break }
            }
        }
        let (can_replay, mut last, mut sent) = (body.can_replay(), body.clone(), Vec::new());
        prop_assert!(can_replay || !last.is_end_stream(), "what is not there any more must not look empty");
        prop_assert!(can_replay || last.size_hint().exact().is_none());
        prop_assert!(!last.is_end_stream() || whole.is_empty());
        prop_assert!(last.size_hint().exact().is_none_or(|exact| exact == whole.len() as u64));
        let ended = loop {
            match poll(&mut last) {
                None => break true,
                Some(Ok(piece)) => sent.extend_from_slice(&piece),
                Some(Err(_)) => break false,
            }
        };
        prop_assert_eq!(ended, can_replay);
        if ended {
            prop_assert_eq!(sent, whole);
        }
    }
}
