//! The built command in a folder, away from the settings of whoever runs the tests.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_redrive");

/// A folder, and the commands that are run in it.
pub(crate) struct Desk {
    folder: PathBuf,
    env: Vec<(&'static str, &'static str)>,
    /// Removed when the desk is.
    own: Option<TempDir>,
}

pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Desk {
    /// A folder with nothing in it.
    pub(crate) fn new() -> Self {
        let own = tempfile::tempdir().unwrap();
        Self { folder: own.path().to_owned(), env: vec![("TZ", "UTC")], own: Some(own) }
    }

    /// A folder that is there.
    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), env: vec![("TZ", "Europe/Berlin")], own: None }
    }

    pub(crate) fn env(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("redrive.db")
    }

    pub(crate) fn run_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = Command::new(BINARY)
            .args(arguments)
            .current_dir(&self.folder)
            .env_clear()
            .env("NO_COLOR", "1")
            .env("REDRIVE_USER", "tester")
            .envs(self.env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that refuses early does not read.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, b"")
    }

    /// Commands one after the other, each with everything it said; in a folder of its own, where data is made, what
    /// differs from run to run is masked.
    pub(crate) fn session(&self, commands: &[&[&str]]) -> String {
        let mut told = String::new();
        for arguments in commands {
            let words: Vec<_> = arguments
                .iter()
                .map(|word| if word.contains([' ', '*']) { format!("'{word}'") } else { (*word).to_owned() })
                .collect();
            let ran = self.run(arguments);
            write!(told, "$ redrive {}\n{}", words.join(" "), ran.text()).unwrap();
            if !ran.stderr.is_empty() {
                write!(told, "--- stderr\n{}", ran.stderr).unwrap();
            }
            write!(told, "--- exit {}\n\n", ran.code).unwrap();
        }
        if self.own.is_some() { masked(&told) } else { told }
    }
}

/// Ids become numbers in the order in which they are met, times one time; both stay as wide as they are.
pub(crate) fn masked(text: &str) -> String {
    fn fits(shape: &[u8], bytes: &[u8]) -> bool {
        bytes.len() >= shape.len()
            && shape.iter().zip(bytes).all(|(shape, byte)| match shape {
                b'x' => byte.is_ascii_hexdigit(),
                b'd' => byte.is_ascii_digit(),
                other => other == byte,
            })
    }
    const ID: &[u8] = b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    const TIME: &[u8] = b"dddd-dd-dd dd:dd:dd";
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut out = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let taken = if fits(ID, rest.as_bytes()) {
            let fresh = numbers.len() + 1;
            let number = *numbers.entry(&rest[..ID.len()]).or_insert(fresh);
            write!(out, "{:-<36}", format!("id-{number}")).unwrap();
            ID.len()
        } else if fits(TIME, rest.as_bytes()) {
            out.push_str("2026-07-01 09:00:00");
            TIME.len()
        } else {
            out.push(next);
            next.len_utf8()
        };
        rest = &rest[taken..];
    }
    out
}
