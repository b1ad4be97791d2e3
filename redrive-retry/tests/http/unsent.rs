//! Requests that a client cannot send: they are not repeated, and speak against no endpoint.

use std::convert::Infallible;
use std::io::{Error, ErrorKind};

use bytes::Bytes;
use http::{Method, Request, Version};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use redrive_retry::guard::{BreakerConfig, BreakerState};
use redrive_retry::http::{HttpAnswers, HttpRetry, ReplayBody};
use redrive_retry::{CallBudget, CircuitBreaker, Retryer, Stop};
use tower::ServiceExt as _;

use crate::clients::{ALL, Came, hyper, quick};
use crate::server::{OK, Server};

/// A breaker that probes.
pub(crate) fn probing() -> CircuitBreaker {
    let config = BreakerConfig { consecutive: 1, half_open_probes: 1, ..BreakerConfig::default() };
    let breaker = CircuitBreaker::new(config).unwrap();
    // An order that is taken back begins with probes.
    breaker.force_open();
    breaker.auto();
    breaker
}

/// It still probes, and the place of the probe is free.
pub(crate) fn assert_unmoved(breaker: &CircuitBreaker, after: &str) {
    assert_eq!(breaker.state(), BreakerState::HalfOpen, "after {after}");
    assert!(breaker.admit().is_ok(), "after {after}");
}

fn judging(breaker: &CircuitBreaker) -> Retryer<HttpAnswers> {
    quick().breaker(breaker.clone()).classify(HttpAnswers::default()).build().unwrap()
}

#[tokio::test]
async fn an_address_that_is_none_is_not_asked_again() {
    for client in ALL {
        let (breaker, budget) = (probing(), CallBudget::new(None, None));
        let came = budget.scope(client.get("gopher://orders/17", quick().breaker(breaker.clone()))).await;
        let is_final =
            |why: &str| why.contains("after 1 attempt") && why.contains("another attempt would not help");
        assert!(matches!(&came, Came::Nothing(why) if is_final(why)), "{client:?}: {came:?}");
        assert_unmoved(&breaker, &format!("{client:?}"));
        assert_eq!(budget.used(), 0, "{client:?}: it is charged to nobody");
    }
}

#[tokio::test]
async fn what_the_client_of_hyper_refuses_is_told_from_what_failed() {
    let server = Server::start([OK]).await;
    let get = || Request::get(server.url());
    let wrong = [
        ("a path alone", Request::get("/orders/17")),
        ("a scheme that the connector does not know", Request::get("https://127.0.0.1/orders")),
        ("a version that nobody speaks", get().version(Version::HTTP_09)),
        ("a version that the connection does not speak", get().version(Version::HTTP_2)),
        ("a tunnel without one", get().method(Method::CONNECT).version(Version::HTTP_10)),
    ];
    for (what, request) in wrong {
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let breaker = probing();
        let client = HttpRetry::new(hyper(), judging(&breaker));
        let error = client.oneshot(request.clone()).await.expect_err(what);
        assert_eq!(
            (error.stop(), error.attempts(), error.outcome()),
            (Stop::Final, 1, None),
            "{what}: {error:?}"
        );
        assert_unmoved(&breaker, what);
        // The same behind a layer that hides the type of the error.
        let boxed = hyper().map_err(Box::<dyn std::error::Error + Send + Sync>::from);
        let error = HttpRetry::new(boxed, judging(&breaker)).oneshot(request).await.expect_err(what);
        assert_eq!(
            (error.stop(), error.attempts(), error.outcome()),
            (Stop::Final, 1, None),
            "{what}: {error:?}"
        );
        assert_unmoved(&breaker, what);
    }
    assert_eq!(server.count(), 0);
}

type Piece = Result<Frame<Bytes>, Error>;

/// Half an upload, and then an error.
fn breaks_off() -> impl futures_util::Stream<Item = Piece> + Send + Sync + Unpin {
    let half = Frame::data(Bytes::from("half"));
    futures_util::stream::iter([Ok(half), Err(Error::from(ErrorKind::UnexpectedEof))])
}

/// A server that speaks HTTP/1 and HTTP/2 and reads what is sent.
async fn reader() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let read = |request: Request<Incoming>| async {
        let _ = request.into_body().collect().await;
        Ok::<_, Infallible>(http::Response::new(Full::<Bytes>::default()))
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let builder = auto::Builder::new(TokioExecutor::new());
            tokio::spawn(async move {
                drop(builder.serve_connection(TokioIo::new(stream), service_fn(read)).await);
            });
        }
    });
    format!("http://{address}/")
}

#[tokio::test]
async fn an_upload_that_breaks_off_by_itself_is_no_failure_of_the_endpoint() {
    let (url, breaker) = (reader().await, probing());
    for http2 in [false, true] {
        let client = HyperClient::builder(TokioExecutor::new()).http2_only(http2).build_http();
        let put = Request::put(&url).body(StreamBody::new(breaks_off())).unwrap();
        let client = HttpRetry::new(client, judging(&breaker));
        let error = client.oneshot(ReplayBody::wrap(put, 1_000)).await.unwrap_err();
        assert_eq!((error.stop(), error.attempts(), error.outcome()), (Stop::Final, 1, None), "{error:?}");
        assert_unmoved(&breaker, "a stream");
    }
    let client = HttpRetry::reqwest(reqwest::Client::builder(), judging(&breaker)).unwrap();
    let body = reqwest::Body::wrap(StreamBody::new(breaks_off()));
    let error = client.execute(client.client().put(&url).body(body).build().unwrap()).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts(), error.outcome()), (Stop::Final, 1, None), "{error:?}");
    assert_unmoved(&breaker, "a stream of reqwest");
}

#[tokio::test]
async fn an_upload_that_is_shorter_than_it_says_is_no_failure_of_the_endpoint() {
    let (url, breaker) = (reader().await, probing());
    let client = HyperClient::builder(TokioExecutor::new()).build_http();
    let half = StreamBody::new(futures_util::StreamExt::take(breaks_off(), 1));
    let put = Request::put(&url).header("content-length", "100").body(half).unwrap();
    let client = HttpRetry::new(client, judging(&breaker));
    let error = client.oneshot(ReplayBody::wrap(put, 1_000)).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts(), error.outcome()), (Stop::Final, 1, None), "{error:?}");
    assert_unmoved(&breaker, "half a body");
}
