//! Messages that fail once and come again after a second, and messages that never succeed, against a bare loop that
//! diverts the same records in transactions.

use std::sync::Arc;
use std::time::Duration;

use bench::numbered::number_of;
use bench::{Aim, Measured, Report, Tally, Unit};
use redrive::engine::handler::FunctionHandler;
use redrive::{Context, Message};
use serde_json::json;

use crate::arguments::Arguments;
use crate::bare::{self, Settling};
use crate::cluster::Cluster;
use crate::flow::{self, Described};

/// Records of a round.
const RECORDS: u64 = 200_000;
const DELAY: Duration = Duration::from_secs(1);
/// One in so many fails once.
const SHARES: [u64; 3] = [100, 10, 1];
/// One in so many is poison.
const POISON: u64 = 10;

pub(crate) async fn measure(
    arguments: &Arguments,
    cluster: &Arc<Cluster>,
    report: &mut Report,
) -> Measured<()> {
    let records = arguments.scaled(RECORDS);
    let topic = cluster.filled("retries", records).await?;
    for every in SHARES {
        let (mut bare, mut flow, mut ledger) = (Vec::new(), Vec::new(), Vec::new());
        // What waits last waits for nothing else: that second says nothing about either side.
        let rate = |took: Duration| records as f64 / took.saturating_sub(DELAY).as_secs_f64();
        for _ in 0..arguments.rounds() {
            bare.push(rate(settle(cluster, &topic, records, every, Some(DELAY)).await?));
            flow.push(rate(handle(cluster, &topic, records, every, Fails::Once, false).await?));
            ledger.push(rate(handle(cluster, &topic, records, every, Fails::Once, true).await?));
        }
        let percent = 100 / every;
        let what = format!("{percent} % fail once, 1 s delay");
        tell(report, &format!("retries_{percent}"), &what, [&bare, &flow, &ledger]);
    }
    Ok(())
}

pub(crate) async fn measure_poison(
    arguments: &Arguments,
    cluster: &Arc<Cluster>,
    report: &mut Report,
) -> Measured<()> {
    let records = arguments.scaled(RECORDS);
    let topic = cluster.filled("poison", records).await?;
    let (mut bare, mut flow, mut ledger) = (Vec::new(), Vec::new(), Vec::new());
    let rate = |took: Duration| records as f64 / took.as_secs_f64();
    for _ in 0..arguments.rounds() {
        bare.push(rate(settle(cluster, &topic, records, POISON, None).await?));
        flow.push(rate(handle(cluster, &topic, records, POISON, Fails::Poison, false).await?));
        ledger.push(rate(handle(cluster, &topic, records, POISON, Fails::Poison, true).await?));
    }
    tell(report, "poison", "10 % poison to the DLQ", [&bare, &flow, &ledger]);
    Ok(())
}

fn tell(report: &mut Report, name: &str, what: &str, [bare, flow, ledger]: [&[f64]; 3]) {
    let aim = Some(Aim::AtLeast(0.6));
    report.tell(&format!("{name}_bare_rate"), &format!("{what}: bare loop"), Unit::PerSecond, bare, None);
    report.tell(
        &format!("{name}_rate"),
        &format!("{what}: flow without a ledger"),
        Unit::PerSecond,
        flow,
        None,
    );
    let what_ledger = format!("{what}: flow with a ledger");
    report.tell(&format!("{name}_ledger_rate"), &what_ledger, Unit::PerSecond, ledger, None);
    report.tell_ratio(name, &format!("{what}: without a ledger against the bare loop"), (flow, bare), aim);
    let what = format!("{what}: with a ledger against the bare loop");
    report.tell_ratio(&format!("{name}_ledger"), &what, (ledger, bare), aim);
}

async fn settle(
    cluster: &Arc<Cluster>,
    topic: &str,
    records: u64,
    every: u64,
    delay: Option<Duration>,
) -> Measured<Duration> {
    let target = cluster.name("diverted");
    cluster.topics(&[&target]).await?;
    let work = Settling { topic: topic.to_owned(), target, records, every, delay };
    let cluster = Arc::clone(cluster);
    tokio::task::spawn_blocking(move || bare::settle(&cluster, &work)).await?
}

/// What becomes of a message that fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fails {
    /// It comes again and succeeds.
    Once,
    /// It is a dead letter.
    Poison,
}

async fn handle(
    cluster: &Cluster,
    topic: &str,
    records: u64,
    every: u64,
    fails: Fails,
    ledger: bool,
) -> Measured<Duration> {
    let tally = Arc::new(Tally::default());
    let told = Arc::clone(&tally);
    let handler = Arc::new(FunctionHandler::new(move |message: Message, context: Context| {
        told.begins();
        let bad = number_of(message.body.as_deref()).is_some_and(|number| number.is_multiple_of(every));
        let failed = bad && context.attempt == 1;
        if !failed || fails == Fails::Poison {
            told.one();
        }
        async move { if failed { Err(std::io::Error::from(std::io::ErrorKind::TimedOut)) } else { Ok(()) } }
    }));
    let attempts = if fails == Fails::Poison { 1 } else { 2 };
    let more = json!({ "budgets": { "attempts": attempts } });
    let described = Described { cluster, topic, retry: "1s", ledger, more };
    let running = flow::start(described, handler, flow::unguarded).await?;
    tally.until(records).await;
    running.settled().await;
    let took = tally.took();
    running.stop().await;
    Ok(took)
}
