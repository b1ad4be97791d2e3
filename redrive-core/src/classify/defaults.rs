//! The rules that hold where nobody wrote others.
//!
//! They are ordinary rules: `redrive policy rules` prints them, and any of them is replaced by writing one that
//! matches earlier.

use super::{CodeRange, Fault, IoKind, OneOrMany, Rule, SqlPattern, When};
use crate::{Class, Reason};

/// How often a message may be in flight when its process dies before it counts as poison.
const CRASH_LIMIT: u32 = 2;

/// The default rules, in the order in which they are asked.
pub fn default_rules() -> Vec<Rule> {
    let mut rules = vec![Rule::new(
        "crashed",
        Class::Poison,
        Reason::HANDLER_CRASHED,
        When { crashes: Some(CRASH_LIMIT), ..When::default() },
    )];
    rules.push(endpoint());
    rules.extend(http());
    rules.extend(sqlstate());
    rules.extend(time_and_io());
    rules.extend(commands());
    rules.extend(outgoing_calls());
    rules.extend(named_errors());
    rules.extend(databases_by_message());
    // Last, since every command that failed has a code, and most say more than that.
    rules.push(exit_rule("exit-other", Class::Unknown, Reason::COMMAND_FAILED, i32::MIN, i32::MAX));
    rules
}

/// What a handler leaves that could not even be called, as a command that is not there: no message is to blame.
fn endpoint() -> Rule {
    let error = Some(["EndpointMisconfigured".to_owned()].into_iter().collect());
    Rule {
        fault: Some(Fault::Endpoint),
        ..Rule::new(
            "endpoint-misconfigured",
            Class::PermanentTechnical,
            Reason::ENDPOINT_MISCONFIGURED,
            When { error, ..When::default() },
        )
    }
}

fn http() -> Vec<Rule> {
    use Class::{Contention, PermanentTechnical, Transient};

    let rule = |name, class, reason, codes: &[(i32, i32)]| {
        let status = codes.iter().map(|(first, last)| CodeRange::new(*first, *last)).collect();
        Rule::new(name, class, reason, When { status: Some(status), ..When::default() })
    };
    let endpoint = |name, fault, codes: &[(i32, i32)]| Rule {
        fault: Some(fault),
        ..rule(name, PermanentTechnical, Reason::ENDPOINT_MISCONFIGURED, codes)
    };
    vec![
        rule("http-timeout", Transient, Reason::DOWNSTREAM_TIMEOUT, &[(408, 408), (504, 504)]),
        rule("http-too-early", Transient, Reason::TRY_AGAIN, &[(425, 425)]),
        rule("http-rate-limited", Transient, Reason::RATE_LIMITED, &[(429, 429)]),
        rule("http-unavailable", Transient, Reason::DOWNSTREAM_UNAVAILABLE, &[(502, 503)]),
        rule(
            "http-not-supported",
            PermanentTechnical,
            Reason::NOT_SUPPORTED,
            &[(415, 415), (501, 501), (505, 505)],
        ),
        rule("http-server-error", Transient, Reason::DOWNSTREAM_ERROR, &[(500, 599)]),
        rule("http-conflict", Contention, Reason::OPTIMISTIC_LOCK_CONFLICT, &[(409, 409)]),
        rule("http-locked", Contention, Reason::LOCKED, &[(423, 423)]),
        rule("http-bad-request", PermanentTechnical, Reason::INVALID_MESSAGE, &[(400, 400), (422, 422)]),
        rule("http-too-large", PermanentTechnical, Reason::PAYLOAD_TOO_LARGE, &[(413, 413)]),
        endpoint("http-credentials", Fault::Endpoint, &[(401, 401), (403, 403), (407, 407)]),
        endpoint("http-wrong-place", Fault::Endpoint, &[(300, 399), (405, 405)]),
        endpoint("http-not-there", Fault::Unproven, &[(404, 404), (410, 410)]),
        rule("http-refused", PermanentTechnical, Reason::REQUEST_REFUSED, &[(400, 499)]),
    ]
}

fn sqlstate() -> Vec<Rule> {
    use Class::{Contention, PermanentTechnical, Transient};

    let rule = |name, class, reason, patterns: &[&str]| {
        let patterns: OneOrMany<SqlPattern> = patterns.iter().filter_map(|text| text.parse().ok()).collect();
        Rule::new(name, class, reason, When { sqlstate: Some(patterns), ..When::default() })
    };
    vec![
        rule("sql-connection", Transient, Reason::CONNECTION_FAILED, &["08*"]),
        rule("sql-deadlock", Contention, Reason::DEADLOCK, &["40P01"]),
        rule("sql-serialization", Contention, Reason::OPTIMISTIC_LOCK_CONFLICT, &["40*"]),
        rule("sql-locked", Contention, Reason::LOCKED, &["55P03", "55006"]),
        rule("sql-resources", Transient, Reason::RESOURCE_EXHAUSTED, &["53*"]),
        rule("sql-cancelled", Transient, Reason::DOWNSTREAM_TIMEOUT, &["57014", "70100"]),
        rule("sql-shutdown", Transient, Reason::DOWNSTREAM_UNAVAILABLE, &["57P0?", "58*"]),
        // A replica that was the primary a moment ago, or a session that was ended for idling.
        rule("sql-read-only", Transient, Reason::DOWNSTREAM_UNAVAILABLE, &["25006", "25P03"]),
        rule("sql-internal", Transient, Reason::DOWNSTREAM_ERROR, &["XX000"]),
        rule("sql-data", PermanentTechnical, Reason::INVALID_MESSAGE, &["21*", "22*"]),
        rule("sql-constraint", PermanentTechnical, Reason::CONSTRAINT_VIOLATION, &["23*", "44*"]),
        Rule {
            fault: Some(Fault::Endpoint),
            ..rule("sql-credentials", PermanentTechnical, Reason::PERMISSION_DENIED, &["28*", "42501"])
        },
        Rule {
            fault: Some(Fault::Endpoint),
            ..rule("sql-wrong-database", PermanentTechnical, Reason::ENDPOINT_MISCONFIGURED, &["3D*"])
        },
        rule("sql-limits", PermanentTechnical, Reason::PAYLOAD_TOO_LARGE, &["54*"]),
        rule("sql-not-supported", PermanentTechnical, Reason::NOT_SUPPORTED, &["0A*"]),
        rule("sql-statement", PermanentTechnical, Reason::REQUEST_REFUSED, &["07*", "42*"]),
    ]
}

fn time_and_io() -> Vec<Rule> {
    use Class::{Contention, PermanentTechnical, Transient};
    use IoKind as Io;

    let rule = |name, class, reason, kinds: &[IoKind]| {
        Rule::new(name, class, reason, When { io: Some(kinds.iter().copied().collect()), ..When::default() })
    };
    vec![
        Rule::new(
            "timeout",
            Transient,
            Reason::DOWNSTREAM_TIMEOUT,
            When { timeout: Some(true), ..When::default() },
        ),
        Rule::new(
            "panic",
            Class::Unknown,
            Reason::HANDLER_PANICKED,
            When { panic: Some(true), ..When::default() },
        ),
        rule("io-timeout", Transient, Reason::DOWNSTREAM_TIMEOUT, &[Io::TimedOut]),
        rule(
            "io-connection",
            Transient,
            Reason::CONNECTION_FAILED,
            &[
                Io::ConnectionRefused,
                Io::ConnectionReset,
                Io::ConnectionAborted,
                Io::NotConnected,
                Io::BrokenPipe,
                Io::HostUnreachable,
                Io::NetworkUnreachable,
                Io::NetworkDown,
                Io::UnexpectedEof,
            ],
        ),
        rule("io-again", Transient, Reason::TRY_AGAIN, &[Io::WouldBlock, Io::Interrupted]),
        rule(
            "io-resources",
            Transient,
            Reason::RESOURCE_EXHAUSTED,
            &[Io::StorageFull, Io::QuotaExceeded, Io::OutOfMemory],
        ),
        rule("io-busy", Contention, Reason::LOCKED, &[Io::ResourceBusy, Io::Deadlock]),
        rule("io-data", PermanentTechnical, Reason::DESERIALIZATION_FAILED, &[Io::InvalidData]),
        rule("io-input", PermanentTechnical, Reason::INVALID_MESSAGE, &[Io::InvalidInput]),
        rule("io-too-large", PermanentTechnical, Reason::PAYLOAD_TOO_LARGE, &[Io::FileTooLarge]),
        rule("io-permission", PermanentTechnical, Reason::PERMISSION_DENIED, &[Io::PermissionDenied]),
        rule("io-not-supported", PermanentTechnical, Reason::NOT_SUPPORTED, &[Io::Unsupported]),
    ]
}

fn commands() -> Vec<Rule> {
    vec![
        exit_rule("exit-try-again", Class::Transient, Reason::TRY_AGAIN, 75, 75),
        exit_rule("exit-bad-data", Class::PermanentTechnical, Reason::INVALID_MESSAGE, 65, 65),
    ]
}

fn exit_rule(name: &str, class: Class, reason: Reason, first: i32, last: i32) -> Rule {
    let exit = Some([CodeRange::new(first, last)].into_iter().collect());
    Rule::new(name, class, reason, When { exit, ..When::default() })
}

/// What `redrive-retry` says of a call that it did not make. An open breaker speaks for an endpoint that is down; its
/// other limits are this side's own, and the endpoint knows nothing of them.
fn outgoing_calls() -> Vec<Rule> {
    let rule = |name, reason, fault, types: &[&str]| {
        let error = Some(types.iter().map(|name| (*name).to_owned()).collect());
        Rule { fault, ..Rule::new(name, Class::Transient, reason, When { error, ..When::default() }) }
    };
    let ours = Some(Fault::NotAsked);
    vec![
        rule("call-breaker", Reason::DOWNSTREAM_UNAVAILABLE, None, &["BreakerOpen"]),
        rule("call-rate", Reason::RATE_LIMITED, ours, &["RateSpent"]),
        rule(
            "call-limits",
            Reason::RESOURCE_EXHAUSTED,
            ours,
            &["BulkheadFull", "CallBudgetSpent", "TooLittleTime"],
        ),
    ]
}

/// Errors of other languages and of well-known libraries, as they come from commands and foreign dead letters.
fn named_errors() -> Vec<Rule> {
    use Class::{Contention, PermanentBusiness, PermanentTechnical, Transient};

    let rule = |name, class, reason, types: &[&str]| {
        let error = Some(types.iter().map(|name| (*name).to_owned()).collect());
        Rule::new(name, class, reason, When { error, ..When::default() })
    };
    vec![
        rule(
            "error-timeout",
            Transient,
            Reason::DOWNSTREAM_TIMEOUT,
            &[
                "SocketTimeoutException",
                "HttpTimeoutException",
                "TransactionTimedOutException",
                "TimeoutException",
                "TimeoutError",
                "ReadTimeout",
                "ConnectTimeout",
                "TimedOut",
            ],
        ),
        rule(
            "error-connection",
            Transient,
            Reason::CONNECTION_FAILED,
            &[
                "ConnectException",
                "UnknownHostException",
                "NoRouteToHostException",
                "ConnectionError",
                "ConnectionRefusedError",
                "ConnectionResetError",
            ],
        ),
        rule(
            "error-server",
            Transient,
            Reason::DOWNSTREAM_ERROR,
            &["SQLTransientException", "HttpServerErrorException"],
        ),
        rule(
            "error-lock",
            Contention,
            Reason::OPTIMISTIC_LOCK_CONFLICT,
            &[
                "OptimisticLockException",
                "ObjectOptimisticLockingFailureException",
                "OptimisticLockingFailureException",
            ],
        ),
        rule(
            "error-deserialization",
            PermanentTechnical,
            Reason::DESERIALIZATION_FAILED,
            &[
                "JsonProcessingException",
                "JsonParseException",
                "JsonMappingException",
                "DeserializationException",
                "SerializationException",
                "MessageConversionException",
                "JSONDecodeError",
                "serde_json::Error",
                "serde_json::error::Error",
            ],
        ),
        rule(
            "error-bug",
            PermanentTechnical,
            Reason::NOT_RETRYABLE,
            &[
                "NullPointerException",
                "ClassCastException",
                "NoSuchMethodException",
                "MethodArgumentResolutionException",
            ],
        ),
        rule(
            "error-invalid",
            PermanentTechnical,
            Reason::INVALID_MESSAGE,
            &["IllegalArgumentException", "ConstraintViolationException", "ValidationError"],
        ),
        rule(
            "error-transition",
            PermanentBusiness,
            Reason::ILLEGAL_BUSINESS_TRANSITION,
            &["IllegalBusinessTransitionException"],
        ),
    ]
}

/// A driver that has one error type for everything tells its errors apart by text only.
fn databases_by_message() -> Vec<Rule> {
    let pattern = "canceling statement due to (statement timeout|user request)|The connection attempt failed";
    pattern
        .parse()
        .map(|message| {
            let when = When {
                error: Some(["PSQLException".to_owned()].into_iter().collect()),
                message: Some(message),
                ..When::default()
            };
            Rule::new("postgres-unreachable", Class::Transient, Reason::DOWNSTREAM_TIMEOUT, when)
        })
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_has_a_name_of_its_own_and_a_condition() {
        let rules = default_rules();
        let names: BTreeSet<_> = rules.iter().map(|rule| rule.name.clone()).collect();
        assert_eq!(names.len(), rules.len());
        assert!(rules.iter().all(|rule| !rule.when.is_empty()));
    }

    #[test]
    fn every_pattern_written_here_is_one() {
        let patterns: usize = default_rules()
            .iter()
            .filter_map(|rule| rule.when.sqlstate.as_ref())
            .map(|p| p.iter().count())
            .sum();
        assert_eq!(patterns, 24);
        assert_eq!(databases_by_message().len(), 1);
    }

    #[test]
    fn the_rules_survive_json() {
        let rules = default_rules();
        let text = serde_json::to_string(&rules).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Rule>>(&text).unwrap(), rules);
    }
}
