//! Order by key with slow calls: how near a flow comes to as many calls as may run at once.

use std::sync::Arc;

use bench::{Aim, Measured, Report, Tally, Unit, timers};
use redrive::engine::handler::FunctionHandler;
use redrive::{Context, Message};
use serde_json::json;

use crate::arguments::Arguments;
use crate::cluster::Cluster;
use crate::flow::{self, Described};

/// Records of a round.
const RECORDS: u64 = 100_000;
/// Calls at once, each of 2 ms: 50,000 a second at most.
const CONCURRENCY: usize = 100;
const CEILING: f64 = 50_000.0;

pub(crate) async fn measure(arguments: &Arguments, cluster: &Cluster, report: &mut Report) -> Measured<()> {
    let records = arguments.scaled(RECORDS);
    let topic = cluster.filled("lanes", records).await?;
    let (mut alone, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds() {
        alone.push(timers::calls_alone(records, CONCURRENCY).await?);
        rates.push(handle(cluster, &topic, records).await?);
    }
    let what = "lanes: 100 calls of 2 ms at once over 1,000 keys";
    report.tell("lanes_rate", what, Unit::PerSecond, &rates, None);
    report.tell("lanes_calls_alone", "the same calls without a flow", Unit::PerSecond, &alone, None);
    let ceiling = vec![CEILING; rates.len()];
    let aim = Some(Aim::AtLeast(0.9));
    report.tell_ratio("lanes", &format!("{what}; against 50,000 a second"), (&rates, &ceiling), aim);
    let what = format!("{what}; against the calls alone");
    report.tell_ratio("lanes_of_calls_alone", &what, (&rates, &alone), None);
    Ok(())
}

async fn handle(cluster: &Cluster, topic: &str, records: u64) -> Measured<f64> {
    let tally = Arc::new(Tally::default());
    let told = Arc::clone(&tally);
    let handler = Arc::new(FunctionHandler::new(move |_: Message, _: Context| {
        let told = Arc::clone(&told);
        async move {
            told.begins();
            tokio::time::sleep(timers::CALL).await;
            told.one();
            Ok::<(), std::io::Error>(())
        }
    }));
    let more = json!({ "order_by": "key", "concurrency": CONCURRENCY });
    let described = Described { cluster, topic, retry: "1s", ledger: true, more };
    let running = flow::start(described, handler, |_| {}).await?;
    tally.until(records).await;
    running.settled().await;
    let took = tally.took();
    running.stop().await;
    Ok(records as f64 / took.as_secs_f64())
}
