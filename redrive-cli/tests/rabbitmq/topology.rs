//! What a flow needs at the broker: shown, refused, created, and done by policies instead.

use lapin::types::AMQPValue;
use serde_json::Value;

use crate::world::World;

#[test]
fn topology_is_planned_checked_and_applied() {
    let Some(world) = World::open("planned") else { return };
    let source = world.source();
    let flow = ["--from", source.as_str(), "--retry", "10s, 1m"];
    let plan = |json: bool| {
        let json: &[&str] = if json { &["--json"] } else { &[] };
        world.does(&[&["topology", "plan"], &flow[..], json].concat())
    };
    let dead = world.named(".dlq");
    let find = |name: &str| -> Value {
        let all = plan(true).json();
        let found = all.iter().find(|thing| thing["kind"] == "queue" && thing["name"] == name).cloned();
        found.unwrap_or_else(|| panic!("no {name} in {all:?}"))
    };
    assert_eq!(find(&dead)["exists"], false);
    let step = find(&world.named(".retry.10s"));
    assert_eq!(step["exists"], false);
    assert_eq!(step["settings"]["x-message-ttl"], "10000", "{step}");
    let shown = plan(false);
    assert!(
        shown.text().contains("missing") && shown.text().contains("bindings missing"),
        "{}",
        shown.text()
    );
    assert!(!shown.text().contains("*.*"), "{}", shown.text());
    assert_eq!(world.ready(&dead), None, "a plan changes nothing");

    let run = ["--to", "exec:true", "--listen", "off", "--topology", "check"];
    let refused = world.desk.run(&[&["run"], &flow[..], &run[..]].concat());
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    // The lines of an error end where they are long enough, also within a name.
    let said: String = refused.stderr.replace('│', "").split_whitespace().collect();
    assert!(said.contains("RD-RUN-02") && said.contains(&dead), "{}", refused.stderr);
    assert_eq!(world.ready(&dead), None, "a check creates nothing");

    let applied = world.does(&[&["topology", "apply"], &flow[..]].concat());
    assert!(applied.stderr.contains(&format!("created queue {dead}")), "{}", applied.stderr);
    assert!(plan(true).json().iter().all(|thing| thing["exists"] == true), "{}", plan(true).text());
    let again = world.does(&[&["topology", "apply"], &flow[..]].concat());
    assert!(!again.stderr.contains("created"), "{}", again.stderr);

    let checked = world.start_with(&[&flow[..], &["--to", "exec:true", "--topology", "check"]].concat());
    let instance = world.does(&["topology", "plan", "--json"]).json();
    assert!(instance.iter().any(|thing| thing["name"] == dead.as_str()), "{instance:?}");
    checked.stop();
}

#[test]
fn a_queue_that_stands_with_other_arguments_is_named_before_anything_is_declared() {
    let Some(world) = World::open("drift") else { return };
    world.queue(&world.named(".dlq"), &[("x-max-length", AMQPValue::LongInt(3))]);
    let source = world.source();
    let plan = world.does(&["topology", "plan", "--json", "--from", &source]).json();
    let dead = plan.iter().find(|thing| thing["name"] == world.named(".dlq").as_str()).unwrap();
    assert_eq!(dead["exists"], true, "{dead}");
    assert!(dead["drift"].to_string().contains("x-max-length"), "{dead}");
}

#[test]
fn policies_and_permissions_are_printed_as_commands() {
    let desk = crate::desk::Desk::new();
    let address = "amqp://app:hunter2@127.0.0.1:1/prod?queue=orders";
    for (flag, command) in [("--as-policies", "set_policy"), ("--permissions", "set_permissions")] {
        let ran = desk.run(&["topology", "plan", "--from", address, "--retry", "10s", flag]);
        assert_eq!(ran.code, 0, "{flag}: {}", ran.stderr);
        assert!(ran.text().contains(command) && ran.text().contains("orders"), "{flag}: {}", ran.text());
        assert!(!ran.text().contains("hunter2"), "{}", ran.text());
    }
    let other = desk.run(&["topology", "plan", "--from", "queue:orders", "--as-policies"]);
    assert_eq!(other.code, 2, "{}", other.stderr);
}
