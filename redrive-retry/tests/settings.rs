//! What a retryer is by default, and what it refuses to be.

use std::time::Duration;

use redrive_retry::{BuildError, Builder, Jitter, Retryer, config};

fn refused(builder: Builder) -> String {
    builder.build().unwrap_err().to_string()
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let seconds = Duration::from_secs;
    assert_eq!(config::ATTEMPTS, 5);
    assert_eq!(config::BASE, Duration::from_millis(200));
    assert_eq!((config::CAP, config::DEADLINE), (seconds(3), seconds(8)));
    assert_eq!((config::ATTEMPT_TIMEOUT, config::CONNECT_TIMEOUT), (seconds(2), seconds(3)));
    let retryer = Retryer::builder().build().unwrap();
    assert_eq!((retryer.attempts(), retryer.connect_timeout()), (5, seconds(3)));
    assert!(retryer.budget().is_some() && retryer.breaker().is_none());
    let shown = format!("{retryer:?}");
    assert!(shown.contains("Schedule(exponential(200ms, factor 2, max 3s) forever jitter full)"), "{shown}");
    assert!(shown.contains("deadline: Some(8s)") && shown.contains("attempt_timeout: Some(2s)"), "{shown}");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_way_out() {
    let builder = Retryer::builder;
    assert_eq!(
        refused(builder().attempts(0)),
        "`attempts` is 0; write 1 to 1000, the first attempt included"
    );
    assert_eq!(builder().attempts(1_001).build().unwrap_err(), BuildError::Attempts(1_001));
    for factor in [0.99, 0.0, -1.0, f64::NAN, f64::INFINITY, 1_001.0] {
        assert_eq!(
            refused(builder().factor(factor)),
            "the waits make no schedule: expected a factor from 1 to 1000 with at most 3 decimals"
        );
        assert!(builder().factor(factor).base(Duration::ZERO).build().is_err());
    }
    assert_eq!(
        refused(builder().base(Duration::from_secs(5)).cap(Duration::from_secs(4))),
        "the waits make no schedule: expected a max that is no shorter than the first delay"
    );
    for builder in [
        builder().deadline(Duration::ZERO),
        builder().attempt_timeout(Duration::ZERO),
        builder().connect_timeout(Duration::ZERO),
    ] {
        assert!(matches!(builder.build().unwrap_err(), BuildError::NoTime(_)));
    }
    assert_eq!(
        refused(builder().attempt_timeout(Duration::from_secs(9))),
        "`attempt_timeout` is 9s, longer than the `deadline` of 8s; write a shorter one"
    );
    assert_eq!(
        refused(builder().retry_after(Duration::from_secs(2), Duration::from_secs(1))),
        "`retry_after` goes from 2s to 1s; write the shorter one first"
    );
    assert_eq!(
        refused(builder().schedule("1s x2".parse().unwrap()).attempts(4)),
        "`attempts` is 4, and the schedule ends after 3; leave `attempts` out, or let the schedule go on with `forever`"
    );
    assert_eq!(
        refused(builder().schedule("1s x2".parse().unwrap()).jitter(Jitter::Full)),
        "`jitter` was set beside `schedule`, which says that already; leave one of them out (`cap` goes with both)"
    );
    assert!(builder().base(Duration::from_hours(24 * 400)).build().is_err());
}

#[test]
fn a_default_gives_way_to_what_was_said() {
    let builder = Retryer::builder;
    assert!(builder().deadline(Duration::from_secs(1)).build().is_ok(), "shorter than the default attempt");
    assert!(builder().cap(Duration::from_millis(50)).build().is_ok(), "shorter than the default base");
    assert!(builder().base(Duration::from_secs(10)).build().is_ok(), "longer than the default cap");
    assert_eq!(builder().schedule("1s x9".parse().unwrap()).build().unwrap().attempts(), 10);
    assert_eq!(builder().schedule("1s forever".parse().unwrap()).build().unwrap().attempts(), 5);
    assert_eq!(builder().schedule("1s x9".parse().unwrap()).attempts(2).build().unwrap().attempts(), 2);
}
