//! The real binary: as an instance that runs, and as commands beside it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redrive::engine::port::{Broker as _, EntryState, Filter, Ledger as _, Page};
use redrive::sqlite::{Options, Store};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::Value;

use crate::http::{Journal, post, read};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_redrive");

/// How long anything is awaited before it counts as missing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks again until there is an answer.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// What a command left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
}

/// Runs a command to its end. Lines are broken for a terminal, so the words are put together again.
pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.stdin(Stdio::null()).env("NO_COLOR", "1").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let words: Vec<_> = text.split([' ', '\n', '│']).filter(|word| !word.is_empty()).collect();
    Ran { code: output.status.code(), said: words.join(" ") }
}

pub(crate) fn run_arguments(data: &Path, handler: &str) -> Vec<String> {
    let config = data.with_extension("yaml");
    let text = format!(
        "version: 1
flows:
  orders:
    from: queue:orders
    to: {handler}
    retry: 1s x3
    concurrency: 4
"
    );
    std::fs::write(&config, text).unwrap();
    let (config, data) = (config.to_str().unwrap(), data.to_str().unwrap());
    ["run", "-c", config, "--listen", "127.0.0.1:0", "--data", data].map(str::to_owned).to_vec()
}

/// A running `redrive run`.
pub(crate) struct Process {
    child: Child,
    data: PathBuf,
    log: Arc<Mutex<String>>,
}

impl Process {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(data: &Path, handler: &Journal, env: &[(&str, &str)]) -> Self {
        let arguments = run_arguments(data, &format!("http://{}/orders", handler.address));
        // The system ends a process that writes beyond its limit, unless it does not care for that signal; then the
        // write fails, as on a disk that is full.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", BINARY]).args(arguments);
        command.envs(env.iter().copied()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said = String::new();
        let ready = lines.by_ref().any(|line| {
            said.push_str(&line);
            line.starts_with("redrive ready")
        });
        assert!(ready, "it ended before it was ready: {said}");
        let log = Arc::new(Mutex::new(said));
        let written = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines {
                let mut log = written.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Self { child, data: data.to_owned(), log }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    fn file(&self, name: &str) -> String {
        let mut folder = self.data.as_os_str().to_owned();
        folder.push(".d");
        std::fs::read_to_string(Path::new(&folder).join(name)).unwrap().trim().to_owned()
    }

    fn address(&self) -> String {
        self.file("address").trim_start_matches("http://").to_owned()
    }

    /// Publishes one message and answers with the status and what was said.
    pub(crate) fn publish(&self, id: &str, body: &str) -> (u16, String) {
        let path = format!("/v1/queues/orders/messages?id={id}");
        post(&self.address(), &self.file("token"), &path, "text/plain", body).unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        let (address, token) = (self.address(), self.file("token"));
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let (headers, body) = read(&mut BufReader::new(stream)).unwrap();
        let status = headers[""].split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// The one flow, as the API shows it.
    pub(crate) fn flow(&self) -> Value {
        let (_, shown) = self.get("/v1/flows");
        shown["flows"][0].clone()
    }

    /// The names of the flow's alarms and what they say.
    pub(crate) fn alarms(&self) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let flow = self.flow();
        let alarms = flow["alarms"].as_array().cloned().unwrap_or_default();
        alarms.iter().map(|alarm| (text(&alarm["name"]), text(&alarm["text"]))).collect()
    }

    /// From now on no file may grow beyond so many bytes; nothing lifts the limit.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(self.pid()), Resource::Fsize, limit).unwrap();
    }

    /// Asks it to stop and waits until it has.
    pub(crate) fn stop(mut self) -> ExitStatus {
        kill_process(self.pid(), Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    /// A test that failed leaves nothing behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens the file when nobody else has it: it is sound, its queues are empty, and these are its entries.
pub(crate) fn entries_of(data: &Path) -> BTreeMap<String, EntryState> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(data, Options::default()).unwrap();
        assert_eq!(store.check().await.unwrap(), []);
        for queue in store.queues().await.unwrap() {
            assert_eq!((queue.depth.ready, queue.depth.waiting), (0, 0), "{} is not empty", queue.name);
        }
        let page = Page { limit: 1_000, after: None };
        let found = store.search(&Filter::default(), &page).await.unwrap().entries;
        found.into_iter().map(|entry| (entry.message.id, entry.state)).collect()
    })
}
