//! What waits, while where it was to go is deleted.

use serde_json::Value;

use crate::running::eventually;
use crate::world::World;

/// How long the broker lets pass before it tries again to give a message away; 3 minutes unless it is told otherwise.
const TIMER: &str = "[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 3000}]}].";

fn alarm(world: &World, flow: &str) -> Option<Value> {
    let flows = world.does(&["flows", "--json"]).json();
    let flow = flows.iter().find(|one| one["name"] == flow).cloned()?;
    let alarms = flow["alarms"].as_array().cloned().unwrap_or_default();
    alarms.into_iter().find(|alarm| alarm["name"] == "transfer_stuck")
}

#[test]
fn a_transfer_that_is_stuck_is_told_mended_and_never_called_recovered() {
    let Some(world) = World::own_with("stuck", TIMER) else { return };
    let (steps, levels) = (world.named("-steps"), world.named("-levels"));
    let flow = |name: &str, retry: &str| {
        format!(
            "  {name}: {{ from: \"amqp://main?queue={name}\", to: \"exec:sh handle.sh\", retry: \"{retry}\" }}\n"
        )
    };
    let file = format!(
        "version: 1\nbrokers: {{ main: {{ rabbitmq: {{ url: \"{}\" }} }} }}\nflows:\n{}{}",
        world.server(),
        flow(&steps, "1s x3"),
        flow(&levels, "5s x3 jitter 10%"),
    );
    std::fs::write(world.desk.path("redrive.yaml"), file).unwrap();
    let running = world.start_with(&["-c", "redrive.yaml"]);
    // What waits for a step cannot leave its queue; what waits through levels passes the first, and cannot leave the next.
    let mut exchanges: Vec<String> = (0..12).map(|level| format!("{levels}.retry.l{level:02}")).collect();
    exchanges.push(format!("{steps}.retry"));
    world.delete_exchanges(&exchanges);
    let body = |id: &str| format!("{{\"item\": \"fridge\", \"id\": \"{id}\"}}");
    for (queue, id) in [(&steps, "sent"), (&steps, "step"), (&levels, "level")] {
        world.publish(queue, id, &body(id), &[]);
        world.stands(id, "waiting");
    }
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    eventually("they are between two queues", || match world.ready(&format!("{steps}.retry.1s")) {
        Some(0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    // A person sends one at once, from the ledger; what comes of it later is dropped.
    world.does(&["retry-now", "sent", "--reason", "the customer waits"]);
    world.stands("sent", "recovered");
    let text = |flow: &str| {
        let alarm = eventually("an alarm", || {
            alarm(&world, flow).ok_or_else(|| world.does(&["flows", "--json"]).text().to_owned())
        });
        alarm["text"].as_str().unwrap_or_default().to_owned()
    };
    let (of_steps, of_levels) = (text(&steps), text(&levels));
    assert!(of_steps.contains(&format!("`{steps}.retry.1s`")), "{of_steps}");
    assert!(of_steps.contains(&format!("the exchange `{steps}.retry` had been deleted")), "{of_steps}");
    assert!(of_levels.contains(&format!("`{levels}.retry.l12`")), "{of_levels}");
    let history = |id: &str| world.does(&["messages", "show", id, "--json"]).json()[0].to_string();
    // Where the others were to go is there again, and the broker tries again by itself.
    let mut shipped = world.shipped(3);
    shipped.sort();
    assert_eq!(shipped, [body("level"), body("sent"), body("step")]);
    for id in ["step", "level"] {
        world.stands(id, "recovered");
        assert!(!history(id).contains("has passed its copy"), "it was never presumed: {}", history(id));
    }
    for flow in [&steps, &levels] {
        eventually("the end of the alarm", || match alarm(&world, flow) {
            None => Ok(()),
            Some(alarm) => Err(alarm.to_string()),
        });
        eventually("nothing is left", || match world.ready(flow) {
            Some(0) => Ok(()),
            other => Err(format!("{flow}: {other:?}")),
        });
    }
    running.stop();
    assert_eq!(world.shipped(3).len(), 3, "the copy of what a person sent was dropped");
}
