//! Files that are wrong, each with everything that is said about it.

use std::path::Path;

use redrive::config::{self, Severity};

fn env(name: &str) -> Option<String> {
    match name {
        "HOST" => Some("127.0.0.1".to_owned()),
        "QUEUE" => Some("orders".to_owned()),
        "WORKERS" => Some("eight".to_owned()),
        _ => None,
    }
}

#[test]
fn every_wrong_file_is_told_everything_that_is_wrong() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/bad");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 25);
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let report = config::check(&std::fs::read(&file).unwrap(), &env);
        // The one file here that can be used as it is.
        let usable = name == "questionable";
        assert_eq!(report.value.is_some(), usable, "{name}");
        assert_eq!(report.count(Severity::Error) == 0, usable, "{name}");
        let told: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(name, told.join("\n"));
    }
}

#[test]
fn a_huge_file_is_refused() {
    let report = config::check(&vec![b'a'; 10 * 1024 * 1024], &|_| None);
    assert_eq!(
        report.findings[0].to_string(),
        "1:1: error RD-CONFIG-01: the file is larger than 1048576 bytes \
         (write the file as UTF-8 text of at most 1 MiB)"
    );
}

#[test]
fn a_file_names_only_so_many_calendars() {
    let policies: Vec<_> = (0..9)
        .map(|n| {
            let calendars = (0..8).map(|m| format!("calendar(mon 0{n}:0{m}-10:00 UTC)"));
            format!("  p{n}: {{ retry: '{}' }}\n", calendars.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let file = format!("version: 1\npolicies:\n{}", policies.concat());
    let report = config::check(file.as_bytes(), &|_| None);
    assert_eq!(
        report.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["11:16: error RD-CONFIG-07: more than 64 calendars in one file \
          (write a calendar once, in a policy that flows share)"]
    );
}

/// What is said about a file, notes left aside.
fn told(file: &str) -> Vec<String> {
    let report = config::check(file.as_bytes(), &|_| None);
    let found = report.findings.iter().filter(|finding| finding.severity > Severity::Note);
    found.map(|finding| finding.message.clone()).collect()
}

#[test]
fn one_slip_in_a_part_hides_no_other_and_makes_none_up() {
    let broker = |kafka: &str| told(&format!("version: 1\nbrokers:\n  k: {{ kafka: {kafka} }}\n"));
    assert_eq!(broker("{ bootstrap: 'k:9092', options: { a: [1] } }"), ["expected text, found a list"]);
    assert_eq!(broker("{ options: {} }"), ["the key `bootstrap` is missing"]);
    assert_eq!(
        broker("{ bootstrap: 'k:x', optons: {} }"),
        ["expected `:` and a port from 1 to 65535 at character 2, found `:x`", "unknown key `optons`"]
    );
    let flow = |rest: &str| {
        told(&format!("version: 1\nflows:\n  f:\n    from: queue:f\n    to: http://h\n    {rest}\n"))
    };
    assert_eq!(
        flow("breaker: { failure_share: 2, windw: 3s }"),
        ["failure_share cannot be 2", "unknown key `windw`"]
    );
    // The default of what was left out is nobody's mistake.
    assert_eq!(flow("breaker: { window: 10, min_calls: few }"), ["expected a whole number, found text"]);
    assert_eq!(flow("breaker: { window: 10 }"), ["min_calls cannot be 20"]);
    assert_eq!(
        flow("budgets: { attempts: 0, ag: 1h }"),
        ["0 allows not even the first call", "unknown key `ag`"]
    );
    assert_eq!(
        flow("retry: 1s forever\n    budgets: { age: soon }"),
        ["expected a duration such as 10s at character 1, found `soon`"]
    );
    assert_eq!(flow("retry: {}"), ["an empty map retries nothing"]);
    assert_eq!(flow("retry: { TRANSIENT: [] }"), ["expected text, found a list"]);
    assert_eq!(flow("retry: 1s forever"), ["nothing ends this schedule"]);
    assert_eq!(flow("policy: { retry_after: { min: 20m, max: [1] } }"), ["expected text, found a list"]);
    let handler = told("version: 1\nflows:\n  f: { from: 'queue:f', to: { http: [1] } }\n");
    assert_eq!(handler, ["expected text, found a list"]);
}

#[test]
fn a_number_that_is_no_whole_one_is_shown() {
    let flow = |concurrency: &str| {
        let flow = format!("from: 'queue:f', to: 'http://h', concurrency: {concurrency}");
        told(&format!("version: 1\nflows: {{ f: {{ {flow} }} }}\n"))
    };
    assert_eq!(flow("1e3"), ["expected a whole number, found `1e3`"]);
    assert_eq!(flow("1.5"), ["expected a whole number, found `1.5`"]);
    let long = "9".repeat(44);
    assert_eq!(flow(&long), [format!("{long} is out of range")]);
    assert_eq!(flow(&format!("-{long}")), [format!("-{long} is out of range")]);
}

#[test]
fn variables_fill_values_and_never_change_the_structure() {
    let file = b"version: 1 # ${COMMENT}\nflows:\n  orders:\n    from: queue:${NAME}\n    to: http://127.0.0.1:3000/$${x}\n    concurrency: ${N}\n    owner: ${EVIL}\n";
    let report = config::check(file, &|name| match name {
        "NAME" => Some("orders".to_owned()),
        "N" => Some("8".to_owned()),
        "EVIL" => Some("a\n    delay: ledger".to_owned()),
        _ => None,
    });
    let config = report.value.unwrap();
    let flow = &config.flows["orders"];
    assert_eq!((&*flow.from, flow.concurrency, flow.delay), ("queue:orders", Some(8), None));
    assert_eq!(flow.owner.as_deref(), Some("a\n    delay: ledger"));
    assert_eq!(flow.to, config::Handler::Address("http://127.0.0.1:3000/${x}".into()));
}

#[test]
fn a_configuration_shows_no_password() {
    let file = b"
version: 1
data: postgres://app:hunter2@db/redrive
brokers:
  main: { kafka: { bootstrap: 'k:9092', options: { sasl.password: hunter2 } } }
  rabbit: { rabbitmq: { url: 'amqp://app:hunter2@rabbit' } }
flows:
  orders: { from: 'amqp://app:hunter2@host:5672?queue=q', to: 'http://app:hunter2@host' }
";
    let report = config::check(file, &|_| None);
    assert!(!format!("{:?}", report.value.unwrap()).contains("hunter2"));
    assert!(report.findings.iter().all(|finding| !finding.to_string().contains("hunter2")));
}
