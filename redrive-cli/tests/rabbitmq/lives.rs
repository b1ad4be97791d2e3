//! What a flow may choose about its queues, each choice through a whole life: fail, wait, dead, replay.

use base64::Engine as _;
use serde_json::Value;

use crate::running::Running;
use crate::world::World;

const FRIDGE: &str = "{\"item\": \"fridge\"}";
const LAMP: &str = "{\"item\": \"lamp\"}";

/// A flow with this choice, and a message of each end: dead, and parked.
fn lived(test: &str, choice: &str) -> Option<(World, Running)> {
    let world = World::open(test)?;
    let file = world.configured("redrive.yaml", &["to: exec:sh handle.sh", "retry: 100ms x2", choice]);
    let running = world.start_with(&["-c", &file]);
    world.publish(&world.name, "order-1", FRIDGE, &["--header", "type=OrderPlaced"]);
    let dead = world.stands("order-1", "dead");
    assert_eq!(dead["attempts"], 3, "it waited and came back twice: {dead}");
    // One that succeeds in between keeps the breaker closed.
    world.publish(&world.name, "between", LAMP, &[]);
    world.shipped(1);
    world.publish(&world.name, "torn", "hello?", &[]);
    world.stands("torn", "parked");
    Some((world, running))
}

/// The flow ships what was dead, with the bytes that it had.
fn replayed(world: &World, running: Running) {
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    world.does(&["replay", "run", "order-1", "--reason", "fridges are back"]);
    world.stands("order-1", "recovered");
    assert_eq!(world.shipped(2)[1], FRIDGE);
    running.stop();
}

/// Starts without the ledger that was there, and makes it again from the queues.
fn rebuilt(world: &World, running: Running) -> Running {
    running.stop();
    for file in ["redrive.db", "redrive.db-wal", "redrive.db-shm"] {
        let _ = std::fs::remove_file(world.desk.path(file));
    }
    let running = world.start_with(&["-c", "redrive.yaml"]);
    world.does(&["ledger", "rebuild", "--reason", "the disk was lost"]);
    assert_eq!(world.stands("order-1", "dead")["attempts"], 3);
    world.stands("torn", "parked");
    running
}

#[test]
fn a_dead_letter_is_an_envelope_where_that_is_asked_for() {
    let Some((world, running)) = lived("envelope", "dead_letter: { format: envelope }") else { return };
    let running = rebuilt(&world, running);
    let letter = world.take(&world.named(".dlq"), 1).remove(0);
    let envelope: Value = serde_json::from_str(&letter.body).unwrap();
    assert_eq!(envelope["messageId"], "order-1", "{envelope}");
    assert_eq!(envelope["messageType"], "OrderPlaced", "{envelope}");
    assert_eq!((&envelope["attemptCount"], &envelope["failureReason"]), (&3.into(), &"TRY_AGAIN".into()));
    let payload = envelope["payload_base64"].as_str().unwrap();
    let payload = base64::engine::general_purpose::STANDARD.decode(payload).unwrap();
    assert_eq!(payload, FRIDGE.as_bytes());
    let kind = letter.properties.content_type().as_ref().map(ToString::to_string);
    assert_eq!(kind.as_deref(), Some("application/json"));
    let parked = world.take(&world.named(".parking"), 1).remove(0);
    assert!(parked.body.contains("payload_base64"), "{}", parked.body);
    replayed(&world, running);
}

#[test]
fn parked_messages_lie_with_the_dead_letters_where_that_is_asked_for() {
    let Some((world, running)) = lived("same", "parking: same") else { return };
    assert_eq!(world.ready(&world.named(".parking")), None, "there is no queue for them");
    let running = rebuilt(&world, running);
    let both = world.take(&world.named(".dlq"), 2);
    let parked: Vec<_> = both
        .iter()
        .map(|letter| (letter.id.as_deref().unwrap_or_default(), letter.header("x-parked").is_some()))
        .collect();
    assert!(parked.contains(&("order-1", false)) && parked.contains(&("torn", true)), "{parked:?}");
    replayed(&world, running);
}

#[test]
fn a_flow_of_classic_queues_lives_as_one_of_quorum_queues() {
    let Some((world, running)) = lived("classic", "queue: { kind: classic }") else { return };
    let plan = world.does(&["topology", "plan", "--json", "-c", "redrive.yaml"]).json();
    for queue in plan.iter().filter(|thing| thing["kind"] == "queue") {
        assert_eq!(queue["settings"]["x-queue-type"], "classic", "{queue}");
        assert_eq!(queue["drift"], Value::Null, "{queue}");
    }
    let running = rebuilt(&world, running);
    assert_eq!(world.take(&world.named(".dlq"), 1)[0].body, FRIDGE);
    replayed(&world, running);
}
