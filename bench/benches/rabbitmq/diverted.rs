//! Messages of which a share is given up: each is published to the dead-letter queue, confirmed, and then acknowledged,
//! against a bare loop that does the same.

use std::sync::Arc;
use std::time::Duration;

use bench::numbered::number_of;
use bench::{Aim, Measured, Report, Tally, Unit};
use redrive::engine::handler::FunctionHandler;
use redrive::{Context, Message};
use serde_json::json;

use crate::arguments::Arguments;
use crate::bare;
use crate::flow::{self, Described};
use crate::rabbit::Rabbit;

/// Messages of a round.
const MESSAGES: u64 = 60_000;
/// One in so many fails.
const SHARES: [u64; 3] = [100, 10, 1];

pub(crate) async fn measure(arguments: &Arguments, rabbit: &Rabbit, report: &mut Report) -> Measured<()> {
    let messages = arguments.scaled(MESSAGES);
    for every in SHARES {
        let (mut bare, mut flow, mut ledger) = (Vec::new(), Vec::new(), Vec::new());
        let rate = |took: Duration| messages as f64 / took.as_secs_f64();
        for _ in 0..arguments.rounds() {
            bare.push(rate(divert(rabbit, messages, every).await?));
            flow.push(rate(handle(rabbit, messages, every, false).await?));
            ledger.push(rate(handle(rabbit, messages, every, true).await?));
        }
        tell(report, 100 / every, [&bare, &flow, &ledger]);
    }
    Ok(())
}

fn tell(report: &mut Report, percent: u64, [bare, flow, ledger]: [&[f64]; 3]) {
    let (name, what) = (format!("diverted_{percent}"), format!("{percent} % to the dead-letter queue"));
    let aim = Some(Aim::AtLeast(0.8));
    report.tell(&format!("{name}_bare_rate"), &format!("{what}: bare loop"), Unit::PerSecond, bare, None);
    let without = format!("{what}: flow without a ledger");
    report.tell(&format!("{name}_rate"), &without, Unit::PerSecond, flow, None);
    let with = format!("{what}: flow with a ledger");
    report.tell(&format!("{name}_ledger_rate"), &with, Unit::PerSecond, ledger, None);
    report.tell_ratio(&name, &format!("{what}: without a ledger against the bare loop"), (flow, bare), aim);
    let with = format!("{what}: with a ledger against the bare loop");
    report.tell_ratio(&format!("{name}_ledger"), &with, (ledger, bare), aim);
}

async fn divert(rabbit: &Rabbit, messages: u64, every: u64) -> Measured<Duration> {
    let (queue, target) = (rabbit.filled("diverted", messages).await?, rabbit.queue("target").await?);
    let took = bare::divert(rabbit, &queue, &target, messages, every).await?;
    rabbit.delete(&[&queue, &target]).await?;
    Ok(took)
}

async fn handle(rabbit: &Rabbit, messages: u64, every: u64, ledger: bool) -> Measured<Duration> {
    let queue = rabbit.filled("diverted", messages).await?;
    let tally = Arc::new(Tally::default());
    let told = Arc::clone(&tally);
    let handler = Arc::new(FunctionHandler::new(move |message: Message, _: Context| {
        told.begins();
        let fails = number_of(message.body.as_deref()).is_some_and(|number| number.is_multiple_of(every));
        told.one();
        async move { if fails { Err(std::io::Error::from(std::io::ErrorKind::TimedOut)) } else { Ok(()) } }
    }));
    let more = json!({ "budgets": { "attempts": 1 } });
    let described = Described { rabbit, queue: &queue, retry: "1s", ledger, more };
    let running = flow::start(described, handler, flow::unguarded).await?;
    tally.until(messages).await;
    running.settled().await;
    let took = tally.took();
    running.stop(rabbit).await?;
    Ok(took)
}
