//! Trails to test with: arbitrary valid ones, and one with every field set.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use redrive_core::headers::{
    MAX_ATTEMPT, MAX_ERROR_MESSAGE, MAX_ERROR_TYPE, MAX_RESPONSE, MAX_ROUTE_HOPS, MAX_SPAN, Origin, Replay,
    Spelling, Trail,
};
use redrive_core::{Class, Reason, Text, Timestamp};

fn text(max: usize) -> impl Strategy<Value = Option<Text>> {
    let any = vec(any::<char>(), 1..=max).prop_map(|chars| Text::from(chars.into_iter().collect::<String>()));
    option::of(any)
}

fn id() -> impl Strategy<Value = Option<Text>> {
    option::of("[^\\p{Cc}]{1,300}".prop_map(Text::from))
}

fn time() -> impl Strategy<Value = Option<Timestamp>> {
    option::of((0..=Timestamp::MAX.as_millis()).prop_map(Timestamp::from_millis))
}

fn span() -> impl Strategy<Value = Duration> {
    (0..=MAX_SPAN.as_millis() as u64).prop_map(Duration::from_millis)
}

fn class() -> impl Strategy<Value = Option<Class>> {
    option::of(proptest::sample::select(Class::ALL))
}

fn reason() -> impl Strategy<Value = Option<Reason>> {
    option::of("[A-Z][A-Z0-9_]{0,63}".prop_map(|code| Reason::new(code).unwrap()))
}

fn route() -> impl Strategy<Value = Option<Text>> {
    option::of(vec("[a-z0-9._-]{1,40}", 1..=MAX_ROUTE_HOPS).prop_map(|hops| Text::from(hops.join(","))))
}

fn origin() -> impl Strategy<Value = Origin> {
    (option::of("[a-zA-Z0-9._-]{1,249}"), option::of(0..=i32::MAX), option::of(0..=i64::MAX), time())
        .prop_map(|(topic, partition, offset, timestamp)| Origin {
            topic: topic.map(Text::from),
            partition,
            offset,
            timestamp,
        })
}

fn replay() -> impl Strategy<Value = Option<Replay>> {
    let fields = (id(), text(MAX_ERROR_TYPE), text(MAX_ERROR_MESSAGE), 0..=MAX_ATTEMPT);
    option::of(fields.prop_map(|(id, by, reason, death_count)| Replay { id, by, reason, death_count }))
}

prop_compose! {
    pub(crate) fn trail()(
        counters in (0..=MAX_ATTEMPT, option::of(1..=MAX_ATTEMPT), 0..=MAX_ATTEMPT, 0..=MAX_ATTEMPT, 0..=MAX_ATTEMPT),
        times in (time(), time(), time(), time()),
        spans in (span(), span()),
        failure in (class(), reason(), option::of(100_u16..=999)),
        texts in (text(MAX_ERROR_TYPE), text(MAX_ERROR_MESSAGE), text(MAX_RESPONSE), text(MAX_ERROR_MESSAGE), text(MAX_ERROR_TYPE)),
        ids in (id(), id(), id(), id(), id()),
        origin in origin(),
        delay_route in route(),
        replay in replay(),
        forward_to in option::of("[a-zA-Z0-9._-]{1,249}"),
    ) -> Trail {
        Trail {
            attempt: counters.0,
            max: counters.1,
            process_after: times.0,
            origin,
            first_attempt_at: times.1,
            first_failure_at: times.2,
            last_failure_at: times.3,
            error_type: texts.0,
            error_message: texts.1,
            class: failure.0,
            reason: failure.1,
            status: failure.2,
            response: texts.2,
            delay_route,
            delay_counter: counters.2,
            delay_reason: texts.3,
            wait_id: ids.0,
            entry_id: ids.1,
            idempotency_key: ids.2,
            calls_used: counters.3,
            delay_total: spans.0,
            held: spans.1,
            handler_version: texts.4,
            correlation_id: ids.3,
            causation_id: ids.4,
            forward_to: forward_to.map(Text::from),
            mac_failures: counters.4,
            replay,
        }
    }
}

pub(crate) fn spelling() -> impl Strategy<Value = Spelling> {
    proptest::sample::select(Spelling::ALL)
}

/// A trail with every field set, so that a test over fields misses none.
pub(crate) fn full() -> Trail {
    let at = |millis: i64| Some(Timestamp::from_millis(1_782_896_400_000 + millis));
    let own = |text: &str| Some(Text::from(text));
    Trail {
        attempt: 3,
        max: Some(8),
        process_after: at(60_000),
        origin: Origin { topic: own("orders"), partition: Some(3), offset: Some(42), timestamp: at(0) },
        first_attempt_at: at(1),
        first_failure_at: at(2),
        last_failure_at: at(50_000),
        error_type: own("java.net.SocketTimeoutException"),
        error_message: own("timed out"),
        class: Some(Class::Transient),
        reason: Some(Reason::DOWNSTREAM_TIMEOUT),
        status: Some(503),
        response: own("{\"error\":\"busy\"}"),
        delay_route: own("orders.retry.10s,orders.retry.1m"),
        delay_counter: 2,
        delay_reason: own("DOWNSTREAM_TIMEOUT"),
        wait_id: own("w-1"),
        entry_id: own("e-1"),
        idempotency_key: own("orders/3/42"),
        calls_used: 5,
        delay_total: Duration::from_secs(70),
        held: Duration::from_millis(1_500),
        handler_version: own("order-worker:2.17.4"),
        correlation_id: own("corr-214"),
        causation_id: own("cmd-883"),
        forward_to: own("orders.due"),
        mac_failures: 1,
        replay: Some(Replay {
            id: own("replay-20260701-001"),
            by: own("ops-user-123"),
            reason: own("SCHEMA_HANDLER_FIXED"),
            death_count: 6,
        }),
    }
}
