//! The process that owns the servers.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{Context, Result};

use super::folder::Folder;
use super::given;
use super::instance::{self, Instance, Order};
use super::maven::{Program, Workshop};
use super::protocol::{Answer, Kind, Request, ServerStatus, Skip, Status};
use super::service::{Ending, Site, Trouble};

const SHARED: &str = "shared";
/// No request is longer than this; it keeps a client that never ends its line from filling the memory.
const MAX_LINE: u64 = 1 << 20;

/// What the process that started the supervisor reads from it: where the socket is.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Ready {
    pub(super) socket: String,
    pub(super) folder: String,
    pub(super) pid: u32,
}

/// Why the supervisor ends.
enum End {
    ParentGone,
    Signal(i32),
    Asked,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ParentGone => f.write_str("the parent is gone"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::Asked => f.write_str("asked to"),
        }
    }
}

/// Owns servers until the parent is gone, a signal comes, or somebody asks for the end.
pub(super) fn serve(detached: bool, quick: bool) -> Result<()> {
    // A session of its own: what is typed in the parent's terminal is not meant for the servers. It fails for a
    // process that already leads a group, and that is as good.
    let _ = rustix::process::setsid();

    let (ends, end) = mpsc::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for signals")?;
    let on_signal = ends.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let _ = on_signal.send(End::Signal(signal));
        }
    });

    let folder = Folder::create()?;
    let socket = folder.path().join("socket");
    let state = Arc::new(State::new(&folder, quick, ends.clone())?);
    let listener =
        UnixListener::bind(&socket).context(format_args!("cannot listen on {}", socket.display()))?;
    let ready = Ready {
        socket: socket.display().to_string(),
        folder: folder.path().display().to_string(),
        pid: std::process::id(),
    };
    let line = serde_json::to_string(&ready).context("cannot describe the socket")?;
    // The parent may have died already; the end of the pipe says so too.
    let _ = writeln!(std::io::stdout(), "{line}");

    if !detached {
        std::thread::spawn(move || {
            let mut ignored = [0; 512];
            while matches!(std::io::stdin().read(&mut ignored), Ok(length) if length > 0) {}
            let _ = ends.send(End::ParentGone);
        });
    }
    let accepting = Arc::clone(&state);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let state = Arc::clone(&accepting);
            std::thread::spawn(move || Connection { state, own: Vec::new() }.serve(&stream));
        }
    });

    let why = end.recv().context("the supervisor lost its way")?;
    state.note(&format!("ending: {why}"));
    state.end();
    let keep_logs = state.failed.load(Ordering::SeqCst);
    folder.remove(keep_logs)
}

struct State {
    began: Instant,
    ends: Sender<End>,
    ending: Ending,
    quick: bool,
    failed: AtomicBool,
    own_count: AtomicU32,
    folder: std::path::PathBuf,
    logs: std::path::PathBuf,
    kept_logs: std::path::PathBuf,
    instances: Mutex<BTreeMap<(Kind, String), Instance>>,
    given: Mutex<BTreeMap<Kind, ServerStatus>>,
    past: Mutex<Vec<ServerStatus>>,
    skips: Mutex<Vec<Skip>>,
    log: Mutex<File>,
}

impl State {
    fn new(folder: &Folder, quick: bool, ends: Sender<End>) -> Result<Self> {
        let log = File::create(folder.logs().join("supervisor.log")).context("cannot write a log")?;
        Ok(Self {
            began: Instant::now(),
            ends,
            ending: Ending::default(),
            quick,
            failed: AtomicBool::new(false),
            own_count: AtomicU32::new(0),
            folder: folder.path().to_path_buf(),
            logs: folder.logs(),
            kept_logs: folder.kept_logs().to_path_buf(),
            instances: Mutex::default(),
            given: Mutex::default(),
            past: Mutex::default(),
            skips: Mutex::default(),
            log: Mutex::new(log),
        })
    }

    fn note(&self, text: &str) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not keep the servers from being stopped.
        let _ = writeln!(log, "{:>8.2} s  {text}", self.began.elapsed().as_secs_f64());
    }

    /// Stops everything, all servers at the same time.
    fn end(&self) {
        self.ending.ask();
        let instances = std::mem::take(&mut *self.instances.lock().unwrap_or_else(PoisonError::into_inner));
        std::thread::scope(|scope| {
            for instance in instances.into_values() {
                scope.spawn(move || drop(instance));
            }
        });
    }

    fn need(&self, kind: Kind, nodes: usize, name: &str, settings: Option<String>) -> Answer {
        if let Some(address) = given::address(kind) {
            let status = ServerStatus {
                kind,
                instance: SHARED.to_owned(),
                state: format!("given by {}", given::variable(kind)),
                address: Some(address.clone()),
                version: None,
                given: true,
                started_in_ms: None,
                pids: Vec::new(),
            };
            self.given.lock().unwrap_or_else(PoisonError::into_inner).insert(kind, status);
            return Answer::Server { address, version: None, given: true, instance: SHARED.to_owned() };
        }
        if self.quick && kind == Kind::Kafka {
            return Answer::LeftOut { left_out: "a quick run does without Java".to_owned() };
        }
        let orders = {
            let mut instances = self.instances.lock().unwrap_or_else(PoisonError::into_inner);
            if self.ending.is_asked() {
                return Answer::error("the supervisor is ending");
            }
            let instance = instances.entry((kind, name.to_owned())).or_insert_with(|| {
                let title = format!("{kind}-{name}");
                let site = Site {
                    folder: self.folder.join(&title),
                    logs: self.logs.clone(),
                    name: title,
                    settings,
                    ending: self.ending.clone(),
                };
                Instance::new(kind, name, nodes, site)
            });
            instance.orders()
        };
        self.give(kind, name, orders, Order::Need)
    }

    fn order(&self, kind: Kind, name: &str, order: Order) -> Answer {
        if given::address(kind).is_some() {
            return Answer::error(format!(
                "this {kind} was given by {}: not applicable",
                given::variable(kind)
            ));
        }
        let orders = self
            .instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&(kind, name.to_owned()))
            .and_then(Instance::orders);
        self.give(kind, name, orders, order)
    }

    fn give(
        &self,
        kind: Kind,
        name: &str,
        orders: Option<Sender<(Order, Sender<Answer>)>>,
        order: Order,
    ) -> Answer {
        let Some(orders) = orders else {
            return Answer::error(format!("there is no {kind} called {name}"));
        };
        let said = format!("{kind} {name} {order:?}");
        let answer = instance::give(&orders, order);
        self.note(&format!("{said}: {answer:?}"));
        if matches!(answer, Answer::Error { .. }) && !self.ending.is_asked() {
            self.failed.store(true, Ordering::SeqCst);
        }
        answer
    }

    /// The class path of a Java program, which the one who asks runs himself.
    fn program(&self, program: Program) -> Answer {
        if self.quick {
            return Answer::LeftOut { left_out: "a quick run does without Java".to_owned() };
        }
        let workshop = Workshop { logs: self.logs.clone(), ending: self.ending.clone() };
        let answer = match workshop.program(program) {
            Ok(class_path) => Answer::Program { class_path },
            Err(Trouble::Unavailable(unavailable)) => Answer::Unavailable { unavailable },
            Err(Trouble::Failed(error)) => Answer::error(error),
        };
        self.note(&format!("{program:?}: {answer:?}"));
        if matches!(answer, Answer::Error { .. }) && !self.ending.is_asked() {
            self.failed.store(true, Ordering::SeqCst);
        }
        answer
    }

    fn release(&self, kind: Kind, name: &str) {
        let instance =
            self.instances.lock().unwrap_or_else(PoisonError::into_inner).remove(&(kind, name.to_owned()));
        if let Some(status) = instance.as_ref().and_then(Instance::status) {
            self.past.lock().unwrap_or_else(PoisonError::into_inner).push(status);
        }
        // Outside the lock: it takes as long as the server takes to stop.
        drop(instance);
    }

    fn status(&self) -> Status {
        let instances = self.instances.lock().unwrap_or_else(PoisonError::into_inner);
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let servers =
            instances.values().filter_map(Instance::status).chain(given.values().cloned()).collect();
        Status {
            folder: self.folder.display().to_string(),
            kept_logs: self.failed.load(Ordering::SeqCst).then(|| self.kept_logs.display().to_string()),
            servers,
            past: self.past.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            skips: self.skips.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// A client, and the servers that end with it.
struct Connection {
    state: Arc<State>,
    own: Vec<(Kind, String)>,
}

impl Connection {
    fn serve(&mut self, stream: &UnixStream) {
        let mut reader = BufReader::new(stream);
        let mut writer = stream;
        loop {
            let mut line = String::new();
            match (&mut reader).take(MAX_LINE).read_line(&mut line) {
                Ok(length) if length > 0 => {}
                _ => break,
            }
            let answer = match serde_json::from_str::<Request>(&line) {
                Ok(request) => self.answer(request),
                Err(error) => Answer::error(format_args!("not a request: {error}")),
            };
            let Ok(text) = serde_json::to_string(&answer) else { break };
            if writeln!(writer, "{text}").is_err() {
                break;
            }
        }
        for (kind, name) in self.own.drain(..) {
            self.state.release(kind, &name);
        }
    }

    fn answer(&mut self, request: Request) -> Answer {
        let state = Arc::clone(&self.state);
        let done = Answer::Done { done: true };
        let named = request.instance.clone().unwrap_or_else(|| SHARED.to_owned());

        if let Some(kind) = request.need {
            let nodes = request.nodes.unwrap_or(1);
            let settings = request.settings.filter(|_| request.own);
            let name = if request.own {
                let name = format!("own-{}", state.own_count.fetch_add(1, Ordering::SeqCst) + 1);
                self.own.push((kind, name.clone()));
                name
            } else if nodes == 1 {
                SHARED.to_owned()
            } else {
                format!("{SHARED}-{nodes}")
            };
            return state.need(kind, nodes, &name, settings);
        }
        if let Some(kind) = request.stop {
            return state.order(kind, &named, Order::Stop(request.node));
        }
        if let Some(kind) = request.start {
            return state.order(kind, &named, Order::Start(request.node));
        }
        if let Some(kind) = request.kill {
            return state.order(kind, &named, Order::Kill(request.node));
        }
        if let Some(kind) = request.tool {
            return state.order(kind, &named, Order::Tool(request.arguments));
        }
        if let Some(kind) = request.release {
            // Nobody may take away what others share.
            if let Some(place) = self.own.iter().position(|own| *own == (kind, named.clone())) {
                self.own.remove(place);
                state.release(kind, &named);
            }
            return done;
        }
        if let Some(program) = request.program {
            return state.program(program);
        }
        if let Some(skip) = request.skip {
            let mut skips = state.skips.lock().unwrap_or_else(PoisonError::into_inner);
            if !skips.contains(&skip) {
                skips.push(skip);
            }
            return done;
        }
        if request.failed {
            state.failed.store(true, Ordering::SeqCst);
            return done;
        }
        if request.status {
            return Answer::Status { status: state.status() };
        }
        if request.shutdown {
            let _ = state.ends.send(End::Asked);
            return done;
        }
        Answer::error("a request without a verb")
    }
}
