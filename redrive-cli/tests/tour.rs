//! The README's tour is what happens: its commands are run one after the other, and what they print is what it shows.

mod desk;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use desk::masked;
use regex::Regex;

/// How long anything is awaited.
const PATIENCE: Duration = Duration::from_secs(60);
/// A line that stands for any number of lines.
const ANY: &str = "…";

/// A command of the README, and what it promises.
#[derive(Debug)]
struct Step {
    typed: String,
    promised: Vec<String>,
}

/// The commands of a section: those behind a `$` in its `console` blocks, with the lines that follow. A command goes on
/// over lines while a here-document is open.
fn steps(page: &str, heading: &str) -> Vec<Step> {
    let section = page.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut steps: Vec<Step> = Vec::new();
    for block in section.split("```console\n").skip(1) {
        let mut open = None;
        for line in block.split("\n```").next().unwrap().lines() {
            if let Some(end) = open {
                let step = steps.last_mut().unwrap();
                step.typed.push_str(&format!("\n{line}"));
                open = Some(end).filter(|end| *end != line);
            } else if let Some(typed) = line.strip_prefix("$ ") {
                steps.push(Step { typed: typed.to_owned(), promised: Vec::new() });
                open = typed.split("<<'").nth(1).and_then(|rest| rest.split('\'').next());
            } else {
                steps.last_mut().unwrap().promised.push(line.to_owned());
            }
        }
    }
    steps
}

/// Lines as they are compared: ids, times, spans and ports differ from run to run, and with them the columns.
fn comparable(text: &str) -> Vec<String> {
    let spans = Regex::new(r"\b\d+(\.\d+)?(us|ms|s)\b").unwrap();
    let port = Regex::new(r"127\.0\.0\.1:\d+").unwrap();
    let masked = masked(text);
    let lines = masked.lines().map(|line| {
        let line = spans.replace_all(line, "SPAN");
        let line = port.replace_all(&line, "ADDRESS");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    lines.collect()
}

/// Whether lines are those that were promised.
fn kept(promised: &[String], printed: &[String]) -> bool {
    match promised.split_first() {
        None => printed.is_empty(),
        Some((any, rest)) if any == ANY => (0..=printed.len()).any(|from| kept(rest, &printed[from..])),
        Some((line, rest)) => {
            printed.first().is_some_and(|first| is_line(line, first)) && kept(rest, &printed[1..])
        }
    }
}

/// Whether a line is the one that was promised, in which the same sign stands for any text.
fn is_line(promised: &str, printed: &str) -> bool {
    if promised == printed {
        return true;
    }
    match promised.split_once(ANY) {
        Some((before, after)) => {
            printed.len() >= before.len() + after.len()
                && printed.starts_with(before)
                && printed.ends_with(after)
        }
        None => false,
    }
}

fn shell(folder: &Path, typed: &str) -> Command {
    let binary = Path::new(desk::BINARY).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", typed])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", binary.display()))
        .env("TZ", "UTC")
        .env("REDRIVE_USER", "ada")
        .env_remove("REDRIVE_DATA")
        .env_remove("REDRIVE_CONFIG")
        .env_remove("REDRIVE_TOKEN");
    command
}

/// Runs a command to its end, everything it says in one text as a terminal shows it.
fn run(folder: &Path, typed: &str) -> String {
    let output = shell(folder, &format!("{{ {typed}\n}} 2>&1")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "`{typed}` ended with {}: {text}", output.status);
    text
}

/// An instance in another terminal.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(folder: &Path, typed: &str) -> Self {
        let mut command = shell(folder, &format!("exec {typed}"));
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        // Read to its end, so that it never waits for a reader.
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Self { child, lines }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap()
}

/// Does what the steps say, in a folder.
fn take(steps: Vec<Step>, folder: &Path) {
    let mut running = None;
    for Step { typed, promised } in steps {
        let promise = comparable(&promised.join("\n"));
        // Another port than the one that whoever runs the tests may use.
        let typed = typed.replace("redrive run ", "redrive run --listen 127.0.0.1:0 ");
        if typed.starts_with("redrive run ") && !typed.contains("--exit-when-idle") {
            let started = Running::start(folder, &typed);
            let mut said = Vec::new();
            while !kept(&promise, &said) {
                let Ok(line) = started.lines.recv_timeout(PATIENCE) else {
                    panic!("$ {typed}\nsaid {said:#?}\nand the README promises {promise:#?}")
                };
                said.extend(comparable(&line));
            }
            running = Some(started);
            continue;
        }
        if typed.starts_with("kill ") {
            run(folder, &typed);
            let status = running.take().expect("something to kill").child.wait().unwrap();
            assert!(!status.success(), "it was killed: {status}");
            continue;
        }
        // What is only looked at may need a moment to become what it will be.
        let looks = ["redrive messages ", "redrive audit ", "cat shipped"];
        let until = Instant::now()
            + if looks.iter().any(|look| typed.starts_with(look)) { PATIENCE } else { Duration::ZERO };
        loop {
            let printed = run(folder, &typed);
            if kept(&promise, &comparable(&printed)) {
                break;
            }
            assert!(
                Instant::now() < until,
                "$ {typed}\nprinted\n{printed}\nand the README promises\n{}",
                promised.join("\n")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn the_tour_is_what_happens() {
    let steps = steps(&readme(), "Five minutes");
    assert!(steps.len() > 12, "{steps:?}");
    let folder = tempfile::tempdir().unwrap();
    take(steps, folder.path());
}

/// A name that no other test uses, as long as `orders`, so that tables look the same.
fn like_orders() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    format!("o{:05x}", (now ^ std::process::id()) & 0xf_ffff)
}

/// Takes the tour of a broker in a new folder with the handler of the first one: what containers would do is done on a
/// server of the tests, whose queue or topic has this name.
fn take_elsewhere(steps: Vec<Step>, name: &str, here: impl Fn(&str) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let handler = self::steps(&readme(), "Five minutes").into_iter();
    let handler = handler.into_iter().find(|step| step.typed.contains("> handle.sh"));
    run(folder.path(), &handler.expect("a handler").typed);
    let orders = Regex::new(r"\borders\b").unwrap();
    let here = |text: &str| here(&orders.replace_all(text, name));
    let steps = steps.into_iter().map(|step| Step {
        typed: here(&step.typed),
        promised: step.promised.iter().map(|line| here(line)).collect(),
    });
    take(steps.collect(), folder.path());
}

#[cfg(feature = "kafka")]
#[test]
fn the_tour_on_kafka_is_what_happens() {
    let services = testkit::Services::connect();
    let Some(server) = services.kafka() else { return };
    let name = like_orders();
    let (containers, steps): (Vec<Step>, Vec<Step>) = steps(&readme(), "Five minutes on Kafka")
        .into_iter()
        .partition(|step| step.typed.starts_with("docker "));
    let [_, create] = &containers[..] else { panic!("{containers:?}") };
    let create = format!("{} {}", create.typed, create.promised.join(" "));
    assert!(create.ends_with("--create --topic orders --partitions 3"), "{create}");
    testkit::kafka::Kafka::at(server.address()).topic(&name, 3, &[]);
    assert!(steps.len() > 5, "{steps:?}");
    take_elsewhere(steps, &name, |text| {
        let text = text.replace("127.0.0.1:9092", server.address());
        text.replace("group=worker", &format!("group={name}"))
    });
}

#[cfg(feature = "rabbitmq")]
#[test]
fn the_tour_on_rabbitmq_is_what_happens() {
    let services = testkit::Services::connect();
    let Some(server) = services.rabbitmq() else { return };
    let (containers, steps): (Vec<Step>, Vec<Step>) = steps(&readme(), "Five minutes on RabbitMQ")
        .into_iter()
        .partition(|step| step.typed.starts_with("docker "));
    assert_eq!(containers.len(), 1, "{containers:?}");
    assert!(steps.len() > 4, "{steps:?}");
    let server = server.address().split('@').nth(1).and_then(|place| place.split('/').next()).unwrap();
    take_elsewhere(steps, &like_orders(), |text| text.replace("127.0.0.1:5672", server));
}

#[test]
fn promises_are_compared_line_by_line() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    assert!(kept(&lines("a\n…\nd"), &lines("a\nb\nc\nd")));
    assert!(kept(&lines("a\n…"), &lines("a")));
    assert!(!kept(&lines("a\n…\nd"), &lines("a\nb")));
    assert!(!kept(&lines("a"), &lines("a\nb")));
    assert!(!kept(&lines("a\nb"), &lines("a")));
    assert!(kept(&lines("a (b, …)"), &lines("a (b, c, d)")));
    assert!(!kept(&lines("a (b, …)"), &lines("a (c)")));
    let steps =
        steps("x\n## T\n```console\n$ cat <<'E'\n$ in\nE\nout\n$ b\n```\n## U\n```console\n$ c\n```\n", "T");
    let told: Vec<_> = steps.iter().map(|step| (step.typed.as_str(), step.promised.concat())).collect();
    assert_eq!(told, [("cat <<'E'\n$ in\nE", "out".to_owned()), ("b", String::new())]);
}
