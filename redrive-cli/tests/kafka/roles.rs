//! Roles that run apart, and what they tell of themselves.

use crate::world::{World, eventually, get};

/// The value of a metric of a flow whose line has these words in it.
fn metric(address: &str, name: &str, words: &[&str]) -> Result<f64, String> {
    let text = get(address, "/metrics")?;
    let start = format!("{name}{{");
    let mut lines = text.lines().filter(|line| line.starts_with(&start));
    let line = lines.find(|line| words.iter().all(|word| line.contains(word)));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.ok_or_else(|| text.lines().filter(|line| line.contains("kafka")).collect::<Vec<_>>().join("\n"))
}

/// A process reads the source, one what waits, and one moves records from level to level: together they do what one does.
#[test]
fn each_role_has_its_own_part_and_tells_of_it() {
    let Some(world) = World::open("parts") else { return };
    world.topic(&world.name, 1);
    let source = world.source();
    let start = |role: &str| {
        let file = format!("{role}.db");
        let flow = ["--from", &source, "--to", "exec:sh handle.sh", "--retry", "1s x2"];
        world.start_listening(&[&flow[..], &["--role", role, "--data", &file]].concat())
    };
    let (main, main_at) = start("main");
    world.publish(&world.name, "order-1", "{\"item\": \"fridge\"}", &["--key", "customer-1"]);
    world.publish(&world.name, "order-2", "{\"item\": \"lamp\"}", &[]);
    assert_eq!(world.shipped(1), ["{\"item\": \"lamp\"}"]);
    let is = |address: &str, name: &str, word: &str, expected: f64| {
        eventually(&format!("{name} of {word} is {expected}"), || match metric(address, name, &[word])? {
            found if (found - expected).abs() < f64::EPSILON => Ok(()),
            found => Err(found.to_string()),
        });
    };
    is(&main_at, "redrive_source_lag", &format!("topic=\"{}\"", world.name), 0.0);
    is(&main_at, "redrive_kafka_committed_total", &world.name, 2.0);
    assert!(world.read(&world.named(".dlq")).is_empty(), "nobody reads what waits");

    let (delay, _) = start("delay");
    let (retry, retry_at) = start("retry");
    let letters = eventually("the dead letter", || {
        let letters = world.read(&world.named(".dlq"));
        if letters.is_empty() { Err("nothing".to_owned()) } else { Ok(letters) }
    });
    assert_eq!(letters[0].header("x-retry-attempt"), Some("3"), "{letters:?}");
    is(&retry_at, "redrive_source_lag", &format!("topic=\"{}\"", world.named(".retry.1s")), 0.0);
    is(&retry_at, "redrive_kafka_committed_total", &world.name, 2.0);
    is(&retry_at, "redrive_kafka_window_full", &world.name, 0.0);
    is(&retry_at, "redrive_kafka_window_records", &world.name, 0.0);
    assert!(metric(&retry_at, "redrive_kafka_rebalances_total", &[&world.name]).unwrap() >= 1.0);
    assert!(metric(&retry_at, "redrive_kafka_commit_seconds_count", &[&world.name]).unwrap() >= 1.0);
    assert!(metric(&retry_at, "redrive_source_lag", &[&format!("topic=\"{}\"", world.name)]).is_err());
    for running in [main, delay, retry] {
        running.stop();
    }
}
