//! Retries of outgoing calls that cannot storm.
//!
//! A [`Retryer`] makes a call within a deadline and repeats it when it failed for a reason that passes. What keeps
//! many clients together from making an outage worse comes with it: jitter, `Retry-After`, a retry budget that is
//! shared, a circuit breaker around the whole call.
//!
//! ```
//! use redrive_retry::Retryer;
//! use redrive_retry::guard::BreakerConfig;
//! use redrive_retry::{CircuitBreaker, SharedBudget};
//!
//! # async fn fetch(order: u64) -> Result<String, std::io::Error> { Ok(format!("order {order}")) }
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let retryer = Retryer::builder()
//!     .budget(SharedBudget::default())
//!     .breaker(CircuitBreaker::new(BreakerConfig::default())?)
//!     .build()?;
//! let order = retryer.call(|_attempt| fetch(17)).await?;
//! assert_eq!(order, "order 17");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The order of the parts
//!
//! From the outside in, whatever the parts are made of: settings of one [`Retryer`], plain values around each other,
//! or `tower` layers.
//!
//! 1. **fallback**: sees every failure, also what a guard refused ([`Call::fallback`])
//! 2. **circuit breaker**: one verdict for the whole call ([`CircuitBreaker`])
//! 3. **retry**: deadline, attempts, waits, and the budget ([`Retryer`], [`SharedBudget`])
//! 4. **rate limit**: every attempt takes a turn, retries too ([`RateLimiter`])
//! 5. **bulkhead**: a place is held while an attempt runs, not while it waits for the next ([`Bulkhead`])
//! 6. **timeout** of one attempt: it begins when the parts 4 and 5 have let it through
//!
//! What the parts 4 and 5 refuse is not retried: they refuse because this client does too much already. As `tower`
//! layers of their own they are told apart with `Builder::behind_guard`, and the timeout is a layer inside of them.
//!
//! # The clock
//!
//! Deadlines and guards go by the system's clock. A test that pauses tokio's time says
//! `.clock(`[`TokioClock`]`)`, for the retryer and for each guard.

mod attempt;
mod blocking;
mod call;
mod call_budget;
mod classify;
mod clock;
pub mod config;
mod error;
mod fallback;
pub mod guard;
mod history;
mod hooks;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "idempotency")]
pub mod idempotency;
mod observe;
mod operation;
#[cfg(doctest)]
mod pages;
mod random;
mod retryer;
mod run;
mod stop;
#[cfg(feature = "telemetry")]
pub mod telemetry;
#[cfg(feature = "tower")]
pub mod tower;

pub use attempt::Attempt;
pub use call::{Call, HasRetryer};
pub use call_budget::CallBudget;
pub use classify::{Classify, ErrorsThat, EveryError, Judged, ResultsBy};
pub use clock::{Clock, SharedClock, SystemClock, TokioClock};
pub use config::{BuildError, Builder};
pub use error::{Cause, RetryError, Tried};
pub use fallback::WithFallback;
pub use guard::{Bulkhead, CircuitBreaker, RateLimiter, SharedBudget};
pub use hooks::{Hooks, Next, NoHooks};
pub use operation::Operation;
pub use redrive_core::{Jitter, Percent, Schedule, Timestamp};
pub use retryer::Retryer;
pub use stop::{CallBudgetSpent, Stop, TooLittleTime};
