//! Ports that keep everything in memory, and ways to call the API over real connections.
#![allow(dead_code, reason = "each test file uses its part")]

mod broker;
mod ledger;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use redrive_core::Timestamp;
use redrive_engine::Alarm;
use redrive_engine::port::{Clock, EntryState};
use redrive_server::{
    Access, Api, BreakerShown, Client, FlowShown, FlowState, Flows, Limits, ListenOptions, Listener, Running,
    Token, router,
};
use serde_json::Value;
use tokio::net::TcpStream;

pub(crate) use broker::FakeBroker;
pub(crate) use ledger::FakeLedger;

pub(crate) const SECRET: &str = "a-secret-of-the-tests";
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_782_896_400_000);

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

#[derive(Debug)]
struct OneFlow;

impl Flows for OneFlow {
    fn flows(&self) -> Vec<FlowShown> {
        vec![FlowShown {
            name: "orders".into(),
            state: FlowState::Holding,
            holding: Some("breaker open".into()),
            from: Some("queue:orders".into()),
            to: Some("http://127.0.0.1:3000/orders".into()),
            in_hand: 2,
            breaker: Some(BreakerShown::Open),
            alarms: vec![Alarm::new("breaker_open", NOW, "every call fails")],
            owner: None,
        }]
    }
}

pub(crate) struct World {
    pub(crate) broker: Arc<FakeBroker>,
    pub(crate) ledger: Arc<FakeLedger>,
    pub(crate) router: Router,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self::with(|api| api.limits(limits))
    }

    pub(crate) fn with(change: impl FnOnce(Api) -> Api) -> Self {
        let broker = Arc::new(FakeBroker::default());
        let ledger = Arc::new(FakeLedger::default());
        ledger.add("m-1", EntryState::Dead);
        ledger.add("m-2", EntryState::Waiting);
        ledger.add("topic/0/7", EntryState::Parked);
        ledger.add("m-4", EntryState::Recovered);
        let api = change(Api::new(broker.clone(), ledger.clone(), Arc::new(Stopped), Arc::new(OneFlow)));
        let access = Access::token(Token::new("deploy", SECRET).unwrap());
        Self { broker, ledger, router: router(api, access) }
    }

    pub(crate) fn client(&self) -> Client {
        Client::in_process(self.router.clone())
    }

    /// A listener on a free port.
    pub(crate) async fn listen(&self) -> Listening {
        let folder = tempfile::tempdir().unwrap();
        let options = ListenOptions {
            listen: Some(([127, 0, 0, 1], 0).into()),
            ..ListenOptions::new(folder.path().join("d"))
        };
        let running = Listener::start(options, self.router.clone()).await.unwrap();
        Listening { running, folder }
    }
}

pub(crate) struct Listening {
    pub(crate) running: Running,
    pub(crate) folder: tempfile::TempDir,
}

impl Listening {
    pub(crate) fn address(&self) -> SocketAddr {
        self.running.address().unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.folder.path().join("d")).await.unwrap().unwrap()
    }

    /// Over TCP, with the token and the right host.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Answer {
        let mut request = request;
        let host = self.address().to_string().parse().unwrap();
        request.headers_mut().entry("host").or_insert(host);
        let token = format!("Bearer {SECRET}").parse().unwrap();
        request.headers_mut().entry("authorization").or_insert(token);
        over_tcp(self.address(), request).await
    }
}

/// Over TCP, as it is.
pub(crate) async fn over_tcp(address: SocketAddr, request: Request<Bytes>) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let (parts, body) = sender.send_request(request.map(Full::new)).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    connection.abort();
    Answer(Response::from_parts(parts, body))
}

pub(crate) struct Answer(pub(crate) Response<Bytes>);

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.0.status()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.0.headers().get(name)?.to_str().ok()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.0.body()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(self.0.body()).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// The status and the code of a problem; the shape of one is checked too.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text());
        let json = self.json();
        assert_eq!(json["status"], self.status().as_u16());
        for field in ["title", "message", "help"] {
            assert!(json[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {json}");
        }
        (self.status().as_u16(), json["code"].as_str().unwrap().to_owned())
    }
}

pub(crate) async fn call(client: &Client, request: Request<Bytes>) -> Answer {
    Answer(client.call(request).await.unwrap())
}

pub(crate) fn get(path: &str) -> Request<Bytes> {
    Request::get(path).body(Bytes::new()).unwrap()
}

pub(crate) fn post(path: &str, body: impl Into<Bytes>) -> Request<Bytes> {
    post_as(path, "application/json", body)
}

pub(crate) fn post_as(path: &str, kind: &str, body: impl Into<Bytes>) -> Request<Bytes> {
    Request::post(path).header("content-type", kind).body(body.into()).unwrap()
}
