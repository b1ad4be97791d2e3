//! What people see of a data file: the built command on a real file, with and without a running instance.

mod desk;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive::engine::port::EntryState;
use redrive::{Context, Flow, Instance, Message};

use desk::{BoxError, Desk, masked, orders, runtime, until};

/// An instance whose flow `mails` fails and waits an hour.
async fn mails(data: &Path) -> Instance {
    let flow = Flow::from("queue:mails")
        .data(data)
        .retry("1h x3")
        .handle(|_: Message, _: Context| async { Err::<(), BoxError>("no mail server".into()) });
    flow.start().await.unwrap()
}

/// Three parked orders, one dead, one waiting mail; nothing runs.
fn some_failures(desk: &Desk) {
    for (queue, id, body) in [
        ("queue:orders", "order-1", "1001"),
        ("queue:orders", "order-2", "1002"),
        ("queue:orders", "order-3", "1003"),
        ("queue:orders", "order-4", "stock"),
        ("queue:mails", "mail-1", "hello"),
    ] {
        let header = ["--key", "customer-7", "--header", "Type=Placed"];
        let mut words = vec!["publish", queue, body, "--id", id];
        words.extend(header);
        let ran = desk.run(&words);
        assert_eq!((ran.code, ran.text()), (0, format!("{id}\n").as_str()), "{}", ran.stderr);
    }
    runtime().block_on(async {
        let instance = orders(&desk.data(), Arc::new(AtomicBool::new(true))).await;
        until(&instance, "orders", EntryState::Parked, 3).await;
        until(&instance, "orders", EntryState::Dead, 1).await;
        instance.stop(std::future::pending()).await;
        let instance = mails(&desk.data()).await;
        until(&instance, "mails", EntryState::Waiting, 1).await;
        instance.stop(std::future::pending()).await;
    });
}

#[test]
fn publish_prints_ids_and_makes_the_file() {
    let desk = Desk::new();
    insta::assert_snapshot!(desk.session(&[
        &["queues"],
        &["publish", "queue:orders", "hello", "--id", "order-1"],
        &["publish", "queue:orders", "hello", "--id", "order-2", "--delay", "5m", "--json"],
        &["publish", "queue:orders", "hello", "--id", "order-1"],
        &["queues"],
        &["stats"],
        &["messages", "ls"],
        &["groups"],
        &["replay", "ls"],
        &["audit", "ls"],
        &["ledger", "check"],
    ]));
}

#[test]
fn lines_are_published_in_batches() {
    let desk = Desk::new();
    let mut lines: Vec<u8> =
        (0..2_500).flat_map(|number| format!("order {number}\n\n").into_bytes()).collect();
    lines.extend(b"\xff\xfe\r\n");
    let ran = desk.run_with(&["publish", "queue:orders", "--lines", "-"], &lines);
    assert_eq!((ran.code, ran.text().lines().count()), (0, 2_501), "{}", ran.stderr);
    let queues = desk.run(&["queues", "--json"]).json();
    assert_eq!((&queues[0]["name"], &queues[0]["ready"]), (&"orders".into(), &2_501.into()));
}

#[test]
fn json_lines_carry_everything_and_mistakes_are_named_by_their_line() {
    let desk = Desk::new();
    let lines = r#"{"body": "one", "id": "order-1", "key": "a", "headers": {"Type": "Placed"}}

{"body_base64": "//4=", "id": "order-2", "delay": "1h"}
{"body": null, "id": "order-3"}
"#;
    let ran = desk.run_with(&["publish", "queue:orders", "--jsonl", "-"], lines.as_bytes());
    assert_eq!((ran.code, ran.text()), (0, "order-1\norder-2\norder-3\n"), "{}", ran.stderr);
    std::fs::write(desk.path("wrong.jsonl"), "{\"body\": \"a\"}\n\n{\"boddy\": \"b\"}\n").unwrap();
    std::fs::write(
        desk.path("partly.jsonl"),
        "\n{\"body\":\"a\",\"id\":\"order-4\"}\n{\"body\":\"b\",\"id\":\"order-1\"}\n",
    )
    .unwrap();
    insta::assert_snapshot!(desk.session(&[
        &["publish", "queue:orders", "--jsonl", "wrong.jsonl"],
        &["publish", "queue:orders", "--jsonl", "partly.jsonl"],
        &["queues"],
    ]));
}

#[test]
fn what_failed_is_listed_grouped_and_counted() {
    let desk = Desk::new();
    some_failures(&desk);
    insta::assert_snapshot!(desk.session(&[
        &["messages", "ls"],
        &["messages", "ls", "--flow", "orders", "--state", "dead,waiting"],
        &["messages", "ls", "--reason", "NO_ADDRESS", "--limit", "2"],
        &["messages", "ls", "--text", "order 1002"],
        &["messages", "ls", "--key", "customer-8"],
        &["groups"],
        &["stats"],
        &["queues"],
        &["ledger", "check"],
    ]));
    let entries = desk.run(&["messages", "ls", "--state", "parked", "--since", "1h", "--json"]).json();
    assert_eq!(entries.len(), 3);
    assert!(entries.iter().all(|entry| entry["reason"] == "NO_ADDRESS" && entry["due_at"].is_null()));
    assert!(entries.iter().all(|entry| entry["last_failed_at"].as_str().unwrap().ends_with('Z')));
    let groups = desk.run(&["groups", "--json"]).json();
    assert_eq!((groups.len(), &groups[0]["counts"]["parked"]), (3, &3.into()));
    let stats = desk.run(&["stats", "--json"]).json();
    assert_eq!((stats.len(), stats[0]["states"].as_array().unwrap().len()), (1, 3));
}

#[test]
fn one_message_with_its_history_and_its_bytes() {
    let desk = Desk::new();
    some_failures(&desk);
    let ran = desk.run(&["messages", "show", "order-2"]);
    let (described, history) = ran.text().split_once("\nhistory\n").unwrap();
    assert!(history.contains("attempt 1") && history.contains("order 1002 has no address"), "{history}");
    insta::assert_snapshot!(masked(described));
    let shown = &desk.run(&["messages", "show", "order-2", "--json"]).json()[0];
    assert_eq!(shown["history"][0]["what"], "attempt");
    let by_entry = desk.run(&["messages", "show", shown["id"].as_str().unwrap(), "--json"]).json();
    assert_eq!(by_entry[0]["message"]["id"], "order-2");
    let bytes = desk.run(&["messages", "show", "order-2", "--payload"]);
    assert_eq!((bytes.code, bytes.stdout.as_slice()), (0, &b"1002"[..]));
}

#[test]
fn deeds_are_done_refused_and_audited() {
    let desk = Desk::new();
    some_failures(&desk);
    std::fs::write(desk.path("edited"), "1002, Main Street 1").unwrap();
    insta::assert_snapshot!(desk.session(&[
        &["discard", "order-1", "--reason", "test order"],
        &["discard", "order-1", "--reason", "test order"],
        &["discard", "order-9", "--reason", "test order"],
        &["restore", "order-1", "order-9", "--reason", "was none"],
        &["cancel", "--flow", "mails", "--state", "waiting", "--reason", "server is gone"],
        &["retry-now", "mail-1", "--reason", "server is back"],
        &["park", "mail-1", "--reason", "gone again"],
        &["park", "--flow", "mails", "--reason", "once more"],
        &["archive", "--failure-reason", "NO_ADDRESS", "--text", "order 1003", "--reason", "known"],
        &["archive", "--flow", "nobodys", "--reason", "known"],
        &["reroute", "order-4", "queue:by-hand", "--reason", "needs a person"],
        &["copy", "order-2", "--edit", "edited", "--id", "order-2b", "--reason", "address added"],
        &["copy", "order-2", "--edit", "nowhere", "--reason", "address added"],
        &["queues"],
        &["stats"],
        &["audit", "ls"],
        &["audit", "ls", "--limit", "1"],
        &["ledger", "check"],
    ]));
    let edit = ["copy", "order-2", "--edit", "edited", "--id", "order-2c", "--reason", "again"];
    let more = ["--key", "customer-8", "--header", "type=Mended", "--content-type", "text/plain"];
    assert_eq!(desk.run(&[&edit[..], &more].concat()).code, 0);
    runtime().block_on(async {
        let instance = orders(&desk.data(), Arc::new(AtomicBool::new(true))).await;
        until(&instance, "orders", EntryState::Parked, 4).await;
        instance.stop(std::future::pending()).await;
    });
    let message = |id: &str| desk.run(&["messages", "show", id, "--json"]).json()[0]["message"].clone();
    let (inherited, own) = (message("order-2b"), message("order-2c"));
    assert_eq!((&inherited["key"], &inherited["headers"]["Type"]), (&"customer-7".into(), &"Placed".into()));
    assert_eq!(
        (&own["key"], &own["headers"]["Type"], &own["content_type"]),
        (&"customer-8".into(), &"Mended".into(), &"text/plain".into())
    );
    let report = desk.run(&["discard", "order-2", "order-9", "--reason", "test", "--json"]);
    let object = &report.json()[0];
    assert_eq!((report.code, &object["done"], &object["missing"][0]), (3, &1.into(), &"order-9".into()));
    assert_eq!(desk.run(&["audit", "ls", "--json"]).json()[0]["what"], "discard");
}

#[test]
fn a_replay_without_an_instance_makes_messages_due() {
    let desk = Desk::new();
    some_failures(&desk);
    let parked = ["--flow", "orders", "--state", "parked"];
    let replay = |words: &[&str]| {
        let mut all = vec!["replay"];
        all.extend(words);
        all.extend(parked);
        desk.session(&[&all])
    };
    insta::assert_snapshot!(
        [
            replay(&["plan"]),
            replay(&["plan", "--max", "2", "--rate", "50/s"]),
            replay(&["run"]),
            replay(&["run", "--detach", "--max", "2", "--reason", "address book is back"]),
            desk.session(&[&["replay", "ls"], &["replay", "run", "order-9", "--reason", "none"]]),
        ]
        .concat()
    );
    let id = desk.run(&["replay", "ls", "--json"]).json().last().unwrap()["id"].as_str().unwrap().to_owned();
    insta::assert_snapshot!(desk.session(&[
        &["replay", "show", &id],
        &["replay", "pause", &id, "--reason", "wait a moment"],
        &["replay", "pause", &id],
        &["replay", "resume", &id],
        &["replay", "cancel", &id, "--reason", "enough"],
        &["replay", "show", &id, "--limit", "1"],
        &["replay", "run", "order-4", "--reason", "in stock again"],
        &["messages", "ls", "--state", "replaying"],
        &["queues"],
    ]));
}

#[test]
fn commands_reach_the_running_instance() {
    let desk = Desk::new();
    let broken = Arc::new(AtomicBool::new(true));
    let runtime = runtime();
    let instance = runtime.block_on(orders(&desk.data(), broken.clone()));
    let lines = "1001\n".repeat(50);
    let ran = desk.run_with(&["publish", "queue:orders", "--lines", "-"], lines.as_bytes());
    assert_eq!((ran.code, ran.text().lines().count()), (0, 50));
    assert!(ran.stderr.starts_with("on the running instance\n"), "{}", ran.stderr);
    runtime.block_on(until(&instance, "orders", EntryState::Parked, 50));
    let again = desk.run(&["replay", "run", "--flow", "orders", "--reason", "too early", "--json"]);
    assert_eq!((again.code, &again.json()[0]["failed"]), (1, &50.into()), "{}", again.stderr);
    broken.store(false, Ordering::SeqCst);
    let done = desk.run(&["replay", "run", "--flow", "orders", "--reason", "in stock again", "--json"]);
    let replay = &done.json()[0];
    assert_eq!(
        (done.code, &replay["state"], &replay["recovered"], &replay["by"]),
        (0, &"done".into(), &50.into(), &"tester".into()),
        "{}",
        done.stderr
    );
    let stats = desk.run(&["stats"]);
    assert!(stats.text().contains("a Rust function"), "{}", stats.text());
    runtime.block_on(instance.stop(std::future::pending()));
}

#[test]
fn mistakes_say_what_to_do() {
    let desk = Desk::new();
    some_failures(&desk);
    std::fs::write(desk.path("text.db"), "no database, but long enough to look at its beginning").unwrap();
    insta::assert_snapshot!(desk.session(&[
        &["messages", "ls", "--data", "nowhere.db"],
        &["messages", "ls", "--data", "text.db"],
        &["messages", "ls", "--data", "postgres://redrive@db/redrive"],
        &["messages", "ls", "--state", "ded"],
        &["messages", "ls", "--since", "yesterday"],
        &["messages", "show", "order-9"],
        &["discard", "--reason", "all of it"],
        &["discard", "order-1", "--flow", "orders", "--reason", "both"],
        &["reroute", "order-1", "order-2", "--reason", "forgot the target"],
        &["replay", "show", "order-1"],
        &["publish", "orders", "hello"],
        &["publish", "queue:orders"],
        &["publish", "queue:orders", "--file", "nowhere.json"],
    ]));
    assert!(!desk.path("nowhere.db").exists(), "looking at a file does not make it");
}

#[test]
fn help_teaches() {
    insta::assert_snapshot!(Desk::new().session(&[
        &["publish", "--help"],
        &["messages", "--help"],
        &["messages", "ls", "--help"],
        &["replay", "--help"],
        &["replay", "run", "--help"],
        &["discard", "--help"],
        &["copy", "--help"],
    ]));
}

#[test]
fn a_file_that_another_process_has_is_refused() {
    let desk = Desk::new();
    let held = redrive::sqlite::Store::open(desk.data(), redrive::sqlite::Options::default()).unwrap();
    let ran = desk.run(&["queues"]);
    // Where the lines break depends on the number of the process.
    let told =
        ran.stderr.split([' ', '\n', '│']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    assert_eq!((ran.code, ran.text()), (4, ""));
    assert!(told.starts_with("RD-DATA-02"), "{told}");
    assert!(told.contains(&format!("is in use by process {}", std::process::id())), "{told}");
    drop(held);
    assert_eq!(desk.run(&["queues"]).code, 0);
}
