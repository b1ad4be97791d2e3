//! The text of durations.

use std::time::Duration;

use redrive_core::duration::{self, Period};

#[test]
fn every_form_has_one_canonical_print() {
    for (text, micros, printed) in [
        ("100ms", 100_000, "100ms"),
        ("0s", 0, "0s"),
        ("0ms", 0, "0s"),
        ("10s", 10_000_000, "10s"),
        ("90s", 90_000_000, "1m30s"),
        ("1m30s", 90_000_000, "1m30s"),
        ("1h", 3_600_000_000, "1h"),
        ("1h0.5s", 3_600_500_000, "1h0.5s"),
        ("2d", 172_800_000_000, "2d"),
        ("1w", 604_800_000_000, "7d"),
        ("1.5s", 1_500_000, "1.5s"),
        ("1.5m", 90_000_000, "1m30s"),
        ("1500us", 1_500, "1.5ms"),
        ("250us", 250, "250us"),
        ("7µs", 7, "7us"),
        ("0.25ms", 250, "250us"),
        ("1s1us", 1_000_001, "1.000001s"),
        ("PT2H", 7_200_000_000, "2h"),
        ("P1D", 86_400_000_000, "1d"),
        ("P1W", 604_800_000_000, "7d"),
        ("P1DT12H", 129_600_000_000, "1d12h"),
        ("PT0.5S", 500_000, "500ms"),
        ("pt1m30s", 90_000_000, "1m30s"),
        ("  10s ", 10_000_000, "10s"),
        ("366d", 31_622_400_000_000, "366d"),
        ("000000000000000000010s", 10_000_000, "10s"),
    ] {
        let parsed = duration::parse(text).map_err(|error| error.to_string());
        assert_eq!(parsed, Ok(Duration::from_micros(micros)), "{text}");
        assert_eq!(duration::print(Duration::from_micros(micros)).to_string(), printed);
    }
}

#[test]
fn what_is_no_duration_is_refused() {
    for text in [
        "",
        " ",
        "s",
        "10",
        "1.5",
        "10 s",
        "-1s",
        "+1s",
        "1e3s",
        "NaN",
        "inf",
        "1.s",
        ".5s",
        "10s 5s",
        "5s1m",
        "1s1s",
        "10sec",
        "10S",
        "P",
        "PT",
        "P1",
        "PT1",
        "P1M",
        "P1Y",
        "PT1D",
        "P1H",
        "P1DT",
        "PT1S1S",
        "1.5us",
        "367d",
        "366d1us",
        "99999999999999999999999999999s",
        "9999999999999999w",
        "0.0000000001s",
        "10s\u{0}",
    ] {
        assert!(duration::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_period_is_text_in_json() {
    let period: Period = serde_json::from_str("\"1m30s\"").unwrap();
    assert_eq!(serde_json::to_string(&period).unwrap(), "\"1m30s\"");
    let error = serde_json::from_str::<Period>("\"90\"").unwrap_err().to_string();
    assert!(error.starts_with("expected a unit"), "{error}");
    assert!(serde_json::from_str::<Period>("90").is_err());
}

#[test]
fn what_is_finer_or_longer_than_can_be_written_still_prints() {
    assert_eq!(duration::print(Duration::from_nanos(1_999)).to_string(), "1us");
    assert_eq!(duration::print(Duration::from_nanos(999)).to_string(), "0s");
    assert_eq!(duration::print(Duration::from_hours(400 * 24)).to_string(), "400d");
    assert!(!duration::print(Duration::MAX).to_string().is_empty());
}
