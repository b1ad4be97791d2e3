//! The last answer there was is handed on, also when the call is given up while it waits for another attempt.

use std::time::Duration;

use redrive_retry::guard::{BreakerConfig, Rate};
use redrive_retry::http::{HttpAnswers, HttpRetry, Retried};
use redrive_retry::{Builder, Bulkhead, CallBudget, CircuitBreaker, RateLimiter, Stop, TokioClock};
use tower::ServiceExt as _;

use crate::clients::quick;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn slow() -> Builder {
    quick().base(ms(100)).clock(TokioClock)
}

/// What comes of a request that is answered with 503, with `meanwhile` done while the call waits.
async fn ended(settings: Builder, meanwhile: impl FnOnce()) -> (u16, String, Retried) {
    let retryer = settings.classify(HttpAnswers::default()).build().unwrap();
    let service = tower::service_fn(|_: http::Request<()>| async {
        let answer = http::Response::builder().status(503).header("retry-after", "7");
        Ok::<_, std::io::Error>(answer.body("come back".to_owned()).unwrap())
    });
    let call = HttpRetry::new(service, retryer).oneshot(http::Request::get("/").body(()).unwrap());
    let during = async {
        tokio::time::sleep(ms(1)).await;
        meanwhile();
    };
    let (answer, ()) = tokio::join!(call, during);
    let answer = answer.unwrap();
    let retried = *answer.extensions().get::<Retried>().unwrap();
    (answer.status().as_u16(), answer.into_body(), retried)
}

#[tokio::test(start_paused = true)]
async fn whatever_ends_the_wait() {
    let bulkhead = Bulkhead::new(1, 0).unwrap();
    let mut taken = None;
    let full = ended(slow().bulkhead(bulkhead.clone()), || taken = bulkhead.try_acquire()).await;
    assert!(taken.is_some());
    let limiter = RateLimiter::with_clock(Rate::new(1, ms(3_600_000)).unwrap(), 1, TokioClock).unwrap();
    let rated = ended(slow().rate_limit(limiter), || {}).await;
    let budget = CallBudget::new(Some(2), None);
    let spent = budget.scope(ended(slow(), || assert!(budget.try_take()))).await;
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), TokioClock).unwrap();
    let open = ended(slow().breaker(breaker.clone()), || breaker.force_open()).await;
    let stops = [full, rated, spent, open].map(|(status, body, retried)| {
        assert_eq!((status, body.as_str(), retried.attempts), (503, "come back", 1));
        assert!(retried.retry_after >= Some(Duration::from_secs(7)), "{retried:?}");
        retried.stop
    });
    assert!(
        matches!(stops, [Stop::Bulkhead(_), Stop::Rate(_), Stop::CallBudget, Stop::Breaker(_)]),
        "{stops:?}"
    );
}
