//! One instance of a server: a thread that owns its processes and takes orders one at a time.
//!
//! Two tests that ask for the same server at once therefore start it once. The thread lives as long as the
//! instance, which matters to the kernel: a tied process dies with the thread that started it.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, Result, failed};

use super::process::{PAUSE, Process};
use super::protocol::{Answer, Kind, ServerStatus};
use super::service::{self, Service, Site, Trouble};

/// How long a server may take until it answers.
const START_PATIENCE: Duration = Duration::from_mins(2);
/// How often other ports are tried when one was taken between looking and listening.
const PORT_ATTEMPTS: u32 = 3;

/// What an instance is asked to do, to one node or to all of them.
#[derive(Debug, Clone)]
pub(super) enum Order {
    Need,
    Tool(Vec<String>),
    Start(Option<usize>),
    Stop(Option<usize>),
    Kill(Option<usize>),
}

/// The way to an instance's thread. The instance ends when this is dropped.
pub(super) struct Instance {
    orders: Option<Sender<(Order, Sender<Answer>)>>,
    thread: Option<JoinHandle<()>>,
    status: Arc<Mutex<ServerStatus>>,
}

impl Instance {
    /// An instance that is started by the first order.
    pub(super) fn new(kind: Kind, name: &str, nodes: usize, site: Site) -> Self {
        let status = Arc::new(Mutex::new(ServerStatus {
            kind,
            instance: name.to_owned(),
            state: "not started".to_owned(),
            address: None,
            version: None,
            given: false,
            started_in_ms: None,
            pids: Vec::new(),
        }));
        let (orders, inbox) = mpsc::channel();
        let mut room =
            Room { kind, nodes, site, service: None, processes: Vec::new(), status: Arc::clone(&status) };
        let thread = std::thread::spawn(move || room.run(&inbox));
        Self { orders: Some(orders), thread: Some(thread), status }
    }

    /// A way to give orders that does not keep the instance from being looked up meanwhile.
    pub(super) fn orders(&self) -> Option<Sender<(Order, Sender<Answer>)>> {
        self.orders.clone()
    }

    pub(super) fn status(&self) -> Option<ServerStatus> {
        self.status.lock().ok().map(|status| status.clone())
    }
}

/// Gives an order and waits for the answer.
pub(super) fn give(orders: &Sender<(Order, Sender<Answer>)>, order: Order) -> Answer {
    let (reply, answer) = mpsc::channel();
    let lost = || Answer::error("the server's supervisor thread has ended");
    if orders.send((order, reply)).is_err() {
        return lost();
    }
    answer.recv().unwrap_or_else(|_| lost())
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic in there has already killed its processes.
            let _ = thread.join();
        }
    }
}

struct Room {
    kind: Kind,
    nodes: usize,
    site: Site,
    service: Option<Box<dyn Service>>,
    processes: Vec<Option<Process>>,
    status: Arc<Mutex<ServerStatus>>,
}

impl Room {
    fn run(&mut self, inbox: &Receiver<(Order, Sender<Answer>)>) {
        // The channel may stay open for as long as a client waits, so the end is looked for as well.
        while !self.site.ending.is_asked() {
            match inbox.recv_timeout(Duration::from_millis(200)) {
                Ok((order, reply)) => {
                    let answer = self.follow(order);
                    self.show();
                    // A client that has gone needs no answer.
                    let _ = reply.send(answer);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        self.stop(None);
        if let Some(service) = &self.service {
            service.clean();
        }
        self.service = None;
        let _ = std::fs::remove_dir_all(&self.site.folder);
    }

    fn follow(&mut self, order: Order) -> Answer {
        let done = Answer::Done { done: true };
        let outcome = match order {
            Order::Need => self.need().map(|()| self.server().unwrap_or(done)),
            Order::Tool(arguments) => {
                self.tool(&arguments).map(|said| Answer::Said { said }).map_err(Trouble::from)
            }
            Order::Start(node) => self.start(node).map(|()| done).map_err(Trouble::from),
            Order::Stop(node) => {
                self.stop(node);
                Ok(done)
            }
            Order::Kill(node) => {
                self.kill(node);
                Ok(done)
            }
        };
        match outcome {
            Ok(answer) => answer,
            Err(Trouble::Unavailable(unavailable)) => Answer::Unavailable { unavailable },
            Err(Trouble::Failed(error)) => Answer::error(error),
        }
    }

    fn server(&self) -> Option<Answer> {
        self.service.as_ref().map(|service| Answer::Server {
            address: service.address(),
            version: Some(service.version()),
            given: false,
            instance: self.name(),
        })
    }

    fn tool(&self, arguments: &[String]) -> Result<String> {
        self.service.as_ref().ok_or_else(|| failed("it was never started"))?.tool(arguments)
    }

    fn need(&mut self) -> std::result::Result<(), Trouble> {
        if self.service.is_some() {
            return self.start(None).map_err(Trouble::from);
        }
        let began = Instant::now();
        self.say("starting");
        let mut attempt = 1;
        loop {
            match self.first_start() {
                Ok(()) => break,
                Err(Trouble::Failed(Error::Failed(text))) if attempt < PORT_ATTEMPTS && port_taken(&text) => {
                    attempt += 1;
                }
                Err(trouble) => return Err(trouble),
            }
        }
        if let Ok(mut status) = self.status.lock() {
            status.started_in_ms = Some(began.elapsed().as_millis() as u64);
        }
        Ok(())
    }

    fn first_start(&mut self) -> std::result::Result<(), Trouble> {
        let _ = std::fs::remove_dir_all(&self.site.folder);
        std::fs::create_dir_all(&self.site.folder)
            .map_err(|error| failed(format!("cannot create {}: {error}", self.site.folder.display())))?;
        let service = service::prepare(self.kind, self.nodes, self.site.clone())?;
        self.processes = (0..service.nodes()).map(|_| None).collect();
        self.service = Some(service);
        if let Err(error) = self.start(None) {
            self.kill(None);
            self.service = None;
            return Err(error.into());
        }
        Ok(())
    }

    /// Starts what does not run, and waits until it answers.
    fn start(&mut self, node: Option<usize>) -> Result<()> {
        let service = self.service.as_mut().ok_or_else(|| failed("it was never started"))?;
        let mut started = false;
        for (index, process) in self.processes.iter_mut().enumerate() {
            let wanted = node.is_none_or(|node| node == index);
            let runs = process.as_mut().is_some_and(|process| process.ended().is_none());
            if wanted && !runs {
                *process = Some(service.spawn(index)?);
                started = true;
            }
        }
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            let mut running = Vec::new();
            for (index, process) in self.processes.iter_mut().enumerate() {
                let Some(process) = process else { continue };
                if let Some(status) = process.ended() {
                    return Err(failed(format!("{} ended ({status})\n{}", self.kind, process.tail())));
                }
                running.push(index);
            }
            match service.healthy(&running) {
                Ok(()) if started => return service.confirm(),
                Ok(()) => return Ok(()),
                Err(_) if self.site.ending.is_asked() => return Err(Error::Interrupted),
                Err(trouble) if Instant::now() > deadline => {
                    let tails: Vec<String> = self.processes.iter().flatten().map(Process::tail).collect();
                    return Err(failed(format!(
                        "{} did not answer within {} s: {trouble}\n{}",
                        self.kind,
                        START_PATIENCE.as_secs(),
                        tails.join("\n")
                    )));
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn stop(&mut self, node: Option<usize>) {
        let Some(service) = &self.service else { return };
        let (signal, patience) = service.stop_signal();
        let stopping: Vec<Process> = self.take(node);
        // Members of a cluster hand over to each other while they stop, so they are asked together.
        std::thread::scope(|scope| {
            for process in stopping {
                scope.spawn(move || process.stop(signal, patience));
            }
        });
    }

    fn kill(&mut self, node: Option<usize>) {
        for mut process in self.take(node) {
            process.kill();
        }
    }

    fn take(&mut self, node: Option<usize>) -> Vec<Process> {
        self.processes
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| node.is_none_or(|node| node == *index))
            .filter_map(|(_, process)| process.take())
            .collect()
    }

    fn name(&self) -> String {
        self.status.lock().map(|status| status.instance.clone()).unwrap_or_default()
    }

    fn say(&self, state: &str) {
        if let Ok(mut status) = self.status.lock() {
            state.clone_into(&mut status.state);
        }
    }

    fn show(&mut self) {
        let pids: Vec<u32> = self
            .processes
            .iter_mut()
            .flatten()
            .filter_map(|process| process.ended().is_none().then(|| process.id()))
            .collect();
        let Ok(mut status) = self.status.lock() else { return };
        status.state = match (&self.service, pids.len()) {
            (None, _) => "not available".to_owned(),
            (Some(_), 0) => "stopped".to_owned(),
            (Some(_), running) if running == self.processes.len() => "running".to_owned(),
            (Some(_), running) => format!("{running} of {} nodes running", self.processes.len()),
        };
        status.pids = pids;
        if let Some(service) = &self.service {
            status.address = Some(service.address());
            status.version = Some(service.version());
        }
    }
}

/// Whether a log says that somebody else took the port.
fn port_taken(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("in use") || text.contains("eaddrinuse")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_recognised_in_each_servers_words() {
        for text in [
            "java.net.BindException: Address already in use",
            "could not bind IPv4 address \"127.0.0.1\": Address already in use",
            "failed_to_start_child, {error,eaddrinuse}",
        ] {
            assert!(port_taken(text), "{text}");
        }
        assert!(!port_taken("No space left on device"));
    }
}
