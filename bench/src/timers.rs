//! Calls that do nothing but take their time.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Measured;

/// Calls of 2 ms. A timer fires at the next whole millisecond, so a call that begins when another ends takes 2 ms when it
/// asks for a little less, and 3 ms when it asks for 2.
pub const CALL: Duration = Duration::from_micros(1_500);

/// How many [calls](CALL) a second so many callers make, who are kept by nobody: what a timer's grain leaves of the
/// ceiling.
pub async fn calls_alone(calls: u64, callers: usize) -> Measured<f64> {
    let began = Instant::now();
    let mut at_work = JoinSet::new();
    for _ in 0..callers {
        at_work.spawn(async move {
            for _ in 0..calls / callers as u64 {
                tokio::time::sleep(CALL).await;
            }
        });
    }
    while let Some(ended) = at_work.join_next().await {
        ended?;
    }
    Ok(calls as f64 / began.elapsed().as_secs_f64())
}
