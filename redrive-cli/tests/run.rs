//! `redrive run`, from its flags to its end.

mod desk;

use desk::Desk;

/// Ends by itself as soon as nothing is left to do, and listens nowhere.
const BRIEFLY: [&str; 6] = ["--listen", "off", "--exit-when-idle", "100ms", "--log-level", "error"];

fn run(desk: &Desk, arguments: &[&str]) -> desk::Ran {
    desk.run(&[&["run"], arguments, &BRIEFLY].concat())
}

#[test]
fn a_run_that_cannot_says_what_to_do() {
    let desk = Desk::new();
    let file = "version: 1\npolicies: { payments: { retry: 1s } }\nflows: {}\n";
    std::fs::write(desk.path("other.yaml"), file).unwrap();
    let flow = ["run", "--from", "queue:orders", "--to", "exec:./handle.sh"];
    let with = |more: &[&'static str]| [&flow, more].concat();
    let commands = [
        vec!["run"],
        vec!["run", "--from", "queue:orders"],
        vec!["run", "--to", "exec:./handle.sh"],
        vec!["run", "--from", "orders", "--to", "exec:./handle.sh"],
        vec!["run", "-c", "other.yaml"],
        with(&["--retry", "10 seconds"]),
        with(&["--listen", "0.0.0.0:7337"]),
        with(&["--listen", "7337"]),
        with(&["-c", "other.yaml"]),
        with(&["--policy", "payments"]),
        with(&["--policy", "payment", "-c", "other.yaml"]),
    ];
    let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
    insta::assert_snapshot!(desk.session(&commands));
}

#[test]
fn a_policy_is_a_preset_or_one_of_the_file() {
    let desk = Desk::new();
    let file = "version: 1
holidays: { fair: [2026-07-01] }
rules: [{ when: { exit: 3 }, class: TRANSIENT, reason: PRINTER_JAMMED }]
policies:
  default: { exits: { default: park } }
  printing: { local: '1ms x2', retry: { CONTENTION: 'calendar(mon-fri 09:00-17:00 UTC, holidays fair)' } }
";
    std::fs::write(desk.path("redrive.yaml"), file).unwrap();
    std::fs::write(desk.path("handle.sh"), "exit 3\n").unwrap();
    let flow = ["--from", "queue:labels", "--to", "exec:sh handle.sh"];
    for (policy, id) in [("printing", "a"), ("spring", "b")] {
        assert_eq!(desk.run(&["publish", "queue:labels", "x", "--id", id]).code, 0);
        let ran = run(&desk, &[&flow[..], &["--policy", policy, "--attempts", "3"]].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    let stands = |id: &str| {
        let shown = &desk.run(&["messages", "show", id, "--json"]).json()[0];
        (shown["state"].clone(), shown["reason"].clone(), shown["attempts"].clone())
    };
    assert_eq!(stands("a"), ("parked".into(), "PRINTER_JAMMED".into(), 3.into()), "the file's own");
    assert_eq!(stands("b").1, "COMMAND_FAILED", "a preset needs no file and takes nothing from one");
}

#[test]
fn a_taken_port_and_a_file_in_use_have_their_own_pages() {
    let desk = Desk::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let flow = ["run", "--from", "queue:orders", "--to", "exec:true", "--listen"];
    let ran = desk.run(&[&flow[..], &[&listen]].concat());
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("RD-API-21"), "{}", ran.stderr);
    let _held = redrive::sqlite::Store::open(desk.data(), redrive::sqlite::Options::default()).unwrap();
    let ran = desk.run(&[&flow[..], &["off"]].concat());
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("RD-DATA-02"), "{}", ran.stderr);
}

#[test]
fn every_command_finds_the_data_where_the_run_has_it() {
    let desk = Desk::new();
    std::fs::write(desk.path("redrive.yaml"), "version: 1\ndata: ./orders.db\n").unwrap();
    assert_eq!(desk.run(&["publish", "queue:orders", "x", "--id", "a"]).code, 0);
    let flow = ["--from", "queue:orders", "--to", "exec:sh -c 'exit 65'"];
    let ran = run(&desk, &flow);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let shown = desk.run(&["messages", "show", "a", "--json"]);
    assert_eq!(shown.json()[0]["state"], "parked", "{}", shown.stderr);
    assert!(desk.path("orders.db").exists() && !desk.data().exists());

    let desk = desk.env("REDRIVE_DATA", "other.db");
    assert_eq!(desk.run(&["messages", "ls"]).code, 3, "the environment goes first");
    assert_eq!(desk.run(&["messages", "ls", "--data", "orders.db"]).code, 0, "and the flag before it");

    let desk = Desk::new();
    std::fs::write(desk.path("redrive.yaml"), "version: 1\ndatta: ./orders.db\n").unwrap();
    insta::assert_snapshot!(desk.session(&[&["queues"]]));
}
