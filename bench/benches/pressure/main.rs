//! `cargo xtask bench pressure`: what order, guards and poison cost, each as a ratio within one run, and how fast the
//! backlog of an outage leaves.
//!
//! Every queue is preloaded, on a real data file. Rounds of the two sides of a ratio take turns, so that a machine which
//! is busy for a moment slows both.

mod arguments;
mod endpoint;
mod load;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use arguments::{Arguments, Part};
use bench::{Aim, Measured, Report, Unit, timers};
use clap::Parser as _;
use endpoint::Endpoint;
use load::Load;
use redrive::engine::FlowSpec;
use redrive_core::OrderBy;
use redrive_core::guard::{BreakerConfig, Rate};

/// Messages of a round.
const MESSAGES: u64 = 100_000;
/// Calls at once, each of 2 ms: 50,000 a second at most.
const CONCURRENCY: usize = 100;
const CEILING: f64 = 50_000.0;
/// How long the endpoint is down, and how many calls a second it stands afterwards.
const DOWN: Duration = Duration::from_secs(3);
const LIMIT: u32 = 5_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.run(async |report| {
        // Counting is part of the cost, as in the binary.
        redrive::server::keep_figures();
        for part in arguments.parts() {
            match part {
                Part::Lanes => lanes(&arguments, report).await?,
                Part::Order => order(&arguments, report).await?,
                Part::Poison => poison(&arguments, report).await?,
                Part::Guards => guards(&arguments, report).await?,
                Part::Recovery => recovery(&arguments, report).await?,
            }
        }
        Ok(())
    })
}

fn ordered(spec: &mut FlowSpec) {
    spec.order_by = OrderBy::Key;
}

fn unguarded(spec: &mut FlowSpec) {
    (spec.breaker, spec.retry_budget, spec.rate) = (None, None, None);
}

/// A rate that is far away is asked for every call all the same.
fn guarded(spec: &mut FlowSpec) {
    spec.rate = Rate::per_second(10_000_000);
}

async fn rate(load: Load, change: impl FnOnce(&mut FlowSpec)) -> Measured<f64> {
    let took = load::empty(load, Arc::default(), change).await?;
    Ok(load.healthy as f64 / took.as_secs_f64())
}

async fn lanes(arguments: &Arguments, report: &mut Report) -> Measured<()> {
    let load = Load { healthy: arguments.scaled(MESSAGES), poison: 0 };
    let (mut rates, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds() {
        bare.push(timers::calls_alone(load.healthy, CONCURRENCY).await?);
        let endpoint = Arc::new(Endpoint::slow(timers::CALL));
        let took = load::empty(load, endpoint, |spec| {
            ordered(spec);
            spec.concurrency = CONCURRENCY;
        });
        rates.push(load.healthy as f64 / took.await?.as_secs_f64());
    }
    let what = "lanes: 100 calls of 2 ms at once over 1,000 keys";
    report.tell("lanes_rate", what, Unit::PerSecond, &rates, None);
    report.tell("lanes_calls_alone", "the same calls without a flow", Unit::PerSecond, &bare, None);
    let of_ceiling: Vec<f64> = rates.iter().map(|rate| rate / CEILING).collect();
    let aim = Some(Aim::AtLeast(0.9));
    report.tell("lanes", &format!("{what}; against 50,000 a second"), Unit::Ratio, &of_ceiling, aim);
    let of_bare = ratios(&rates, &bare);
    report.tell(
        "lanes_of_calls_alone",
        &format!("{what}; against the calls alone"),
        Unit::Ratio,
        &of_bare,
        None,
    );
    Ok(())
}

async fn order(arguments: &Arguments, report: &mut Report) -> Measured<()> {
    let load = Load { healthy: arguments.scaled(MESSAGES), poison: 0 };
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds() {
        off.push(rate(load, |_| {}).await?);
        on.push(rate(load, ordered).await?);
    }
    report.tell("order_off_rate", "a handler that does nothing: no order", Unit::PerSecond, &off, None);
    report.tell("order_on_rate", "order by key, 1,000 keys", Unit::PerSecond, &on, None);
    let aim = Some(Aim::AtLeast(0.8));
    report.tell("order", "order by key against no order", Unit::Ratio, &ratios(&on, &off), aim);
    Ok(())
}

async fn poison(arguments: &Arguments, report: &mut Report) -> Measured<()> {
    let healthy = arguments.scaled(MESSAGES);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds() {
        without.push(rate(Load { healthy, poison: 0 }, |_| {}).await?);
        with.push(rate(Load { healthy, poison: healthy / 100 }, |_| {}).await?);
    }
    report.tell("poison_rate", "healthy messages, 1 poison to 100", Unit::PerSecond, &with, None);
    let aim = Some(Aim::AtLeast(0.9));
    report.tell(
        "poison",
        "healthy messages: 1 poison to 100 against none",
        Unit::Ratio,
        &ratios(&with, &without),
        aim,
    );
    Ok(())
}

async fn guards(arguments: &Arguments, report: &mut Report) -> Measured<()> {
    let load = Load { healthy: arguments.scaled(MESSAGES), poison: 0 };
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds() {
        off.push(rate(load, unguarded).await?);
        on.push(rate(load, guarded).await?);
    }
    report.tell("guards_rate", "breaker, rate and retry budget on", Unit::PerSecond, &on, None);
    let aim = Some(Aim::AtLeast(0.97));
    report.tell(
        "guards",
        "breaker, rate and retry budget: on against off",
        Unit::Ratio,
        &ratios(&on, &off),
        aim,
    );
    Ok(())
}

/// The endpoint is down at the start, and then stands so many calls a second: how long the backlog takes, against how long
/// the limit alone takes once it is back.
async fn recovery(arguments: &Arguments, report: &mut Report) -> Measured<()> {
    let load = Load { healthy: arguments.scaled(50_000).max(2 * u64::from(LIMIT)), poison: 0 };
    let mut ratios = Vec::new();
    for _ in 0..arguments.rounds() {
        let endpoint = Arc::new(Endpoint::down(DOWN));
        let took = load::empty(load, endpoint, |spec| {
            spec.rate = Rate::per_second(LIMIT);
            spec.breaker =
                Some(BreakerConfig { open: Duration::from_millis(200), ..BreakerConfig::default() });
        })
        .await?;
        // What the bucket had saved up goes at once.
        let at_limit = (load.healthy as f64 - f64::from(LIMIT)).max(0.0) / f64::from(LIMIT);
        ratios.push(at_limit / took.saturating_sub(DOWN).as_secs_f64());
    }
    let what = "backlog after an outage of 3 s: the limit's time against the time it took";
    report.tell("recovery", what, Unit::Ratio, &ratios, None);
    Ok(())
}

fn ratios(some: &[f64], against: &[f64]) -> Vec<f64> {
    some.iter().zip(against).map(|(one, other)| one / other).collect()
}
