//! What people see: output, errors and exit codes of the built command.

mod desk;

use std::path::Path;

use desk::{Desk, Ran};

/// The folder of the test files.
fn desk() -> Desk {
    Desk::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files"))
}

fn run(arguments: &[&str]) -> Ran {
    desk().run(arguments)
}

fn session(commands: &[&[&str]]) -> String {
    desk().session(commands)
}

const NOW: &str = "2026-07-03T20:00:00Z";

#[test]
fn explain_for_people() {
    insta::assert_snapshot!(session(&[
        &["policy", "explain", "1s, 10s, 1m x3 jitter 10%"],
        &["policy", "explain", "ladder"],
        &["policy", "explain", "time-based"],
        &["policy", "explain", "spring", "--class", "PERMANENT_TECHNICAL"],
        &["policy", "explain", "FixedDelayRetryPolicy(5000x3, 15000x5)"],
        &["policy", "explain", "policy.yaml"],
    ]));
}

#[test]
fn explain_a_flow_of_a_configuration() {
    insta::assert_snapshot!(session(&[
        &["policy", "explain", "redrive.yaml", "orders"],
        &["policy", "explain", "-c", "redrive.yaml", "orders", "--type", "Refund"],
        &["policy", "explain", "orders", "--class", "UNKNOWN"],
        &["policy", "explain", "office", "--now", NOW],
    ]));
}

#[test]
fn explain_as_json() {
    insta::assert_snapshot!(session(&[
        &["policy", "explain", "ladder", "--json"],
        &["policy", "explain", "orders", "--json"],
        &["policy", "explain", "1s", "--class", "POISON", "--json"],
    ]));
}

#[test]
fn an_unlimited_schedule_prints_its_first_hundred() {
    let ran = run(&["policy", "explain", "exponential(1s, factor 2, max 1m) forever", "--json"]);
    assert_eq!((ran.code, ran.text().lines().count()), (0, 100));
    assert!(ran.text().lines().all(|line| line.contains("\"attempt\"")));
}

#[test]
fn explain_that_cannot() {
    insta::assert_snapshot!(session(&[
        &["policy", "explain", "10s, 1 minute"],
        &["policy", "explain", "redrive.yaml"],
        &["policy", "explain", "redrive.yaml", "ordres"],
        &["policy", "explain", "ordres"],
        &["policy", "explain", "nowhere.yaml"],
        &["policy", "explain", "policy.yaml", "orders"],
        &["policy", "explain", "wrong.yaml", "orders"],
        &["policy", "explain", "wrong_policy.yaml"],
        &["policy", "explain", "ladder", "--class", "BROKEN"],
    ]));
}

#[test]
fn what_makes_a_policy_unusable_is_said_once_and_as_an_error() {
    let ran = run(&["policy", "explain", "calendar(mon 09:00-10:00 UTC, holidays de)"]);
    assert_eq!(ran.code, 2);
    assert_eq!(ran.stderr.matches("are not defined").count(), 1, "{}", ran.stderr);
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
}

#[test]
fn a_preset_and_a_schedule_hold_no_flows() {
    let ran = run(&["policy", "explain", "ladder", "orders"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("`ladder` is a preset, and there is no `orders` in it"), "{}", ran.stderr);
    let ran = run(&["policy", "explain", "10s", "orders"]);
    assert!(ran.stderr.contains("`10s` is a schedule, and there is no `orders` in it"), "{}", ran.stderr);
}

#[test]
fn a_time_out_of_range_is_called_that() {
    let ran = run(&["policy", "explain", "ladder", "--now", "9999-12-31T00:00:00Z"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("is out of range"), "{}", ran.stderr);
}

#[test]
fn rules_for_people() {
    insta::assert_snapshot!(session(&[&["policy", "rules"]]));
}

#[test]
fn rules_as_json_are_one_object_a_line() {
    let ran = run(&["policy", "rules", "--json"]);
    assert_eq!(ran.code, 0);
    for line in ran.text().lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["kind"] == "rule" || value["kind"] == "reason", "{line}");
    }
}

#[test]
fn the_documented_rules_are_the_ones_there_are() {
    let documented = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/rules.md");
    let printed = run(&["policy", "rules", "--markdown"]);
    let documented = std::fs::read_to_string(documented).unwrap();
    assert!(documented == printed.text(), "run `redrive policy rules --markdown > docs/rules.md`");
}

#[test]
fn try_for_people() {
    let fixed = ["--now", NOW, "--seed", "1"];
    let with = |arguments: &[&'static str]| [&["policy", "try"], arguments, &fixed].concat();
    let commands = [
        with(&["--policy", "ladder", "--status", "503"]),
        with(&["--policy", "ladder", "--status", "503", "--attempt", "2"]),
        with(&["--policy", "ladder", "--status", "503", "--attempt", "6", "--delayed", "4"]),
        with(&["--policy", "ladder", "--status", "429", "--retry-after", "30"]),
        with(&["--policy", "ladder", "--status", "401", "--unproven"]),
        with(&["--policy", "10s x3", "--error", "java.net.SocketTimeoutException", "--message", "timed out"]),
        with(&["--policy", "10s x3", "--sqlstate", "40P01"]),
        with(&["--policy", "10s x3", "--io", "connection_refused"]),
        with(&["--policy", "10s x3", "--exit-code", "65"]),
        with(&["--policy", "10s x3", "--timeout"]),
        with(&["--policy", "10s x3", "--verdict", "follow=order-7"]),
        with(&["--policy", "spring", "--verdict", "reject"]),
        with(&["orders", "--status", "409", "--body", "order was already shipped"]),
        with(&[
            "orders",
            "--status",
            "503",
            "--attempt",
            "9",
            "--delayed",
            "6",
            "--first-failure-ago",
            "59m",
        ]),
        with(&["orders", "-c", "redrive.yaml", "--type", "Refund", "--status", "503", "--attempt", "3"]),
    ];
    let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
    insta::assert_snapshot!(session(&commands));
}

#[test]
fn try_as_json() {
    insta::assert_snapshot!(session(&[
        &[
            "policy",
            "try",
            "--policy",
            "ladder",
            "--status",
            "503",
            "--attempt",
            "2",
            "--json",
            "--now",
            NOW,
            "--seed",
            "7"
        ],
        &[
            "policy",
            "try",
            "--policy",
            "ladder",
            "--verdict",
            "park",
            "--reason",
            "OWN_REASON",
            "--json",
            "--now",
            NOW
        ],
    ]));
}

#[test]
fn try_a_success() {
    let try_it =
        |arguments: &[&'static str]| run(&[&["policy", "try", "--policy", "ladder"], arguments].concat());
    let acked = try_it(&["--status", "200"]);
    assert_eq!(
        (acked.code, acked.text()),
        (0, "policy    preset ladder\ndecision  ack\nbecause   success: status 200\n")
    );
    let acked = try_it(&["--exit-code", "0", "--json"]);
    assert_eq!(
        acked.text(),
        "{\"action\":\"ack\",\"because\":{\"by\":{\"kind\":\"success\"}},\"text\":\"success: exit code 0\"}\n"
    );
    // A verdict beats the status, and what went wrong after the answer is a failure.
    assert!(try_it(&["--status", "204", "--verdict", "park"]).text().contains("decision  park"));
    assert!(try_it(&["--status", "200", "--timeout"]).text().contains("class     TRANSIENT"));
}

#[test]
fn try_that_cannot() {
    insta::assert_snapshot!(session(&[
        &["policy", "try", "--policy", "ladder", "--verdict", "maybe"],
        &["policy", "try", "--policy", "ladder", "--header", "novalue"],
        &["policy", "try", "--policy", "ladder", "--retry-after", "1 hour"],
        &["policy", "try", "nothing", "--status", "503"],
        &["policy", "try", "orders", "--policy", "ladder"],
    ]));
}

#[test]
fn config_check() {
    insta::assert_snapshot!(session(&[
        &["config", "check", "redrive.yaml"],
        &["config", "check", "wrong.yaml"],
        &["config", "check", "wrong.yaml", "--json"],
        &["config", "check", "nowhere.yaml"],
        &["config", "check"],
    ]));
}

#[test]
fn a_file_with_a_thousand_errors_on_one_line_is_told_briefly() {
    let keys: Vec<_> = (0..1_000).map(|i| format!("k{i}: 1")).collect();
    let path = std::env::temp_dir().join(format!("redrive-one-line-{}.yaml", std::process::id()));
    std::fs::write(&path, format!("{{ version: 1, {} }}", keys.join(", "))).unwrap();
    let ran = run(&["config", "check", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.len() < 100_000, "{}", ran.stderr.len());
    assert!(ran.stderr.contains("… and 400 more"), "{}", ran.stderr);
    assert!(ran.stderr.trim_end().ends_with("500 errors"), "{}", ran.stderr);
}

#[test]
fn config_check_shows_no_secret_and_nothing_that_turns_a_line_around() {
    let file = "version: 1
data: postgres://u:hunter2@db:x/redrive
brokers:
  main: { kafka: { bootstrap: 'k:9092', options: { sasl.password: hunter2, a: [1] } } }
  rabbit: { rabbitmq: { url: 'amqps://u:hunter2@rabbit:y' } }
  typo: { rabbitmq: { password: hunter2, url: 'amqp://h' } }
flows:
  slash: { from: 'amqp://u:hunt/er2@h?queue=q', to: 'http://h' }
  option: { from: 'kafka://h:9092/t?sasl.password=hunter2%zz', to: 'http://h' }
  outside: { from: 'amqp://u:${PASSWORD}@h?queue=q', to: 'http://h' }
  \u{202e}: 1
";
    let path = std::env::temp_dir().join(format!("redrive-secrets-{}.yaml", std::process::id()));
    std::fs::write(&path, file).unwrap();
    for json in [&[][..], &["--json"]] {
        let arguments = [&["config", "check", path.to_str().unwrap()], json].concat();
        let ran = desk().env("PASSWORD", "hunt/er2").run(&arguments);
        let told = format!("{}{}", ran.text(), ran.stderr);
        assert_eq!(ran.code, 2);
        for secret in ["hunt", "er2", "zz", "\u{202e}"] {
            assert!(!told.contains(secret), "{secret:?}: {told}");
        }
        assert!(json.is_empty() == told.contains("postgres://u:*******@db:x/redrive"), "{told}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn config_import() {
    insta::assert_snapshot!(session(&[
        &["config", "import", "../../../redrive/tests/files/import/retry_settings.json"],
        &["config", "import", "redrive.yaml"],
    ]));
}

#[test]
fn config_schema_is_a_schema_of_the_file() {
    let ran = run(&["config", "schema"]);
    let schema: serde_json::Value = serde_json::from_str(ran.text()).unwrap();
    assert_eq!(schema["title"], "redrive.yaml");
    for key in ["version", "data", "listen", "brokers", "policies", "rules", "flows", "holidays"] {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
}

#[test]
fn help_teaches() {
    insta::assert_snapshot!(session(&[
        &["--help"],
        &["run", "--help"],
        &["policy", "explain", "--help"],
        &["config", "--help"],
        &[]
    ]));
}

#[test]
fn every_help_has_an_example_that_can_be_typed() {
    let mut ways: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = 0;
    while let Some(way) = ways.pop() {
        let words: Vec<&str> = way.iter().map(String::as_str).chain(["--help"]).collect();
        let ran = run(&words);
        let help = ran.text();
        let examples = help.split("Example").nth(1).unwrap_or_else(|| panic!("{words:?} has no example"));
        seen += 1;
        // What stands there is known to the command: its subcommands and its options.
        for line in examples.lines().filter_map(|line| line.trim_start().strip_prefix("redrive ")) {
            let line = line.split(['|', '>', '&']).next().unwrap();
            let mut typed: Vec<&str> = line.split_whitespace().take_while(|word| is_name(word)).collect();
            let help = loop {
                let ran = run(&[&typed[..], &["--help"]].concat());
                if ran.code == 0 || typed.pop().is_none() {
                    break ran.text().to_owned();
                }
            };
            for option in line.split_whitespace().filter(|word| word.starts_with("--")) {
                assert!(help.contains(option), "{option} of `redrive {line}`");
            }
        }
        let commands = help.split("Commands:\n").nth(1).unwrap_or_default();
        let commands = commands.lines().take_while(|line| line.starts_with("  "));
        let names = commands
            .filter(|line| !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next());
        for name in names.filter(|name| *name != "help") {
            ways.push([&way[..], &[name.to_owned()]].concat());
        }
    }
    assert!(seen > 30, "{seen}");
}

fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-')
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{shell}");
        assert!(ran.text().contains("redrive"), "{shell}");
    }
}

#[test]
fn a_signing_key_is_made() {
    let made = |arguments: &[&str]| {
        let ran = run(arguments);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.text().trim_end().parse::<redrive::core::headers::Key>().expect("a key")
    };
    let named = ["config", "key", "--id", "orders-1"];
    let (one, other) = (made(&named), made(&named));
    assert_eq!((one.id(), other.id()), ("orders-1", "orders-1"));
    assert_ne!(one.to_secret_text(), other.to_secret_text(), "each is new");
    assert_ne!(made(&["config", "key"]).id(), made(&["config", "key"]).id());
    let wrong = run(&["config", "key", "--id", "key one"]);
    assert_eq!((wrong.code, wrong.text()), (2, ""));
    assert!(wrong.stderr.contains("RD-CONFIG-25"), "{}", wrong.stderr);
}
