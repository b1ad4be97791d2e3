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
use crate::flow::{self, Described};
use crate::rabbit::Rabbit;

/// Messages of a round.
const MESSAGES: u64 = 200_000;

const SIDES: [&str; 3] = ["bare", "flow", "ledger"];

pub(crate) async fn measure(arguments: &Arguments, rabbit: &Rabbit, report: &mut Report) -> Measured<()> {
    let messages = arguments.scaled(MESSAGES);
    let mut rates: [Vec<f64>; 3] = Default::default();
    let mut peaks: [Vec<f64>; 3] = Default::default();
    let mut costs: [Vec<f64>; 3] = Default::default();
    for _ in 0..arguments.rounds() {
        for (place, side) in SIDES.iter().enumerate() {
            let queue = rabbit.filled("noop", messages).await?;
            let given = [side.to_string(), rabbit.address.clone(), queue.clone(), messages.to_string()];
            let ran = tokio::task::spawn_blocking(move || side::in_process(&given)).await??;
            rates[place].push(ran.rate);
            peaks[place].extend(ran.peak);
            costs[place].extend(ran.cost);
            rabbit.delete(&[&queue]).await?;
        }
    }
    let [bare, flow, ledger] = &rates;
    report.tell("noop_bare_rate", "no-op: bare loop", Unit::PerSecond, bare, None);
    report.tell("noop_rate", "no-op: flow without a ledger", Unit::PerSecond, flow, None);
    report.tell("noop_ledger_rate", "no-op: flow with a ledger", Unit::PerSecond, ledger, None);
    let aim = Some(Aim::AtLeast(0.85));
    report.tell_ratio("noop", "no-op without a ledger against the bare loop", (flow, bare), aim);
    report.tell_ratio("noop_ledger", "no-op with a ledger against the bare loop", (ledger, bare), aim);
    let [bare, flow, ledger] = &costs;
    let cost = "no-op: processor time a message";
    report.tell("noop_bare_cost", &format!("{cost}, bare loop"), Unit::Micros, bare, None);
    report.tell("noop_cost", &format!("{cost}, flow without a ledger"), Unit::Micros, flow, None);
    report.tell("noop_ledger_cost", &format!("{cost}, flow with a ledger"), Unit::Micros, ledger, None);
    let [bare, flow, ledger] = &peaks;
    let most = "no-op: most resident memory";
    report.tell("memory_bare", &format!("{most}, bare loop"), Unit::Megabytes, bare, None);
    let aim = Some(Aim::AtMost(60.0));
    report.tell("memory", &format!("{most}, flow without a ledger"), Unit::Megabytes, flow, aim);
    report.tell("memory_ledger", &format!("{most}, flow with a ledger"), Unit::Megabytes, ledger, aim);
    Ok(())
}

/// One side, in this process.
pub(crate) fn side(given: &[String]) -> ExitCode {
    let [side, address, queue, messages] = given else { return ExitCode::FAILURE };
    let (rabbit, Ok(messages)) = (Rabbit::at(address), messages.parse::<u64>()) else {
        return ExitCode::FAILURE;
    };
    side::said(messages, || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            match side.as_str() {
                "bare" => bare::read(&rabbit, queue, messages).await,
                side => handle(&rabbit, queue, messages, side == "ledger").await,
            }
        })
    })
}

async fn handle(rabbit: &Rabbit, queue: &str, messages: u64, ledger: bool) -> Measured<Duration> {
    redrive::server::keep_figures();
    let tally = Arc::new(Tally::default());
    let told = Arc::clone(&tally);
    let handler = Arc::new(FunctionHandler::new(move |_: Message, _: Context| {
        told.begins();
        told.one();
        async { Ok::<(), std::io::Error>(()) }
    }));
    let described = Described { rabbit, queue, retry: "1s", ledger, more: Value::Null };
    let running = flow::start(described, handler, |_| {}).await?;
    tally.until(messages).await;
    running.settled().await;
    let took = tally.took();
    running.stop(rabbit).await?;
    Ok(took)
}
