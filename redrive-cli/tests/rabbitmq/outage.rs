//! A downstream that is away, and messages that nobody can read.

use std::time::{Duration, Instant};

use crate::http::Journal;
use crate::running::eventually;
use crate::world::World;

/// Messages that arrive while the downstream is away: half at once, half while it lasts.
const MESSAGES: usize = 300;
/// A quarter of an hour, and all else a sixtieth of what it would be.
const OUTAGE: Duration = Duration::from_secs(15);
const OPEN: Duration = Duration::from_millis(167);
/// How many calls may be under way at once, and how many probes there are each time.
const CONCURRENCY: usize = 16;
const PROBES: usize = 3;

#[test]
fn an_outage_of_a_quarter_of_an_hour_storms_nothing_and_floods_no_dead_letter_queue() {
    let Some(world) = World::open("outage") else { return };
    let journal = Journal::start();
    let settings = [
        &*format!("to: http://{}/orders", journal.address),
        "retry: 167ms, 1s, 5s, 30s jitter 10%",
        &format!("breaker: {{ open: {}ms, window: 500ms, half_open_probes: {PROBES} }}", OPEN.as_millis()),
        &format!("concurrency: {CONCURRENCY}"),
    ];
    let file = world.configured("redrive.yaml", &settings);
    let running = world.start_with(&["-c", &file]);
    let down = |numbers: std::ops::Range<usize>| numbers.map(|number| (format!("m-{number}"), "down"));
    let began = Instant::now();
    world.publish_all(down(0..MESSAGES / 2));
    eventually("the breaker holds the flow", || {
        let flows = world.does(&["flows", "--json"]).json();
        if flows[0]["state"] == "holding" { Ok(()) } else { Err(flows[0].to_string()) }
    });
    world.publish_all(down(MESSAGES / 2..MESSAGES));
    // This is the outage, not a wait for something.
    std::thread::sleep(OUTAGE.saturating_sub(began.elapsed()));
    let calls = journal.calls();
    let lasted = began.elapsed();
    let made: usize = calls.values().map(Vec::len).sum();
    let openings = usize::try_from(lasted.as_millis() / OPEN.as_millis()).unwrap() + 1;
    // What was under way when it opened, and the probes. Without it each message would have been tried four times.
    let most = CONCURRENCY + 5 + PROBES * openings;
    assert!(most < 4 * MESSAGES || lasted > 2 * OUTAGE, "it lasted too long to tell: {lasted:?}");
    assert!(made <= most, "{made} calls in {lasted:?}, and at most {most} were to be expected");
    assert!(made > 2 * PROBES, "it is probed: {made}");
    for queue in [".dlq", ".parking"] {
        assert_eq!(world.ready(&world.named(queue)), Some(0), "{queue}");
    }
    journal.fix();
    eventually("everything is through", || {
        let through = journal.order().len();
        if through >= MESSAGES { Ok(()) } else { Err(through.to_string()) }
    });
    assert_eq!(journal.order().len(), MESSAGES);
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
