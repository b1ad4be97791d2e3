//! `cargo xtask bench retry`: what a retryer costs around a call, side by side with its peers.
//!
//! Each call is made and awaited in one task, so that what is measured is the retry layer and no scheduler. The
//! operation succeeds or fails at once, and waits are of zero length: a real call takes a thousand times longer than
//! anything here.

#[path = "../core/measure.rs"]
#[allow(dead_code, reason = "each benchmark uses its part")]
mod measure;
#[path = "../core/table.rs"]
mod table;

use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use backon::{ConstantBuilder, Retryable as _};
use measure::{Measured, measure_awaited};
use redrive_retry::guard::{BreakerConfig, RetryBudgetConfig};
use redrive_retry::{CircuitBreaker, Retryer, SharedBudget};
use table::{Aim, Table};
use tower::retry::{Policy, Retry};
use tower::{Service as _, ServiceExt as _};

/// An error of the size that errors have.
#[derive(Debug, Clone, Copy)]
struct Busy(#[expect(dead_code, reason = "it is there to be carried")] u64);

/// Fails so often in each call, then succeeds.
struct Endpoint {
    failures: u32,
    left: Cell<u32>,
}

impl Endpoint {
    fn failing(failures: u32) -> Self {
        Self { failures, left: Cell::new(failures) }
    }

    #[expect(clippy::unused_async, reason = "it stands in for a call that is awaited")]
    async fn call(&self) -> Result<u64, Busy> {
        let left = self.left.get();
        if left == 0 {
            self.left.set(self.failures);
            return Ok(black_box(17));
        }
        self.left.set(left - 1);
        Err(Busy(black_box(503)))
    }
}

fn guarded() -> Result<Retryer, Box<dyn std::error::Error>> {
    // More retries than calls, so that the budget is asked and never spent.
    let budget = SharedBudget::new(RetryBudgetConfig { share: 10.0, ..RetryBudgetConfig::default() })?;
    let breaker = CircuitBreaker::new(BreakerConfig::default())?;
    Ok(Retryer::builder().schedule("0s x4".parse()?).budget(budget).breaker(breaker).build()?)
}

#[derive(Clone)]
struct FourTimes(u32);

impl<Req: Clone, Res, E> Policy<Req, Res, E> for FourTimes {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut Req, result: &mut Result<Res, E>) -> Option<Self::Future> {
        if result.is_ok() || self.0 == 0 {
            return None;
        }
        self.0 -= 1;
        Some(std::future::ready(()))
    }

    fn clone_request(&mut self, request: &Req) -> Option<Req> {
        Some(request.clone())
    }
}

async fn by_hand(endpoint: &Endpoint) -> Measured {
    measure_awaited(async || {
        let mut attempts = 0;
        loop {
            match endpoint.call().await {
                Err(_) if attempts < 4 => attempts += 1,
                result => return result,
            }
        }
    })
    .await
}

async fn by_redrive(retryer: &Retryer, endpoint: &Endpoint) -> Measured {
    measure_awaited(async || retryer.call(|_| endpoint.call()).await).await
}

async fn by_tower(endpoint: &Endpoint) -> Measured {
    let mut service = Retry::new(FourTimes(4), tower::service_fn(|()| endpoint.call()));
    measure_awaited(async || service.ready().await?.call(()).await).await
}

async fn by_backon(endpoint: &Endpoint) -> Measured {
    let zero = ConstantBuilder::default().with_delay(Duration::ZERO).with_max_times(4);
    measure_awaited(async || (|| endpoint.call()).retry(zero).await).await
}

async fn compare(table: &mut Table) -> Result<(), Box<dyn std::error::Error>> {
    let guarded = guarded()?;
    let alone = Retryer::builder().schedule("0s x4".parse()?).no_budget().build()?;
    for (what, failures, aim) in [
        ("success", 0, Aim { nanos: Some(25.0), allocations: Some(0.0) }),
        ("three failures", 3, Aim { nanos: Some(150.0), ..Aim::default() }),
    ] {
        let endpoint = Endpoint::failing(failures);
        let none = Aim::default();
        table.add(&format!("{what}: a loop by hand"), by_hand(&endpoint).await, none);
        let measured = by_redrive(&guarded, &endpoint).await;
        table.add(&format!("{what}: redrive, with deadline, budget and breaker"), measured, aim);
        table.add(&format!("{what}: redrive, with a deadline"), by_redrive(&alone, &endpoint).await, none);
        table.add(&format!("{what}: tower, with none of them"), by_tower(&endpoint).await, none);
        table.add(&format!("{what}: backon, with none of them"), by_backon(&endpoint).await, none);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut table = Table::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(compare(&mut table))?;
    println!("{table}");
    Ok(())
}
