//! The commands that Redrive prints for `rabbitmqctl`, run by it on a real server.

use std::process::Command;

use lapin::options::{ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions};
use lapin::types::FieldTable;
use lapin::{Channel, ExchangeKind};
use serde_json::Value;

use crate::desk::Ran;
use crate::running::eventually;
use crate::world::World;

const FRIDGE: &str = "{\"item\": \"fridge\"}";
const LAMP: &str = "{\"item\": \"lamp\"}";
/// Few levels beside the step: each is a queue, an exchange, and two policies.
const POLICY: &str = "policy: { retry: 100ms x2, retry_after: { min: 200ms, max: 400ms } }";

/// The words that a shell makes of a printed command, without the program's name.
fn words(line: &str) -> Vec<String> {
    let script = format!("rabbitmqctl() {{ printf '%s\\0' \"$@\"; }}\n{line}");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// Runs printed commands; answers with the words of each.
fn ordered(world: &World, printed: &Ran) -> Vec<Vec<String>> {
    let commands: Vec<Vec<String>> = printed.text().lines().map(words).collect();
    for command in &commands {
        world.server.tool(&command.iter().map(String::as_str).collect::<Vec<_>>());
    }
    commands
}

/// The lines of an error end where they are long enough, also within a name.
fn said(ran: &Ran) -> String {
    ran.stderr.replace('│', "").split_whitespace().collect()
}

/// The names in a pattern of the form `^(a|b)$`.
fn alternatives(pattern: &str) -> Vec<&str> {
    pattern.strip_prefix("^(").and_then(|rest| rest.strip_suffix(")$")).unwrap().split('|').collect()
}

/// A user that may all that was printed but one thing.
struct Lacking {
    user: String,
    permissions: [String; 3],
    /// What the broker will not give it.
    names: String,
}

impl Lacking {
    fn all(world: &World, printed: &[String]) -> Vec<Self> {
        // In the order in which things are made, so that each is missing still when it is refused.
        let made = ["", ".stray", ".retry", ".dlq", ".parking", ".resolved"];
        // What is read and written only when a person asks for it is refused then.
        let begun = ["", ".stray", ".retry"];
        let cases = made.iter().map(|suffix| (0, world.named(suffix)));
        let written = begun.iter().map(|suffix| (1, world.named(suffix)));
        let written = written.chain([(1, "amq.default".to_owned())]);
        let read = begun.iter().map(|suffix| (2, world.named(suffix)));
        let cases = cases.chain(written).chain(read);
        let lacking = cases.enumerate().map(|(number, (kind, names))| {
            let without = |pattern: &String| {
                let escaped = names.replace('.', "\\.");
                let all = alternatives(pattern);
                let left: Vec<&str> = all
                    .iter()
                    .copied()
                    .filter(|name| *name != escaped && *name != format!("{escaped}(\\..*)?"))
                    .collect();
                assert_eq!(left.len() + 1, all.len(), "{names} in {pattern}");
                format!("^({})$", left.join("|"))
            };
            let mut permissions = [printed[0].clone(), printed[1].clone(), printed[2].clone()];
            permissions[kind] = without(&permissions[kind]);
            Self { user: world.named(&format!("-lacks-{number}")), permissions, names }
        });
        lacking.collect()
    }
}

/// All of them in one order to the server, since each takes a second or more.
fn add_users(world: &World, users: &[Lacking]) {
    let terms: Vec<String> = users
        .iter()
        .map(|Lacking { user, permissions, .. }| {
            let [configure, write, read] = permissions.each_ref().map(|text| text.replace('\\', "\\\\"));
            format!("{{<<\"{user}\">>, <<\"{configure}\">>, <<\"{write}\">>, <<\"{read}\">>}}")
        })
        .collect();
    let code = format!(
        "[begin rabbit_auth_backend_internal:add_user(U, <<\"secret\">>, <<\"test\">>), \
         rabbit_auth_backend_internal:set_permissions(U, <<\"/\">>, C, W, R, <<\"test\">>) end \
         || {{U, C, W, R}} <- [{}]], ok.",
        terms.join(", ")
    );
    assert_eq!(world.server.tool(&["eval", &code]).trim(), "ok");
}

fn delete_users(world: &World, users: &[String]) {
    let names: Vec<String> = users.iter().map(|user| format!("<<\"{user}\">>")).collect();
    let code = format!(
        "[rabbit_auth_backend_internal:delete_user(U, <<\"test\">>) || U <- [{}]], ok.",
        names.join(", ")
    );
    world.server.tool(&["eval", &code]);
}

#[test]
fn the_permissions_that_are_printed_are_enough_and_all_are_needed() {
    let Some(world) = World::open("rights") else { return };
    if !world.server.ours_to_order() {
        return;
    }
    let user = world.named("-user");
    let source_of = |user: &str| world.source().replace("guest:guest", &format!("{user}:secret"));
    let source = source_of(&user);
    let flow = |source: &str| -> Vec<String> {
        let flow = ["--from", source, "--to", "exec:sh handle.sh", "--retry", "100ms x2"];
        flow.iter().map(|&word| word.to_owned()).collect()
    };
    let run = |source: &str, more: &[&str]| {
        let flow = flow(source);
        let words: Vec<&str> = flow.iter().map(String::as_str).collect();
        world.desk.run(&[&["run"], &words[..], &["--listen", "off"], more].concat())
    };
    world.server.tool(&["add_user", &user, "secret"]);
    let nobody = run(&source, &[]);
    assert_ne!(nobody.code, 0, "it is let in without any right: {}", nobody.stderr);
    assert!(said(&nobody).contains(&user), "{}", nobody.stderr);

    let printed =
        world.does(&["topology", "plan", "--permissions", "--from", &source, "--retry", "100ms x2"]);
    let commands: Vec<Vec<String>> = printed.text().lines().map(words).collect();
    let [command] = &commands[..] else { panic!("{}", printed.text()) };
    let ["set_permissions", "-p", "/", named, ..] =
        &command.iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        panic!("{command:?}")
    };
    assert_eq!(*named, user);
    let lacking = Lacking::all(&world, &command[4..]);
    add_users(&world, &lacking);
    let refuse = |case: &Lacking| {
        let refused = run(&source_of(&case.user), &["--exit-when-idle", "1ms"]);
        let said = said(&refused);
        let text = format!("{} without {}: {}", case.user, case.names, refused.stderr);
        assert_ne!(refused.code, 0, "it was started, {text}");
        assert!(said.contains(&case.names) && said.contains("ACCESS_REFUSED"), "{text}");
        assert!(said.contains("--permissions"), "{text}");
    };
    let (making, using): (Vec<_>, Vec<_>) = lacking.iter().enumerate().partition(|(number, _)| *number < 6);
    for (_, case) in making {
        refuse(case);
    }

    ordered(&world, &printed);
    let words = flow(&source);
    let running = world.start_with(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let publish = |id: &str, body: &str, more: &[&str]| {
        world.does(&[&["publish", &source, body, "--id", id], more].concat());
    };
    publish("order-1", FRIDGE, &[]);
    assert_eq!(world.stands("order-1", "dead")["attempts"], 3, "it waited twice");
    // No step is as long as this: it goes through levels.
    publish("order-2", LAMP, &["--delay", "1300ms"]);
    assert_eq!(world.shipped(1), [LAMP]);
    publish("torn", "hello?", &[]);
    world.stands("torn", "parked");
    world.does(&["discard", "torn", "--reason", "a test order"]);
    eventually("the resolution at the broker", || match world.ready(&world.named(".resolved")) {
        Some(0) | None => Err("nothing yet".to_owned()),
        Some(_) => Ok(()),
    });
    world.does(&["ledger", "rebuild", "--reason", "a look"]);
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    world.does(&["replay", "run", "order-1", "--reason", "fridges are back"]);
    world.stands("order-1", "recovered");
    let quiet = running.said();
    assert!(!quiet.iter().any(|line| line.contains("ACCESS_REFUSED")), "{quiet:?}");
    running.stop();

    for (_, case) in using {
        refuse(case);
    }
    let users: Vec<String> = lacking.into_iter().map(|case| case.user).chain([user]).collect();
    delete_users(&world, &users);
}

/// Makes what a flow needs as a team does that gives arguments by policies: with none but the queue's type.
fn make_without_arguments(world: &World, needed: &[Value]) {
    let retry = world.named(".retry");
    for queue in needed.iter().filter(|thing| thing["kind"] == "queue") {
        world.queue(queue["name"].as_str().unwrap(), &[]);
    }
    let nothing = FieldTable::default;
    world.on_channel(async |channel: Channel| {
        for exchange in needed.iter().filter(|thing| thing["kind"] == "exchange") {
            let kind = match exchange["settings"]["type"].as_str().unwrap() {
                "topic" => ExchangeKind::Topic,
                _ => ExchangeKind::Fanout,
            };
            let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            let name = exchange["name"].as_str().unwrap();
            channel.exchange_declare(name.into(), kind, options, nothing()).await.unwrap();
        }
        for binding in needed.iter().filter(|thing| thing["kind"] == "binding") {
            // `from -> to (key)`
            let (from, to) = binding["name"].as_str().unwrap().split_once(" -> ").unwrap();
            let (to, key) = to.split_once(" (").unwrap_or((to, ")"));
            let key = key.trim_end_matches(')');
            if to == retry {
                let options = ExchangeBindOptions::default();
                channel.exchange_bind(to.into(), from.into(), key.into(), options, nothing()).await.unwrap();
            } else {
                let options = QueueBindOptions::default();
                channel.queue_bind(to.into(), from.into(), key.into(), options, nothing()).await.unwrap();
            }
        }
    });
}

#[test]
fn a_flow_runs_on_queues_that_get_their_arguments_by_the_policies_that_are_printed() {
    let Some(world) = World::open("policies") else { return };
    if !world.server.ours_to_order() {
        return;
    }
    let settings = [
        "to: exec:sh handle.sh",
        POLICY,
        "topology: check",
        "queue: { owned: false }",
        "dead_letter: { options: { x-max-length: '1000' } }",
    ];
    let file = world.configured("redrive.yaml", &settings);
    let needed = world.does(&["topology", "plan", "--json", "-c", &file]).json();
    make_without_arguments(&world, &needed);
    let commands = ordered(&world, &world.does(&["topology", "plan", "--as-policies", "-c", &file]));
    let policies = world.server.tool(&["list_policies", "-p", "/", "--no-table-headers"]);
    let ours = policies.lines().filter(|line| line.contains(&format!("\t{}", world.name))).count();
    assert_eq!(ours, commands.len(), "one replaced another: {policies}");

    let running = world.start_with(&["-c", &file]);
    let said = running.said();
    let drift: Vec<&String> = said.iter().filter(|line| line.contains("inequivalent")).collect();
    assert!(drift.iter().any(|line| line.contains("--as-policies")), "{said:#?}");
    assert!(drift.iter().all(|line| line.contains("a policy")), "{said:#?}");
    world.publish(&world.name, "order-1", FRIDGE, &[]);
    let dead = world.stands("order-1", "dead");
    assert_eq!(dead["attempts"], 3, "it waited and came back twice: {dead}");
    assert_eq!(world.ready(&world.named(".dlq")), Some(1));
    // Through levels, and by the alternate exchange when there is no way back.
    world.publish(&world.name, "order-2", LAMP, &["--delay", "350ms"]);
    assert_eq!(world.shipped(1), [LAMP]);
    world.on_channel(async |channel: Channel| {
        let (queue, exchange) = (world.name.as_str(), world.named(".retry"));
        channel
            .queue_unbind(queue.into(), exchange.as_str().into(), "".into(), FieldTable::default())
            .await
            .unwrap();
    });
    world.publish(&world.name, "order-3", LAMP, &["--delay", "100ms"]);
    assert_eq!(world.shipped(2), [LAMP, LAMP]);
    std::fs::write(world.desk.path("fridges"), "").unwrap();
    world.does(&["replay", "run", "order-1", "--reason", "fridges are back"]);
    world.stands("order-1", "recovered");
    running.stop();

    let names: Vec<String> = commands.iter().map(|words| format!("<<\"{}\">>", words[5])).collect();
    let code =
        format!("[rabbit_policy:delete(<<\"/\">>, N, <<\"test\">>) || N <- [{}]], ok.", names.join(", "));
    world.server.tool(&["eval", &code]);
}
