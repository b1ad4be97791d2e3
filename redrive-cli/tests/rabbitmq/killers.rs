//! A message that takes the process with it, from a publisher that gives its messages no ids.

use lapin::BasicProperties;

use crate::running::eventually;
use crate::world::World;

/// What is called a killer ends the process that called the handler, as soon as there is a knife.
const HANDLER: &str = "order=$(cat)
case $order in
  killer) until rm knife 2> /dev/null; do sleep 0.02; done; kill -9 $PPID ;;
  *) echo \"$order\" >> shipped ;;
esac
";

#[test]
fn a_message_without_an_id_that_kills_the_process_is_parked() {
    let Some(world) = World::open("killer") else { return };
    std::fs::write(world.desk.path("handle.sh"), HANDLER).unwrap();
    for crash in 0..2 {
        let running = world.start(&[]);
        for body in ["one", "killer", "two"].iter().filter(|_| crash == 0) {
            world.produce(&world.name, body, BasicProperties::default());
        }
        std::fs::write(world.desk.path("knife"), "").unwrap();
        running.dies();
    }
    let running = world.start(&[]);
    let parked = eventually("the killer to be parked", || {
        let found = world.desk.run(&["messages", "ls", "--json"]);
        let found = if found.code == 0 { found.json() } else { Vec::new() };
        match found.as_slice() {
            [one] if one["state"] == "parked" => Ok(one.clone()),
            other => Err(format!("{other:?}")),
        }
    });
    assert_eq!(parked["reason"], "HANDLER_CRASHED", "{parked}");
    assert_eq!(world.take(&world.named(".parking"), 1)[0].body, "killer");
    let mut shipped = world.shipped(2);
    shipped.sort_unstable();
    shipped.dedup();
    assert_eq!(shipped, ["one", "two"]);
    running.stop();
}
