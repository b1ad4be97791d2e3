//! The three clients that retries go around, behind one face.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use redrive_retry::http::{HttpAnswers, HttpRetry, Retried, RetryMiddleware};
use redrive_retry::{Builder, Jitter, Retryer, Stop};
use tower::{Service as _, ServiceExt as _};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Hyper,
    Reqwest,
    Middleware,
}

pub(crate) const ALL: [Client; 3] = [Client::Hyper, Client::Reqwest, Client::Middleware];

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Came {
    Answer { status: u16, body: String, gave_up: Option<(u32, Stop)> },
    Nothing(String),
}

impl Came {
    pub(crate) fn ok(bytes: usize) -> Self {
        Self::Answer { status: 200, body: format!("{bytes} bytes"), gave_up: None }
    }
}

/// Waits that cost a test nothing, on real time.
pub(crate) fn quick() -> Builder {
    Retryer::builder()
        .base(Duration::from_millis(1))
        .jitter(Jitter::None)
        .no_budget()
        .deadline(Duration::from_mins(1))
        .attempt_timeout(Duration::from_secs(20))
        .retry_after(Duration::ZERO, Duration::from_millis(2))
}

pub(crate) fn post(url: &str, body: &'static str) -> Request<Full<Bytes>> {
    Request::post(url).body(Full::from(body)).unwrap()
}

pub(crate) fn hyper() -> HyperClient<HttpConnector, Full<Bytes>> {
    HyperClient::builder(TokioExecutor::new()).build_http()
}

impl Client {
    /// Sends a request with these settings; with keys of its own if asked.
    pub(crate) async fn send(self, request: Request<Full<Bytes>>, settings: Builder, keys: bool) -> Came {
        self.send_with(request, settings.classify(HttpAnswers::default()).build().unwrap(), keys).await
    }

    async fn send_with(
        self,
        request: Request<Full<Bytes>>,
        retryer: Retryer<HttpAnswers>,
        keys: bool,
    ) -> Came {
        match self {
            Self::Hyper => {
                let client = HttpRetry::new(hyper(), retryer);
                let mut client = if keys { client.generate_keys() } else { client };
                match client.ready().await.unwrap().call(request).await {
                    Ok(answer) => {
                        let (head, body) = answer.into_parts();
                        let retried = head.extensions.get::<Retried>().copied();
                        let body = body.collect().await.unwrap().to_bytes();
                        came(head.status.as_u16(), &body, retried)
                    }
                    Err(error) => Came::Nothing(error.to_string()),
                }
            }
            Self::Reqwest => {
                let client = HttpRetry::reqwest(reqwest::Client::builder(), retryer).unwrap();
                let client = if keys { client.generate_keys() } else { client };
                match client.execute(converted(request).await).await {
                    Ok(answer) => read(answer).await,
                    Err(error) => Came::Nothing(error.to_string()),
                }
            }
            Self::Middleware => {
                let middleware = RetryMiddleware::new(retryer);
                let middleware = if keys { middleware.generate_keys() } else { middleware };
                let client =
                    reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(middleware).build();
                match client.execute(converted(request).await).await {
                    Ok(answer) => read(answer).await,
                    Err(error) => Came::Nothing(error.to_string()),
                }
            }
        }
    }

    pub(crate) async fn get(self, url: &str, settings: Builder) -> Came {
        self.get_with(url, settings.classify(HttpAnswers::default()).build().unwrap()).await
    }

    pub(crate) async fn get_with(self, url: &str, retryer: Retryer<HttpAnswers>) -> Came {
        let request = Request::builder().method(Method::GET).uri(url).body(Full::default()).unwrap();
        self.send_with(request, retryer, false).await
    }
}

async fn converted(request: Request<Full<Bytes>>) -> reqwest::Request {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Request::from_parts(head, body).try_into().unwrap()
}

async fn read(answer: reqwest::Response) -> Came {
    let status = answer.status().as_u16();
    let retried = answer.extensions().get::<Retried>().copied();
    came(status, &answer.bytes().await.unwrap(), retried)
}

fn came(status: u16, body: &[u8], retried: Option<Retried>) -> Came {
    let body = String::from_utf8(body.to_vec()).unwrap();
    Came::Answer { status, body, gave_up: retried.map(|retried| (retried.attempts, retried.stop)) }
}
