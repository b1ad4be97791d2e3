//! A server that is really short of memory.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::http::Journal;
use crate::running::eventually;
use crate::world::World;

fn metrics(address: &str) -> Result<String, String> {
    let mut stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    Ok(answer)
}

/// Messages of each kind.
const EACH: usize = 20;

#[test]
fn a_memory_alarm_is_told_and_loses_nothing() {
    let Some(world) = World::own("memory") else { return };
    let journal = Journal::start();
    let to = format!("to: http://{}/orders", journal.address);
    let settings = [&*to, "retry: 100ms x2", "confirm_timeout: 3s"];
    let file = world.configured("redrive.yaml", &settings);
    let (running, address) = world.start_listening(&["-c", &file]);
    let blocked = |expected: &'static str| {
        eventually(&format!("redrive_rabbitmq_blocked is {expected}"), || {
            let text = metrics(&address)?;
            let line = text.lines().find(|line| line.starts_with("redrive_rabbitmq_blocked{"));
            match line {
                Some(line) if line.ends_with(expected) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    };
    let alarms = || {
        let flows = world.does(&["flows", "--json"]).json();
        let alarms = flows[0]["alarms"].as_array().cloned().unwrap_or_default();
        let named: Vec<Value> = alarms.into_iter().map(|alarm| alarm["name"].clone()).collect();
        named
    };
    let numbered = |kind: &'static str| (0..EACH).map(move |number| (format!("{kind}-{number}"), kind));
    // Their calls end when the handler is told, some well and some so that a copy has to be written.
    world.publish_all(numbered("refused").chain(numbered("held")));
    world.server.tool(&["set_vm_memory_high_watermark", "0.00001"]);
    journal.fix();
    blocked(" 1");
    eventually("the alarm", || {
        let alarms = alarms();
        if alarms.contains(&"broker_blocked".into()) { Ok(()) } else { Err(format!("{alarms:?}")) }
    });
    // Another flow begins all the same.
    let other = std::fs::read_to_string(world.desk.path(&file)).unwrap();
    std::fs::write(world.desk.path("other.yaml"), other.replace(&world.name, &world.named("-other")))
        .unwrap();
    world.start_with(&["-c", "other.yaml", "--data", "other.db"]).stop();
    // What needs no copy goes on: it is released over a connection that writes nothing.
    eventually("all that succeed are handled", || {
        let handled = journal.order();
        if handled.len() == EACH { Ok(()) } else { Err(format!("{handled:?}")) }
    });

    world.server.tool(&["set_vm_memory_high_watermark", "0.4"]);
    blocked(" 0");
    eventually("the end of the alarms", || {
        let alarms = alarms();
        if alarms.is_empty() { Ok(()) } else { Err(format!("{alarms:?}")) }
    });
    let wanted: BTreeSet<String> = numbered("refused").map(|(id, _)| id).collect();
    for id in &wanted {
        world.stands(id, "parked");
    }
    world.publish_all([("after".to_owned(), "ok")]);
    eventually("it goes on", || {
        let handled = journal.order();
        if handled.iter().any(|id| id == "after") { Ok(()) } else { Err(format!("{handled:?}")) }
    });
    running.stop();
    // What was sent in the moment in which the server stopped to read may be there twice.
    let count = world.ready(&world.named(".parking")).unwrap() as usize;
    assert!((EACH..=2 * EACH).contains(&count), "{count}");
    let there = world.take(&world.named(".parking"), count);
    assert_eq!(there.iter().filter_map(|letter| letter.id.clone()).collect::<BTreeSet<_>>(), wanted);
    assert_eq!(world.ready(&world.name), Some(0));
}
