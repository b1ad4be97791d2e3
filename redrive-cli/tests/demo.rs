//! `redrive demo`, as a person or a script meets it: the built command, its minute made shorter.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_redrive");

/// The demo, with a place for its folder that can be looked into.
fn demo(place: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command.arg("demo").args(arguments).env("TMPDIR", place).env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The figures of the summary, by their names.
fn figures(text: &str) -> HashMap<&str, u64> {
    let pairs = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?.parse().ok()?))
    });
    pairs.collect()
}

fn assert_promises(text: &str) {
    let figures = figures(text);
    let count = |name: &str| *figures.get(name).unwrap_or_else(|| panic!("no {name} in:\n{text}"));
    assert_eq!(count("placed"), 1_120);
    assert_eq!(count("delivered"), 1_117);
    assert_eq!(count("parked"), 3);
    assert_eq!(count("replayed"), 15);
    assert_eq!(count("dead"), 0);
    assert_eq!(count("lost"), 0);
    assert!(count("recovered") > 15, "some came through by their retries:\n{text}");
    assert!(count("attempts") > 1_120, "{text}");
    assert!((1..=100).contains(&count("outage")), "{text}");
}

fn is_empty(folder: &Path) -> bool {
    folder.read_dir().unwrap().next().is_none()
}

#[test]
fn everything_comes_out_as_promised_and_nothing_is_left() {
    let place = tempfile::tempdir().unwrap();
    let ran = demo(place.path(), &["--headless"]).wait_with_output().unwrap();
    let (text, told) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
    assert_eq!(ran.status.code(), Some(0), "{told}\n{text}");
    assert_promises(&text);
    for event in
        ["breaker open", "breaker closed", "parked for a person", "done: 15 of 15 sent, 15 recovered"]
    {
        assert!(told.contains(event), "{event} in:\n{told}");
    }
    assert!(is_empty(place.path()));
}

#[test]
fn the_command_that_it_prints_ends_it() {
    let place = tempfile::tempdir().unwrap();
    let mut child = demo(place.path(), &["--speed", "10"]);
    let mut stderr = child.stderr.take().unwrap();
    let told = std::thread::spawn(move || {
        let mut told = String::new();
        stderr.read_to_string(&mut told).map(|_| told)
    });
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(" replay run ") {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended without a command");
    }
    let typed = Command::new("sh").args(["-c", line.trim()]).output().unwrap();
    let answer = String::from_utf8_lossy(&typed.stdout).into_owned();
    assert!(typed.status.success(), "{answer}{}", String::from_utf8_lossy(&typed.stderr));
    assert!(answer.contains("15 recovered, 0 failed again"), "{answer}");
    let mut text = String::new();
    stdout.read_to_string(&mut text).unwrap();
    let told = told.join().unwrap().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{told}\n{text}");
    assert_promises(&text);
    assert!(!told.contains("replay run"), "nobody had to type it twice:\n{told}");
    assert!(is_empty(place.path()));
}

#[test]
fn a_demo_that_is_interrupted_leaves_nothing_behind() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let place = tempfile::tempdir().unwrap();
        let mut child = demo(place.path(), &[]);
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(" placed,") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended by itself");
        }
        assert!(!is_empty(place.path()), "it has its data here");
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{rest}");
        assert!(rest.contains("nothing is left behind"), "{rest}");
        assert!(is_empty(place.path()));
    }
}

#[test]
fn a_pace_that_makes_no_sense_is_refused() {
    for speed in ["0", "-1", "fast", "1000", "NaN"] {
        let ran = Command::new(BINARY).args(["demo", &format!("--speed={speed}")]).output().unwrap();
        assert_eq!(ran.status.code(), Some(2), "{speed}");
    }
}
