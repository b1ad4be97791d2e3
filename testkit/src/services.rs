//! Kafka, RabbitMQ and PostgreSQL for a test that asks for them.
//!
//! A supervisor process (part of `cargo xtask`) owns the servers; this is the small blocking client of its socket.
//! Under `cargo xtask test` the environment names the socket. Under plain `cargo test` the supervisor of
//! `cargo xtask services up` is used when there is one; otherwise one is started that ends with the test process.
//!
//! ```no_run
//! use testkit::Services;
//!
//! let services = Services::connect();
//! let Some(postgres) = services.postgres() else { return };
//! println!("{} {:?}", postgres.address(), postgres.version());
//! ```
//!
//! Like an assertion, everything here panics when it does not hold: a test has nothing better to do.

mod launch;
mod report;
mod wire;

use std::sync::Arc;

use wire::{Answer, Connection, Request};

pub use wire::Kind;

/// Says that a scenario of the contract does not apply to an adapter, and has the closing summary name it.
pub(crate) fn does_not_apply(scenario: &str, reason: &str) {
    report::does_not_apply(scenario, reason);
}

/// The way to the servers.
#[derive(Debug)]
pub struct Services {
    connection: Arc<Connection>,
}

impl Services {
    /// Finds the supervisor of the servers, or starts one.
    ///
    /// # Panics
    /// When there is none and none can be started.
    pub fn connect() -> Self {
        match launch::socket().and_then(|socket| Connection::open(&socket)) {
            Ok(connection) => Self { connection: Arc::new(connection) },
            Err(error) => panic!("no servers for this test: {error}"),
        }
    }

    /// A Kafka broker that other tests use too. None, and reported, when it cannot be had.
    ///
    /// # Panics
    /// When it does not start, and with CI=true also when it cannot be had.
    pub fn kafka(&self) -> Option<Server> {
        self.shared(Kind::Kafka)
    }

    /// A cluster of so many Kafka brokers for this test alone, to be broken at will. Like [`own`](Self::own).
    ///
    /// # Panics
    /// As [`kafka`](Self::kafka) does.
    pub fn kafka_cluster(&self, nodes: usize) -> Option<Server> {
        self.need(Kind::Kafka, Request { nodes: Some(nodes), own: true, ..Request::default() })
    }

    /// A Kafka broker for this test alone, with lines of its own in `server.properties`. Like [`own`](Self::own).
    ///
    /// # Panics
    /// As [`kafka`](Self::kafka) does.
    pub fn kafka_with(&self, settings: &str) -> Option<Server> {
        let settings = Some(settings.to_owned());
        self.need(Kind::Kafka, Request { own: true, settings, ..Request::default() })
    }

    /// A RabbitMQ that other tests use too. None, and reported, when it cannot be had.
    ///
    /// # Panics
    /// As [`kafka`](Self::kafka) does.
    pub fn rabbitmq(&self) -> Option<Server> {
        self.shared(Kind::Rabbitmq)
    }

    /// A PostgreSQL that other tests use too. None, and reported, when it cannot be had.
    ///
    /// # Panics
    /// As [`kafka`](Self::kafka) does.
    pub fn postgres(&self) -> Option<Server> {
        self.shared(Kind::Postgres)
    }

    /// A server for this test alone, gone with its data when dropped. When a server was given, that one.
    ///
    /// # Panics
    /// As [`kafka`](Self::kafka) does.
    pub fn own(&self, kind: Kind) -> Option<Server> {
        self.need(kind, Request { own: true, ..Request::default() })
    }

    /// A RabbitMQ for this test alone, with an `advanced.config` of its own. Like [`own`](Self::own).
    ///
    /// # Panics
    /// As [`kafka`](Self::kafka) does.
    pub fn rabbitmq_with(&self, settings: &str) -> Option<Server> {
        let settings = Some(settings.to_owned());
        self.need(Kind::Rabbitmq, Request { own: true, settings, ..Request::default() })
    }

    /// Whether this run includes fault tests; when it does not, the test is reported as left out.
    pub fn faults(&self) -> bool {
        let quick = std::env::var_os("REDRIVE_QUICK").is_some();
        if quick {
            report::left_out(&self.connection, "a quick run does without faults");
        }
        !quick
    }

    /// The class path of a Java program, built when it is not there yet. None, and reported, when it cannot be had.
    ///
    /// # Panics
    /// When it cannot be built, and with CI=true also when it cannot be had.
    pub(crate) fn program(&self, name: &'static str) -> Option<String> {
        match self.connection.ask(&Request { program: Some(name), ..Request::default() }) {
            Ok(Answer::Program { class_path }) => Some(class_path),
            Ok(Answer::Unavailable { unavailable }) => {
                report::skipped(&self.connection, &unavailable);
                None
            }
            Ok(Answer::LeftOut { left_out }) => {
                report::left_out(&self.connection, &left_out);
                None
            }
            Ok(other) => panic!("{name}: {other}"),
            Err(error) => panic!("{name}: {error}"),
        }
    }

    fn shared(&self, kind: Kind) -> Option<Server> {
        self.need(kind, Request::default())
    }

    fn need(&self, kind: Kind, request: Request) -> Option<Server> {
        let own = request.own;
        match self.connection.ask(&Request { need: Some(kind), ..request }) {
            Ok(Answer::Server { address, version, given, instance }) => Some(Server {
                connection: Arc::clone(&self.connection),
                kind,
                instance,
                own: own && !given,
                address,
                version,
                given,
            }),
            Ok(Answer::Unavailable { unavailable }) => {
                report::skipped(&self.connection, &unavailable);
                None
            }
            Ok(Answer::LeftOut { left_out }) => {
                report::left_out(&self.connection, &left_out);
                None
            }
            Ok(other) => panic!("{kind:?}: {other}"),
            Err(error) => panic!("{kind:?}: {error}"),
        }
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if std::thread::panicking() {
            report::failed(&self.connection);
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    connection: Arc<Connection>,
    kind: Kind,
    instance: String,
    own: bool,
    address: String,
    version: Option<String>,
    given: bool,
}

impl Server {
    /// Where clients find it: `host:port,…` for Kafka, a URL for the others. It stays the same over restarts.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The version of the software; none when somebody else runs it.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Whether somebody else runs it, named by a `REDRIVE_TEST_…` variable.
    pub fn given(&self) -> bool {
        self.given
    }

    /// Whether a test may stop and kill it; when not, the test is reported as not applicable.
    pub fn ours_to_break(&self) -> bool {
        if self.given {
            report::not_applicable(&self.connection, "it has to stop a server that was given");
        }
        !self.given
    }

    /// Stops it in an orderly way; its data stays.
    ///
    /// # Panics
    /// When it was given or cannot be stopped.
    pub fn stop(&self) {
        self.order("stop", |kind| Request { stop: Some(kind), ..Request::default() });
    }

    /// Starts it again and waits until it answers.
    ///
    /// # Panics
    /// When it was given or does not start.
    pub fn start(&self) {
        self.order("start", |kind| Request { start: Some(kind), ..Request::default() });
    }

    /// Kills it, as kill -9 does.
    ///
    /// # Panics
    /// When it was given.
    pub fn kill(&self) {
        self.order("kill", |kind| Request { kill: Some(kind), ..Request::default() });
    }

    /// Stops one node of a cluster, counted from 0.
    ///
    /// # Panics
    /// As [`stop`](Self::stop) does.
    pub fn stop_node(&self, node: usize) {
        self.order("stop", |kind| Request { stop: Some(kind), node: Some(node), ..Request::default() });
    }

    /// Starts one node again and waits until it answers.
    ///
    /// # Panics
    /// As [`start`](Self::start) does.
    pub fn start_node(&self, node: usize) {
        self.order("start", |kind| Request { start: Some(kind), node: Some(node), ..Request::default() });
    }

    /// Kills one node of a cluster.
    ///
    /// # Panics
    /// As [`kill`](Self::kill) does.
    pub fn kill_node(&self, node: usize) {
        self.order("kill", |kind| Request { kill: Some(kind), node: Some(node), ..Request::default() });
    }

    /// Whether a test may run the server's own tool; when not, the test is reported as not applicable.
    pub fn ours_to_order(&self) -> bool {
        if self.given {
            report::not_applicable(&self.connection, "it has to order a server about that was given");
        }
        !self.given
    }

    /// Runs the tool that comes with the server, `rabbitmqctl`; answers with what it printed.
    ///
    /// # Panics
    /// When it was given, has no tool, or the tool fails.
    pub fn tool(&self, arguments: &[&str]) -> String {
        let request = Request {
            tool: Some(self.kind),
            instance: Some(self.instance.clone()),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            ..Request::default()
        };
        match self.connection.ask(&request) {
            Ok(Answer::Said { said }) => said,
            Ok(other) => panic!("{arguments:?}: {other}"),
            Err(error) => panic!("{arguments:?}: {error}"),
        }
    }

    fn order(&self, what: &str, request: impl FnOnce(Kind) -> Request) {
        let request = Request { instance: Some(self.instance.clone()), ..request(self.kind) };
        match self.connection.ask(&request) {
            Ok(Answer::Done { .. }) => {}
            Ok(other) => panic!("cannot {what} {:?}: {other}", self.kind),
            Err(error) => panic!("cannot {what} {:?}: {error}", self.kind),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            report::failed(&self.connection);
        }
        if self.own {
            let request = Request {
                release: Some(self.kind),
                instance: Some(self.instance.clone()),
                ..Request::default()
            };
            // It ends with the connection at the latest.
            let _ = self.connection.ask(&request);
        }
    }
}
