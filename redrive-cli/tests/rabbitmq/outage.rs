//! A downstream that is away, and messages that nobody can read.

use crate::http::Journal;
use crate::running::eventually;
use crate::world::World;

/// Messages that arrive while the downstream is away.
const WAITING: usize = 40;

/// A quarter of an hour, with every wait a sixtieth of what it would be: as long as the breaker is open nothing is charged,
/// so it does not matter how long it lasts.
#[test]
fn an_outage_storms_nothing_and_floods_no_dead_letter_queue() {
    let Some(world) = World::open("outage") else { return };
    let journal = Journal::start();
    let file = format!(
        "version: 1
brokers: {{ main: {{ rabbitmq: {{ url: \"{}\" }} }} }}
flows:
  {name}:
    from: amqp://main?queue={name}
    to: http://{}/orders
    retry: 160ms, 1s, 5s jitter 10%
    breaker: {{ open: 160ms }}
",
        world.server(),
        journal.address,
        name = world.name
    );
    std::fs::write(world.desk.path("redrive.yaml"), file).unwrap();
    let running = world.start_with(&["-c", "redrive.yaml"]);
    let lines: String =
        (0..WAITING).map(|number| format!("{{\"id\": \"m-{number}\", \"body\": \"down\"}}\n")).collect();
    std::fs::write(world.desk.path("messages.jsonl"), lines).unwrap();
    world.does(&["publish", &world.source(), "--jsonl", "messages.jsonl"]);
    eventually("the breaker holds the flow", || {
        let flows = world.does(&["flows", "--json"]).json();
        if flows[0]["state"] == "holding" { Ok(()) } else { Err(flows[0].to_string()) }
    });
    // Probes go on. So many calls, without a breaker, would have used up the attempts of every message.
    let calls = || journal.calls().values().map(Vec::len).sum::<usize>();
    let before = calls();
    eventually("the downstream has been probed many times", || {
        let made = calls() - before;
        if made >= 4 * WAITING { Ok(()) } else { Err(made.to_string()) }
    });
    for queue in [".dlq", ".parking"] {
        assert_eq!(world.ready(&world.named(queue)), Some(0), "{queue}");
    }
    journal.fix();
    eventually("everything is through", || {
        let through = journal.order().len();
        if through >= WAITING { Ok(()) } else { Err(through.to_string()) }
    });
    for queue in [".dlq", ".parking"] {
        assert_eq!(world.ready(&world.named(queue)), Some(0), "{queue}");
    }
    running.stop();
}

#[test]
fn a_flood_of_poison_does_not_stop_the_healthy_ones_behind_it() {
    let Some(world) = World::open("poison") else { return };
    let journal = Journal::start();
    let source = world.source();
    let to = format!("http://{}/orders", journal.address);
    let running = world.start_with(&["--from", &source, "--to", &to, "--retry", "100ms x2"]);
    let poison = (0..300).map(|number| format!("{{\"id\": \"bad-{number}\", \"body\": \"bad\"}}\n"));
    let healthy = (0..10).map(|number| format!("{{\"id\": \"good-{number}\", \"body\": \"ok\"}}\n"));
    std::fs::write(world.desk.path("messages.jsonl"), poison.chain(healthy).collect::<String>()).unwrap();
    world.does(&["publish", &source, "--jsonl", "messages.jsonl"]);
    eventually("the healthy ones are through", || {
        let through = journal.order().len();
        if through >= 10 { Ok(()) } else { Err(through.to_string()) }
    });
    eventually("all poison is parked", || match world.ready(&world.named(".parking")) {
        Some(300) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let calls = journal.calls();
    let tried = calls.iter().filter(|(id, _)| id.starts_with("bad-"));
    assert!(
        tried.clone().all(|(_, answers)| answers.len() == 1),
        "nobody tries poison again: {:?}",
        tried.max_by_key(|(_, a)| a.len())
    );
    assert_eq!(world.ready(&world.named(".dlq")), Some(0));
    running.stop();
}
