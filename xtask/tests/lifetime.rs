//! Nothing is left running, whoever dies: the parent of the supervisor, or the supervisor itself.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

/// Waits for something that other processes bring about.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn alive(pid: u64) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|text| !text.contains(") Z "))
}

/// Every process that mentions the folder on its command line or works in it.
fn processes_in(folder: &Path) -> Vec<u64> {
    let own = u64::from(std::process::id());
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own && alive(*pid))
        .filter(|pid| {
            let mentions = fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&*folder.to_string_lossy()));
            let works_there =
                fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|place| place.starts_with(folder));
            mentions || works_there
        })
        .collect()
}

struct Supervisor {
    socket: PathBuf,
    folder: PathBuf,
    pid: u64,
}

impl Supervisor {
    fn read(stdout: impl std::io::Read) -> Self {
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        Self {
            socket: ready["socket"].as_str().unwrap().into(),
            folder: ready["folder"].as_str().unwrap().into(),
            pid: ready["pid"].as_u64().unwrap(),
        }
    }

    fn ask(&self, request: &str) -> Value {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        writeln!(stream, "{request}").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Starts a PostgreSQL and returns its process. Only this server: it is on most machines and quick.
    fn postgres(&self) -> Option<u64> {
        let answer = self.ask(r#"{"need":"postgres"}"#);
        if let Some(reason) = answer["unavailable"].as_str() {
            let strict = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
            assert!(!strict, "skipped is failed with CI=true: {reason}");
            report_skipped(reason);
            return None;
        }
        assert!(answer["address"].is_string(), "{answer}");
        let status = self.ask(r#"{"status":true}"#);
        let pid = status["status"]["servers"][0]["pids"][0].as_u64().unwrap();
        assert!(alive(pid));
        Some(pid)
    }
}

/// Tells the run that this test belongs to, so that its summary names it.
fn report_skipped(reason: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    eprintln!("{test}: skipped: {reason}");
    if let Some(socket) = std::env::var_os("REDRIVE_SERVICES") {
        let skip = serde_json::json!({"skip": {"test": test, "kind": "skipped", "reason": reason}});
        let mut stream = UnixStream::connect(socket).unwrap();
        writeln!(stream, "{skip}").unwrap();
    }
}

fn serve() -> Command {
    let mut command = Command::new(XTASK);
    command.args(["services", "serve"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    // This is about a server of ours.
    command.env_remove("REDRIVE_TEST_POSTGRES");
    command
}

fn start() -> (Child, ChildStdin, Supervisor) {
    let mut child = serve().spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    let supervisor = Supervisor::read(child.stdout.take().unwrap());
    (child, stdin, supervisor)
}

#[test]
fn a_killed_parent_takes_the_servers_with_it() {
    // The shell holds the pipe, as xtask or a test process does, and is killed without a chance to clean up.
    let mut parent = Command::new("sh")
        .args(["-c", "mkfifo \"$0/pipe\"; \"$1\" services serve <\"$0/pipe\" & exec 9>\"$0/pipe\"; wait"])
        .arg(fresh_folder())
        .arg(XTASK)
        .env_remove("REDRIVE_TEST_POSTGRES")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let supervisor = Supervisor::read(parent.stdout.take().unwrap());
    let server = supervisor.postgres();
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("the supervisor ends", || !alive(supervisor.pid));
    assert!(server.is_none_or(|pid| !alive(pid)), "the server outlived its supervisor");
    assert!(!supervisor.folder.exists(), "the folder is still there");
    assert_eq!(processes_in(&supervisor.folder), Vec::<u64>::new());
}

#[test]
fn a_killed_supervisor_takes_the_servers_with_it_and_the_next_one_cleans_up() {
    let (mut child, _stdin, supervisor) = start();
    let server = supervisor.postgres();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the server ends", || server.is_none_or(|pid| !alive(pid)));
    wait_until("its children end", || processes_in(&supervisor.folder).is_empty());

    let (mut next, stdin, _) = start();
    // It may be a supervisor of another test that starts at this moment and is about to remove it.
    wait_until("the next supervisor removes the folder", || !supervisor.folder.exists());
    drop(stdin);
    assert!(next.wait().unwrap().success());
}

#[test]
fn a_signal_ends_everything_in_order() {
    for signal in ["INT", "TERM", "HUP"] {
        let (mut child, _stdin, supervisor) = start();
        let server = supervisor.postgres();
        let sent = Command::new("kill").args(["-s", signal, &supervisor.pid.to_string()]).status().unwrap();
        assert!(sent.success());
        assert!(child.wait().unwrap().success(), "{signal}");
        assert!(server.is_none_or(|pid| !alive(pid)), "{signal}");
        assert!(!supervisor.folder.exists(), "{signal}");
    }
}

#[test]
fn a_client_that_goes_takes_its_own_server_along() {
    let (mut child, stdin, supervisor) = start();
    let mut client = UnixStream::connect(&supervisor.socket).unwrap();
    writeln!(client, r#"{{"need":"postgres","own":true}}"#).unwrap();
    let mut line = String::new();
    BufReader::new(&client).read_line(&mut line).unwrap();
    let running = || supervisor.ask(r#"{"status":true}"#)["status"]["servers"].as_array().unwrap().len();
    assert_eq!(running(), 1, "{line}");
    drop(client);
    wait_until("the server of the client ends", || running() == 0);
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn logs_are_kept_only_when_something_failed() {
    for (request, kept) in [(r#"{"status":true}"#, false), (r#"{"failed":true}"#, true)] {
        let (mut child, stdin, supervisor) = start();
        supervisor.ask(request);
        let place = supervisor.ask(r#"{"status":true}"#)["status"]["kept_logs"].clone();
        drop(stdin);
        assert!(child.wait().unwrap().success());
        assert_eq!(place.is_string(), kept, "{place}");
        if let Some(place) = place.as_str() {
            assert!(Path::new(place).join("supervisor.log").exists());
            fs::remove_dir_all(place).unwrap();
        }
    }
}

#[test]
fn a_given_server_is_handed_on_and_not_touched() {
    let mut command = serve();
    let mut child = command.env("REDRIVE_TEST_KAFKA", "kafka.example:9092").spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    let supervisor = Supervisor::read(child.stdout.take().unwrap());
    let answer = supervisor.ask(r#"{"need":"kafka"}"#);
    assert_eq!(
        (answer["address"].as_str(), answer["given"].as_bool()),
        (Some("kafka.example:9092"), Some(true))
    );
    for request in [r#"{"stop":"kafka"}"#, r#"{"kill":"kafka"}"#, r#"{"start":"kafka"}"#] {
        let error = supervisor.ask(request)["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains("not applicable"), "{request}: {error}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn nonsense_is_answered_with_an_error() {
    let (mut child, stdin, supervisor) = start();
    for request in ["", "{}", "nonsense", r#"{"need":"oracle"}"#, r#"{"stop":"kafka"}"#] {
        assert!(supervisor.ask(request)["error"].is_string(), "{request}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

/// A folder that is removed by nobody but holds only an empty pipe, in cargo's own temporary place.
fn fresh_folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("parent-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}
