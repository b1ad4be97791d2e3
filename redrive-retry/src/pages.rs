//! The pages of `docs/client-retries` and the README, whose examples run as tests.

macro_rules! pages {
    ($($name:ident = $file:literal),+ $(,)?) => {
        $(
            #[doc = include_str!(concat!("../../docs/client-retries/", $file))]
            struct $name;
        )+
    };
}

#[doc = include_str!("../README.md")]
struct Readme;

pages! {
    Overview = "README.md",
    AttemptsAndDeadline = "attempts-and-deadline.md",
    Waits = "waits.md",
    WhatIsRetried = "what-is-retried.md",
    Budget = "budget.md",
    Breaker = "breaker.md",
    BulkheadAndRate = "bulkhead-and-rate.md",
    Fallback = "fallback.md",
    InAHandler = "in-a-handler.md",
    WhenToQueue = "when-to-queue.md",
}

#[cfg(feature = "telemetry")]
pages! { Telemetry = "telemetry.md" }

#[cfg(feature = "http")]
pages! { Idempotency = "idempotency.md" }

#[cfg(feature = "reqwest")]
pages! { Http = "http.md" }
