//! What people see when they order flows to do something: on the file, and on the running instance.

mod desk;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redrive::engine::port::EntryState;
use redrive::{Context, Flow, Message};

use desk::{BoxError, Desk, orders, runtime, until};

/// A data file, and nothing that runs on it.
fn a_file() -> Desk {
    let desk = Desk::new();
    assert_eq!(desk.run_with(&["publish", "queue:orders", "-", "--id", "order-1"], b"1001").code, 0);
    desk
}

#[test]
fn orders_on_a_file_wait_for_the_next_start() {
    let desk = a_file();
    insta::assert_snapshot!(desk.session(&[
        &["flows"],
        &["pause", "orders", "--reason", "stock count until noon"],
        &["pause", "orders", "--reason", "once more"],
        &["pause", "orders", "--retries", "--reason", "stock service drowns"],
        &["flows"],
        &["stats"],
        &["resume", "orders", "--reason", "counted"],
        &["resume", "orders", "--reason", "once more"],
        &["resume", "orders", "--retries", "--reason", "it is back"],
        &["flows"],
        &["audit", "ls"],
        &["ledger", "check"],
    ]));
}

#[test]
fn messages_are_kept_back_by_key_tenant_and_header() {
    let desk = a_file();
    insta::assert_snapshot!(desk.session(&[
        &["quarantine", "ls"],
        &["quarantine", "add", "orders", "tenant=acme", "--reason", "sends broken orders"],
        &["quarantine", "add", "orders", "tenant=acme", "--reason", "once more"],
        &["quarantine", "add", "mails", "header:schema-version=7", "--reason", "not known yet"],
        &["quarantine", "ls"],
        &["quarantine", "ls", "mails"],
        &["quarantine", "ls", "nobodys"],
        &["flows"],
        &["quarantine", "rm", "orders", "tenant=acme", "--reason", "fixed on their side"],
        &["quarantine", "rm", "orders", "tenant=acme", "--reason", "once more"],
        &["audit", "ls"],
    ]));
    let added = desk.run(&["quarantine", "add", "orders", "key=a=b", "--reason", "why", "--json"]);
    let object = &added.json()[0];
    assert_eq!(
        (&object["flow"], &object["running"], &object["controls"][0]["target"]),
        (&"orders".into(), &false.into(), &"key=a=b".into())
    );
    let listed = desk.run(&["quarantine", "ls", "--json"]).json();
    assert_eq!((listed.len(), &listed[1]["by"]), (2, &"tester".into()));
}

#[test]
fn orders_reach_the_running_instance() {
    let desk = a_file();
    let runtime = runtime();
    let instance = runtime.block_on(orders(&desk.data(), Arc::new(AtomicBool::new(true))));
    runtime.block_on(until(&instance, "orders", EntryState::Parked, 1));
    runtime.block_on(instance.idle(Duration::from_millis(1)));
    insta::assert_snapshot!(desk.session(&[
        &["flows"],
        &["pause", "orders", "--retries", "--reason", "stock service drowns"],
        &["flows"],
        &["pause", "orders", "--reason", "stock count"],
        &["flows"],
        &["resume", "orders", "--reason", "counted"],
        &["quarantine", "add", "orders", "key=customer-7", "--reason", "asked us to wait"],
        &["stats"],
        &["pause", "ordres", "--reason", "typo"],
        &["quarantine", "add", "ordres", "key=1", "--reason", "typo"],
        &["resume", "ordres", "--reason", "typo"],
    ]));
    let flows = desk.run(&["flows", "--json"]).json();
    assert_eq!((flows.len(), &flows[0]["state"]), (1, &"retries_paused".into()));
    assert_eq!(flows[0]["controls"].as_array().unwrap().len(), 2);
    runtime.block_on(instance.stop(std::future::pending()));

    let stopped = desk.run(&["flows", "--json"]).json();
    assert_eq!(
        (&stopped[0]["state"], &stopped[0]["controls"]),
        (&"not_running".into(), &flows[0]["controls"])
    );
}

#[test]
fn what_is_kept_back_is_shown_and_let_go() {
    let desk = Desk::new();
    let publish = |id: &str, key: &str| {
        let ran = desk.run(&["publish", "queue:orders", id, "--id", id, "--key", key]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    };
    publish("order-1", "customer-7");
    let keep = ["quarantine", "add", "orders", "key=customer-7", "--reason", "asked us to wait"];
    assert_eq!(desk.run(&keep).code, 0);
    let runtime = runtime();
    let instance = runtime.block_on(orders(&desk.data(), Arc::new(AtomicBool::new(false))));
    publish("order-2", "customer-8");
    publish("order-3", "customer-7");
    runtime.block_on(until(&instance, "orders", EntryState::Held, 2));
    runtime.block_on(instance.idle(Duration::from_millis(1)));
    let held = desk.run(&["messages", "ls", "--state", "held", "--json"]).json();
    assert!(held.iter().all(|entry| entry["reason"] == "QUARANTINED" && entry["attempts"] == 0), "{held:?}");
    insta::assert_snapshot!(desk.session(&[
        &["quarantine", "ls"],
        &["flows"],
        &["quarantine", "rm", "orders", "key=customer-7", "--reason", "they called back"],
    ]));
    runtime.block_on(until(&instance, "orders", EntryState::Recovered, 2));
    assert_eq!(desk.run(&["audit", "ls", "--limit", "1", "--json"]).json()[0]["count"], 2);
    runtime.block_on(instance.stop(std::future::pending()));
}

#[test]
fn a_paused_flow_calls_nobody_until_it_is_resumed() {
    let desk = a_file();
    assert_eq!(desk.run(&["pause", "orders", "--reason", "stock count"]).code, 0);
    let runtime = runtime();
    let instance = runtime.block_on(orders(&desk.data(), Arc::new(AtomicBool::new(true))));
    let flows = desk.run(&["flows", "--json"]).json();
    assert_eq!(flows[0]["state"], "paused");
    assert_eq!(desk.run(&["queues", "--json"]).json()[0]["ready"], 1);
    assert_eq!(desk.run(&["resume", "orders", "--reason", "counted"]).code, 0);
    runtime.block_on(until(&instance, "orders", EntryState::Parked, 1));
    runtime.block_on(instance.stop(std::future::pending()));
}

#[test]
fn a_skipped_head_lets_its_followers_go() {
    let desk = Desk::new();
    for id in ["order-1", "order-2"] {
        assert_eq!(desk.run(&["publish", "queue:orders", id, "--id", id, "--key", "customer-7"]).code, 0);
    }
    let flow = Flow::from("queue:orders").data(desk.data()).attempts(1).order_by_key().handle(
        |message: Message, _: Context| async move {
            if message.id == *"order-1" { Err::<(), BoxError>("no address".into()) } else { Ok(()) }
        },
    );
    let runtime = runtime();
    let instance = runtime.block_on(flow.start()).unwrap();
    runtime.block_on(until(&instance, "orders", EntryState::Held, 1));
    assert!(figures(&desk).contains("\nredrive_held_keys{flow=\"orders\"} 1\n"));
    insta::assert_snapshot!(desk.session(&[
        &["skip", "order-1", "--reason", "customer does not mind"],
        &["skip", "order-1", "--reason", "once more"],
    ]));
    runtime.block_on(until(&instance, "orders", EntryState::Recovered, 1));
    runtime.block_on(until(&instance, "orders", EntryState::Parked, 1));
    assert!(figures(&desk).contains("\nredrive_held_keys{flow=\"orders\"} 0\n"));
    runtime.block_on(instance.stop(std::future::pending()));
}

/// What `/metrics` answers.
fn figures(desk: &Desk) -> String {
    let socket = desk.data().with_extension("db.d").join("cli.sock");
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn what_was_ordered_of_a_flow_that_is_gone_can_be_ended() {
    let desk = a_file();
    assert_eq!(desk.run(&["pause", "mails", "--reason", "no server"]).code, 0);
    let runtime = runtime();
    let instance = runtime.block_on(orders(&desk.data(), Arc::new(AtomicBool::new(false))));
    let ended = desk.run(&["resume", "mails", "--reason", "the flow is gone"]);
    assert_eq!((ended.code, ended.text()), (0, "mails goes on\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("mails does not run here"), "{}", ended.stderr);
    assert_eq!(desk.run(&["resume", "mails", "--reason", "the flow is gone"]).code, 3);
    runtime.block_on(instance.stop(std::future::pending()));
}

#[test]
fn mistakes_say_what_to_do() {
    let desk = a_file();
    insta::assert_snapshot!(desk.session(&[
        &["pause", "orders", "--reason", "x", "--data", "nowhere.db"],
        &["pause", "no such flow", "--reason", "x"],
        &["pause", "orders"],
        &["pause", "orders", "--reason", " "],
        &["quarantine", "add", "orders", "acme", "--reason", "x"],
        &["quarantine", "add", "orders", "colour=red", "--reason", "x"],
        &["quarantine", "add", "orders", "tenant=", "--reason", "x"],
        &["skip", "order-9", "--reason", "x"],
        &["skip", "--reason", "x"],
    ]));
    let long = format!("key={}", "x".repeat(500));
    let refused = desk.run(&["quarantine", "add", "orders", &long, "--reason", "x"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(desk.run(&["audit", "ls", "--json"]).json().is_empty());
}

#[test]
fn help_teaches() {
    insta::assert_snapshot!(Desk::new().session(&[
        &["pause", "--help"],
        &["resume", "--help"],
        &["quarantine", "--help"],
        &["quarantine", "add", "--help"],
        &["quarantine", "rm", "--help"],
        &["quarantine", "ls", "--help"],
        &["flows", "--help"],
    ]));
}
