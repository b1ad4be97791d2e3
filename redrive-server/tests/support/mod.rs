//! The API over a store in memory, and ways to call it over real connections.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod document;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use redrive_engine::Alarm;
use redrive_engine::port::{AuditLine, EntryState, Ledger as _, NewMessage};
use redrive_server::{
    Access, Api, BreakerShown, Client, FlowShown, FlowState, Flows, Limits, ListenOptions, Listener, Running,
    Token, router,
};
use serde_json::Value;
use testkit::clock::HandClock;
use testkit::memory::MemoryStore;
use tokio::net::TcpStream;

use document::Asked;

pub(crate) const SECRET: &str = "a-secret-of-the-tests";

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
            lag: Some(7),
            breaker: Some(BreakerShown::Open),
            alarms: vec![Alarm::new(
                "breaker_open",
                redrive_core::Timestamp::from_millis(1_782_896_400_000),
                "every call fails",
            )],
            owner: None,
        }]
    }
}

/// A store at 2026-07-01T09:00:04Z, in which a message of the flow `orders` failed in each of the seconds before, and
/// the API over it.
pub(crate) struct World {
    pub(crate) store: MemoryStore,
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
        let clock = Arc::new(HandClock::default());
        let store = MemoryStore::shared(clock.clone());
        for (id, state) in [
            ("m-1", EntryState::Dead),
            ("m-2", EntryState::Waiting),
            ("topic/0/7", EntryState::Parked),
            ("m-4", EntryState::Recovered),
        ] {
            store.leave("orders", text(id, "a body"), state);
            clock.advance(Duration::from_secs(1));
        }
        let api = change(Api::new(store.broker(), store.ledger(), clock, Arc::new(OneFlow)));
        let access = Access::token(Token::new("deploy", SECRET).unwrap());
        Self { store, router: router(api, access) }
    }

    /// The audit, newest line first.
    pub(crate) async fn audit(&self) -> Vec<AuditLine> {
        self.store.ledger().audit(None, 100).await.unwrap()
    }

    /// Where a message stands.
    pub(crate) async fn state(&self, id: &str) -> EntryState {
        self.store.ledger().entry(id).await.unwrap().unwrap().state
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
        let asked = Asked::of(&request);
        let answer = over_tcp(self.address(), request).await;
        asked.check(&answer);
        answer
    }
}

pub(crate) fn text(id: &str, body: &'static str) -> NewMessage {
    NewMessage { id: Some(id.into()), body: Some(body.into()), ..NewMessage::default() }
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

/// Calls, and holds the request and its answer against the document of the API.
pub(crate) async fn call(client: &Client, request: Request<Bytes>) -> Answer {
    let asked = Asked::of(&request);
    let answer = Answer(client.call(request).await.unwrap());
    asked.check(&answer);
    answer
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
