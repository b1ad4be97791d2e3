//! Several instances on one queue.

use crate::http::Journal;
use crate::running::{Running, eventually};
use crate::world::World;

/// An instance with a ledger and a handler of its own.
struct Member {
    name: &'static str,
    journal: Journal,
}

impl Member {
    fn new(name: &'static str) -> Self {
        Self { name, journal: Journal::start() }
    }

    fn start(&self, world: &World) -> Running {
        let to = format!("to: http://{}/orders", self.journal.address);
        let settings = [&*to, "retry: 100ms x2", "concurrency: 1", "queue: { single_active: true }"];
        let file = world.configured(&format!("{}.yaml", self.name), &settings);
        world.start_with(&["-c", &file, "--data", &format!("{}.db", self.name)])
    }

    /// Waits until it has handled so many; answers with their numbers, in their order.
    fn handled(&self, count: usize) -> Vec<usize> {
        let order = eventually(&format!("{count} handled by {}", self.name), || {
            let order = self.journal.order();
            if order.len() >= count { Ok(order) } else { Err(format!("{order:?}")) }
        });
        order.iter().map(|id| id.parse().unwrap()).collect()
    }
}

#[test]
fn one_instance_reads_at_a_time_and_another_takes_over() {
    let Some(world) = World::open("single") else { return };
    let publish = |numbers: std::ops::Range<usize>, body: &'static str| {
        world.publish_all(numbers.map(|number| (number.to_string(), body)));
    };
    let (first, second) = (Member::new("first"), Member::new("second"));
    let running = first.start(&world);
    let waiting = second.start(&world);
    publish(0..20, "ok");
    assert_eq!(first.handled(20), (0..20).collect::<Vec<_>>());
    assert!(second.handled(0).is_empty(), "it reads beside the first");

    // One is in the first one's hands and twenty are prefetched when it is killed.
    publish(20..21, "held");
    publish(21..41, "ok");
    drop(running);
    second.journal.fix();
    assert_eq!(second.handled(21), (20..41).collect::<Vec<_>>(), "nothing lost, and all in order");

    let running = first.start(&world);
    publish(41..51, "ok");
    assert_eq!(second.handled(31)[21..], (41..51).collect::<Vec<_>>());
    waiting.stop();
    publish(51..61, "ok");
    assert_eq!(first.handled(30)[20..], (51..61).collect::<Vec<_>>());
    running.stop();
    assert_eq!(world.ready(&world.name), Some(0));
}
