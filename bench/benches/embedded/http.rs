//! The rate of an HTTP handler behind the durable queue, against a bare client of the same library.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::{Aim, Figure, Report, Unit};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use redrive::engine::handler::http::{HttpHandler, HttpOptions};
use tokio::task::JoinSet;

use crate::Measured;
use crate::arguments::Arguments;
use crate::load::{self, BODY, Load};
use crate::server::Server;

/// Messages of a round.
const MESSAGES: u64 = 60_000;
/// Calls at the same time: a flow's default.
const CONCURRENCY: u64 = 64;

pub(crate) async fn measure(arguments: &Arguments, report: &mut Report) -> Measured<()> {
    let server = Server::start()?;
    let load = Load::new(arguments.scaled(MESSAGES), 512);
    let address = format!("http://{}/orders", server.address);
    let rate = |took: Duration| load.messages as f64 / took.as_secs_f64();
    let (mut bare, mut flow, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arguments.rounds() {
        server.count();
        let alone = rate(client_alone(address.parse()?, load.messages).await?);
        let progress = server.count();
        let handler = Arc::new(HttpHandler::new(&address, HttpOptions::default())?);
        let durable = rate(load::run(load, handler, progress).await?.took);
        bare.push(alone);
        flow.push(durable);
        ratio.push(durable / alone);
    }
    let mut figure = |name: &str, what: &str, unit, rounds: Vec<f64>, aim| {
        report.add(Figure {
            name: name.to_owned(),
            what: what.to_owned(),
            unit,
            spread: rounds.into_iter().collect(),
            aim,
        });
    };
    figure("http_client", "hyper-util alone, 64 calls at once", Unit::PerSecond, bare, None);
    let what = "publish, HTTP handler, ack: 64 calls at once; against hyper-util alone";
    figure("http", what, Unit::Ratio, ratio, Some(Aim::AtLeast(0.6)));
    figure("http_rate", "publish, HTTP handler, ack: 64 calls at once", Unit::PerSecond, flow, None);
    Ok(())
}

async fn client_alone(uri: Uri, calls: u64) -> Measured<Duration> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let began = Instant::now();
    let made = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..CONCURRENCY {
        callers.spawn(call(client.clone(), uri.clone(), made.clone(), calls));
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(began.elapsed())
}

async fn call(
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Uri,
    made: Arc<AtomicU64>,
    calls: u64,
) -> Measured<()> {
    while made.fetch_add(1, Ordering::Relaxed) < calls {
        let mut request = Request::new(Full::new(Bytes::from_static(BODY)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        let response = client.request(request).await?;
        if !response.status().is_success() {
            return Err(format!("the endpoint answered {}", response.status()).into());
        }
        response.into_body().collect().await?;
    }
    Ok(())
}
