//! Which of several policies wins, and in which order rules are asked.

use redrive::config::{self, Config, Severity};
use redrive::core::SplitMix64;
use redrive::core::classify::Subject;
use redrive::{Class, Decision, Failure, Handling, History, Policy, Timestamp, decide};

const FILE: &str = r"
version: 1
rules:
  - { name: of the file, when: { status: [418, 503] }, class: CONTENTION }
policies:
  default:
    local: 1ms
    retry: { default: 1s, CONTENTION: 2s }
    budgets: { attempts: 3, age: 1h }
    exits: { default: park, POISON: discard }
  named:
    retry: { UNKNOWN: 3s }
    budgets: { attempts: 4 }
    rules:
      - { name: of the policy, when: { status: 418 }, class: PERMANENT_TECHNICAL }
  ready: { preset: spring }
flows:
  plain: { from: queue:a, to: http://127.0.0.1:3000 }
  layered:
    from: queue:b
    to: http://127.0.0.1:3000
    policy: named
    blocking: 4s
    budgets: { calls: 40 }
    types:
      Refund: { retry: 5s, budgets: { attempts: 5 } }
      Audit: ready
  inline:
    from: queue:c
    to: http://127.0.0.1:3000
    policy: { retry: 6s }
";

fn config() -> Config {
    let report = config::check(FILE.as_bytes(), &|_| None);
    assert_eq!(report.count(Severity::Error), 0, "{:#?}", report.findings);
    report.value.unwrap()
}

fn policy(flow: &str, message_type: Option<&str>) -> Policy {
    config().flow_policy(flow, message_type).unwrap().build().unwrap()
}

fn schedule(policy: &Policy, layer: Handling, class: Class) -> String {
    policy.schedule(layer, class).map_or_else(|| "-".to_owned(), ToString::to_string)
}

#[test]
fn a_flow_without_a_policy_has_the_default_one() {
    let plain = policy("plain", None);
    assert_eq!(schedule(&plain, Handling::Delayed, Class::Transient), "1s");
    assert_eq!(schedule(&plain, Handling::Delayed, Class::Contention), "2s");
    assert_eq!(schedule(&plain, Handling::InPlace, Class::Transient), "1ms");
    assert_eq!(plain.attempts(), Some(3));
}

#[test]
fn a_named_policy_lies_over_the_default_and_the_flow_over_both() {
    let layered = policy("layered", None);
    assert_eq!(schedule(&layered, Handling::Delayed, Class::Transient), "1s");
    assert_eq!(schedule(&layered, Handling::Delayed, Class::Unknown), "3s");
    assert_eq!(schedule(&layered, Handling::Blocking, Class::Transient), "4s");
    let budgets = layered.budgets();
    assert_eq!((budgets.attempts, budgets.calls, budgets.age.is_some()), (Some(4), Some(40), true));
}

#[test]
fn a_message_type_lies_over_the_flow() {
    let refund = policy("layered", Some("Refund"));
    assert_eq!(schedule(&refund, Handling::Delayed, Class::Unknown), "5s");
    assert_eq!(schedule(&refund, Handling::Blocking, Class::Transient), "4s");
    assert_eq!(refund.attempts(), Some(5));
    let audit = policy("layered", Some("Audit"));
    assert_eq!(schedule(&audit, Handling::Delayed, Class::Transient), "-");
    assert_eq!(audit.attempts(), Some(4));
    assert_eq!(policy("layered", Some("Other")).attempts(), Some(4));
}

#[test]
fn an_inline_policy_lies_over_the_default() {
    let inline = policy("inline", None);
    assert_eq!(schedule(&inline, Handling::Delayed, Class::Contention), "6s");
    assert_eq!(schedule(&inline, Handling::InPlace, Class::Transient), "1ms");
}

fn decision(policy: &Policy, status: u16) -> Decision {
    let failure = Failure::default().with_status(status);
    let mut rng = SplitMix64::new(1);
    decide(policy, &Subject::default(), &History::first(), &failure, Timestamp::default(), &mut rng)
}

#[test]
fn rules_of_the_policy_come_before_those_of_the_file_and_these_before_the_default_ones() {
    let layered = policy("layered", None);
    assert_eq!(decision(&layered, 418).class, Class::PermanentTechnical);
    assert_eq!(decision(&layered, 503).class, Class::Contention);
    assert_eq!(decision(&layered, 502).class, Class::Transient);
    assert_eq!(decision(&policy("plain", None), 418).class, Class::Contention);
}

#[test]
fn holidays_reach_the_calendars_of_every_layer() {
    let file = |dates: &str| {
        format!(
            "version: 1\nholidays: {{ closed: [{dates}] }}\nflows:\n  a:\n    from: queue:a\n    to: http://h\n    \
             retry: \"calendar(fri 09:00-10:00 UTC, holidays closed)\"\n"
        )
    };
    let wait = |dates: &str| {
        let report = config::check(file(dates).as_bytes(), &|_| None);
        let policy = report.value.unwrap().flow_policy("a", None).unwrap().build().unwrap();
        let thursday = "2026-07-02T09:00:00Z".parse().unwrap();
        let schedule = policy.schedule(Handling::Delayed, Class::Transient).unwrap().clone();
        schedule.nominal(0, thursday).unwrap().as_secs() / 86_400
    };
    assert_eq!((wait(""), wait("2026-07-03"), wait("2026-07-03, 2026-07-10")), (1, 8, 15));
}

#[test]
fn holidays_that_leave_no_opening_are_wrong_where_they_stand() {
    let days = (2020..2035)
        .flat_map(|year| (1..=12).flat_map(move |month| (1..=31).map(move |day| (year, month, day))));
    let dates: Vec<_> = days
        .map(|(year, month, day)| format!("{year}-{month:02}-{day:02}"))
        .filter(|date| date.parse::<redrive::core::Date>().is_ok())
        .collect();
    let file = format!(
        "version: 1\nholidays:\n  never: [{}]\nflows:\n  a:\n    from: queue:a\n    to: http://h\n    \
         retry: \"calendar(fri 09:00-10:00 UTC, holidays never)\"\n",
        dates.join(", ")
    );
    let report = config::check(file.as_bytes(), &|_| None);
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(
        found[0].contains("3:10: error RD-CONFIG-19: the holidays `never` leave a calendar"),
        "{found:#?}"
    );
}
