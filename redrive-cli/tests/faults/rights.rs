//! A file and a folder that may only be read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{BINARY, Ran, ran, run_arguments};

const NOBODY: u32 = 65_534;

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A folder with a data file that holds one message, and somebody to whom rights apply.
struct Place {
    folder: tempfile::TempDir,
    program: PathBuf,
    /// Root may write whatever the rights say, so nobody has to try.
    as_nobody: bool,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let published = ran(Command::new(BINARY)
            .args(["publish", "queue:orders", "hello", "--id", "order-1", "--data"])
            .arg(path.join("redrive.db")));
        assert_eq!(published.code, Some(0), "{published:?}");
        fs::write(path.join("probe"), "").unwrap();
        allow(&path.join("probe"), 0o444);
        let as_nobody = fs::OpenOptions::new().append(true).open(path.join("probe")).is_ok();
        let mut program = PathBuf::from(BINARY);
        if as_nobody {
            // He needs a way to the program, and to everything that is not in question.
            program = path.join("program");
            fs::hard_link(BINARY, &program).or_else(|_| fs::copy(BINARY, &program).map(drop)).unwrap();
            for entry in fs::read_dir(path.join("redrive.db.d")).unwrap() {
                std::os::unix::fs::chown(entry.unwrap().path(), Some(NOBODY), None).unwrap();
            }
            for name in ["", "redrive.db", "redrive.db.d"] {
                std::os::unix::fs::chown(path.join(name), Some(NOBODY), None).unwrap();
            }
        }
        Self { folder, program, as_nobody }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("redrive.db")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if self.as_nobody {
            command.uid(NOBODY);
        }
        command
    }

    /// What `run`, a command that writes and one that only looks have to say.
    fn tried(&self) -> [Ran; 3] {
        let config = tempfile::tempdir().unwrap();
        allow(config.path(), 0o755);
        let mut arguments = run_arguments(&config.path().join("x"), "http://127.0.0.1:1/orders");
        arguments.pop();
        let data = self.data();
        [
            ran(self.command().args(arguments).arg(&data)),
            ran(self.command().args(["publish", "queue:orders", "hello", "--data"]).arg(&data)),
            ran(self.command().args(["messages", "ls", "--data"]).arg(&data)),
        ]
    }

    fn assert_refused(&self) {
        for Ran { code, said } in self.tried() {
            assert_eq!(code, Some(1), "{said}");
            assert!(said.starts_with("RD-"), "{said}");
            assert!(said.contains("redrive.db cannot be written"), "{said}");
            assert!(said.contains("check the rights of the file and of its folder"), "{said}");
        }
    }

    /// With the rights back, the message is there.
    fn assert_whole(&self) {
        let queues = ran(self.command().args(["queues", "--json", "--data"]).arg(self.data()));
        assert_eq!(queues.code, Some(0), "{queues:?}");
        assert!(queues.said.contains("\"ready\":1"), "{queues:?}");
    }
}

#[test]
fn a_file_that_may_only_be_read_is_refused_by_name() {
    let place = Place::new();
    allow(&place.data(), 0o444);
    place.assert_refused();
    allow(&place.data(), 0o644);
    place.assert_whole();
}

#[test]
fn a_folder_that_may_only_be_read_is_refused_by_name() {
    let place = Place::new();
    // The file and its own folder can be written, but nothing can be put beside them, which SQLite needs.
    allow(place.folder.path(), 0o555);
    place.assert_refused();
    allow(place.folder.path(), 0o755);
    place.assert_whole();
}

#[test]
fn a_folder_that_takes_no_new_file_is_refused_by_name() {
    let place = Place::new();
    let closed = place.folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    allow(&closed, 0o555);
    let refused =
        ran(place.command().args(["publish", "queue:orders", "hello", "--data"]).arg(closed.join("new.db")));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.said.contains("new.db cannot be written"), "{refused:?}");
}
