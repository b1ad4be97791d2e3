//! Messages that all succeed at once: how many a second, and in how much memory. Each side runs in a process of its own, so
//! that the memory is its own.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bench::{Aim, Measured, Report, Tally, Unit, side};
use redrive::engine::handler::FunctionHandler;
use redrive::{Context, Message};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::bare;
use crate::cluster::Cluster;
use crate::flow::{self, Described};

/// Records of a round.
const RECORDS: u64 = 1_000_000;

const SIDES: [&str; 3] = ["bare", "flow", "ledger"];

pub(crate) async fn measure(arguments: &Arguments, cluster: &Cluster, report: &mut Report) -> Measured<()> {
    let records = arguments.scaled(RECORDS);
    let topic = cluster.filled("noop", records).await?;
    let mut rates: [Vec<f64>; 3] = Default::default();
    let mut peaks: [Vec<f64>; 3] = Default::default();
    let mut costs: [Vec<f64>; 3] = Default::default();
    let (mut growth, mut spring) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds() {
        spring.extend(peer(&cluster.bootstrap, &topic, records).await?);
        for (place, side) in SIDES.iter().enumerate() {
            let given = [side.to_string(), cluster.bootstrap.clone(), topic.clone(), records.to_string()];
            let ran = tokio::task::spawn_blocking(move || side::in_process(&given)).await??;
            rates[place].push(ran.rate);
            peaks[place].extend(ran.peak);
            costs[place].extend(ran.cost);
            if *side == "flow" {
                growth.extend(ran.growth);
            }
        }
    }
    let [bare, flow, ledger] = &rates;
    report.tell("noop_bare_rate", "no-op: bare loop", Unit::PerSecond, bare, None);
    report.tell("noop_rate", "no-op: flow without a ledger", Unit::PerSecond, flow, None);
    report.tell("noop_ledger_rate", "no-op: flow with a ledger", Unit::PerSecond, ledger, None);
    let aim = Some(Aim::AtLeast(0.5));
    report.tell_ratio("noop", "no-op without a ledger against the bare loop", (flow, bare), aim);
    report.tell_ratio("noop_ledger", "no-op with a ledger against the bare loop", (ledger, bare), aim);
    if !spring.is_empty() {
        report.tell("noop_spring_rate", "no-op: a listener of Spring Kafka", Unit::PerSecond, &spring, None);
        let aim = Some(Aim::AtLeast(2.0));
        report.tell_ratio("noop_spring", "no-op without a ledger against Spring Kafka", (flow, &spring), aim);
    }
    let [bare, flow, ledger] = &costs;
    let cost = "no-op: processor time a message";
    report.tell("noop_bare_cost", &format!("{cost}, bare loop"), Unit::Micros, bare, None);
    report.tell("noop_cost", &format!("{cost}, flow without a ledger"), Unit::Micros, flow, None);
    report.tell("noop_ledger_cost", &format!("{cost}, flow with a ledger"), Unit::Micros, ledger, None);
    let [bare, flow, ledger] = &peaks;
    let most = "no-op: most resident memory";
    report.tell("memory_bare", &format!("{most}, bare loop"), Unit::Megabytes, bare, None);
    let aim = Some(Aim::AtMost(100.0));
    report.tell("memory", &format!("{most}, flow without a ledger"), Unit::Megabytes, flow, aim);
    report.tell("memory_ledger", &format!("{most}, flow with a ledger"), Unit::Megabytes, ledger, aim);
    let what = "no-op: memory after three quarters against a quarter";
    report.tell("memory_growth", what, Unit::Ratio, &growth, None);
    Ok(())
}

/// A listener of Spring Kafka, where its program can be had: messages a second.
async fn peer(bootstrap: &str, topic: &str, records: u64) -> Measured<Option<f64>> {
    let (bootstrap, topic) = (bootstrap.to_owned(), topic.to_owned());
    let counted = tokio::task::spawn_blocking(move || {
        testkit::Spring::counting(&testkit::Services::connect(), &bootstrap, &topic, records)
    });
    Ok(counted.await?.map(|took| records as f64 / took.as_secs_f64()))
}

/// One side, in this process.
pub(crate) fn side(given: &[String]) -> ExitCode {
    let [side, bootstrap, topic, records] = given else { return ExitCode::FAILURE };
    let (cluster, Ok(records)) = (Cluster::at(bootstrap), records.parse::<u64>()) else {
        return ExitCode::FAILURE;
    };
    side::said(records, || {
        if side == "bare" {
            return bare::read(&cluster, topic, records);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(handle(&cluster, topic, records, side == "ledger"))
    })
}

async fn handle(cluster: &Cluster, topic: &str, records: u64, ledger: bool) -> Measured<Duration> {
    redrive::server::keep_figures();
    let tally = Arc::new(Tally::default());
    let told = Arc::clone(&tally);
    let handler = Arc::new(FunctionHandler::new(move |_: Message, _: Context| {
        told.begins();
        told.one();
        async { Ok::<(), std::io::Error>(()) }
    }));
    let described = Described { cluster, topic, retry: "1s", ledger, more: Value::Null };
    let running = flow::start(described, handler, |_| {}).await?;
    tally.until(records).await;
    running.settled().await;
    let took = tally.took();
    running.stop().await;
    Ok(took)
}
