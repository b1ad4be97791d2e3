//! What a person reads after a typing mistake.

use std::fmt::Write as _;

use redrive_core::Schedule;

#[test]
fn errors_point_at_the_character() {
    let long = format!("{}1q", "1s, 2s, ".repeat(20));
    let many = "1s, 2s, ".repeat(32) + "1s";
    let texts = [
        "",
        "10",
        "10s,",
        "10s 1m",
        "10q x3",
        "10s x0",
        "10s x4294967296",
        "1s x4294967295, 2s",
        "5s1m",
        "367d",
        "P1M",
        "soon",
        "10s forever, 1m",
        "10s jitter",
        "10s jitter 120%",
        "10s jitter full full",
        "linear(10s, times 5)",
        "linear(10s, step 0s, times 5)",
        "exponential(5s, factor 0.5, times 3)",
        "exponential(5s, factor NaN, times 3)",
        "exponential(5s, factor 2, max 1s, times 3)",
        "exponential(5s, factor 2)",
        "exponential(5s, factor 2, tines 3)",
        "exponential(5s, factor 2, forever), 1h",
        "exponential(0s, times 3)",
        "exponential 5s",
        "FixedDelayRetryPolicy(5000x3, 15sx5)",
        "LimitedExponentialRetryPolicy(1,60,2)",
        "calendar(09:00-17:00 UTC)",
        "calendar(mon-fri 09:00-17:00)",
        "calendar(mon-fri 09:00-17:00 Europe/Berlim)",
        "calendar(mon-fri 22:00-06:00 UTC)",
        "calendar(mon-fri 09:60-17:00 UTC)",
        "calendar(mon-fri 09:00-17:00 UTC, holidays 2026-02-29)",
        "10s\tx3, ä",
        &many,
        &long,
    ];
    let mut page = String::new();
    for text in texts {
        let error = text.parse::<Schedule>().expect_err(text);
        writeln!(page, "{}\n{error}\n", error.caret()).unwrap();
    }
    insta::assert_snapshot!(page);
}

#[test]
fn a_text_of_any_length_is_refused_shortly() {
    let text = "1s, ".repeat(10_000);
    let error = text.parse::<Schedule>().unwrap_err();
    assert!(error.to_string().len() < 200);
    assert!(error.input().len() <= 1024);
}
