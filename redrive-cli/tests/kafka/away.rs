//! A Kafka that goes away and comes back.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::world::{World, eventually};

fn status(address: &str, path: &str) -> Result<u16, String> {
    let mut stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(answer)
}

#[test]
fn an_instance_is_not_ready_while_kafka_is_away() {
    let Some(world) = World::own("away") else { return };
    world.topic(&world.name, 1);
    let source = world.source();
    let flow = ["--from", &source, "--to", "exec:sh handle.sh", "--retry", "100ms"];
    let (running, address) = world.start_listening(&flow);
    let answers = |path: &'static str, expected: u16| {
        let address = address.clone();
        eventually(&format!("{path} answers {expected}"), || match status(&address, path) {
            Ok(found) if found == expected => Ok(()),
            other => Err(format!("{other:?}")),
        });
    };
    answers("/readyz", 200);
    world.server.kill();
    answers("/readyz", 503);
    answers("/healthz", 200);
    world.server.start();
    answers("/readyz", 200);
    let lamp = "{\"item\": \"lamp\"}";
    world.publish(&world.name, "order-1", lamp, &[]);
    assert_eq!(world.shipped(1), [lamp]);
    running.stop();
}
