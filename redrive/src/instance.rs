//! A running instance: the data file, its flows, and the API beside them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redrive_engine::port::{
    Broker, Clock, Ledger, NewMessage, PortError, Published, Retention, SystemClock, Topology,
};
use redrive_engine::{Flow, FlowView, ReplayDriver, Upkeep};
use redrive_server::{Access, Api, Flows, ListenOptions, Listener, Token, router};
use redrive_sqlite::{Durability, Options, Store};

use crate::brokers::{self, Reader};
use crate::config;
use crate::error::{Error, Result};
use crate::inflight::Inflight;
use crate::live::Live;
use crate::setup::Setup;

/// How often replays are looked for.
const REPLAY_LOOK: Duration = Duration::from_millis(200);
/// How often retention is applied.
const UPKEEP_EVERY: Duration = Duration::from_secs(60);
/// How long a call of the API may go on after a stop.
const API_GRACE: Duration = Duration::from_secs(2);
/// How long a stop waits for the data file to be closed.
const CLOSING: Duration = Duration::from_secs(5);

/// How an instance is opened.
#[derive(Debug, Clone)]
pub struct InstanceOptions {
    /// The data file.
    pub data: PathBuf,
    /// Where the HTTP API listens; nothing leaves the socket of the data folder alone.
    pub listen: Option<SocketAddr>,
    /// Whether the API may listen where others can reach it, without TLS.
    pub insecure: bool,
    /// The token; nothing takes the one of the data folder, and makes it at the first start.
    pub token: Option<String>,
    /// Whether a commit waits for the disk.
    pub durability: Durability,
    /// The largest the data file may grow, in bytes; nothing leaves it to the disk.
    pub file_limit: Option<u64>,
}

impl InstanceOptions {
    /// A data file with the usual settings: fsync on commit, the API on `127.0.0.1:7337`.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 7337))),
            insecure: false,
            token: None,
            durability: Durability::Full,
            file_limit: None,
        }
    }

    /// The folder beside the data file: lock, address, token, in-flight journal and socket.
    pub fn folder(&self) -> PathBuf {
        data_folder(&self.data)
    }
}

/// The folder beside a data file.
pub(crate) fn data_folder(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(".d");
    name.into()
}

/// What a flow found at its broker when it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Started {
    /// What was missing, and has been created.
    pub created: Vec<Topology>,
    /// What is there and is not as it should be, each with what follows from it. It is left as it is.
    pub differs: Vec<Topology>,
}

/// Creates what a flow lacks at its broker, or says what is missing.
async fn prepare(reader: &Reader, topology: config::Topology) -> Result<Started> {
    let needed = reader.broker.plan(&reader.subscription).await?;
    let missing: Vec<Topology> = needed.iter().filter(|thing| !thing.exists).cloned().collect();
    let differs = needed.iter().filter(|thing| !thing.drift.is_empty()).cloned().collect();
    if reader.is_own() {
        return Ok(Started::default());
    }
    // What loses messages is refused also where nothing has to be created, and where nothing may be.
    #[cfg(feature = "kafka")]
    redrive_kafka::refuse_losing(&needed).map_err(PortError::from)?;
    if !missing.is_empty() && topology == config::Topology::Check {
        return Err(Error::Missing { flow: reader.subscription.flow.to_string(), missing });
    }
    // A broker does not tell whether the ways between queues are there, so they are made at every start.
    let ways = topology == config::Topology::Apply && needed.iter().any(crate::topology::is_way);
    if !missing.is_empty() || ways {
        reader.broker.apply(&needed).await?;
    }
    Ok(Started { created: missing, differs })
}

/// A running instance. Stop it with [`stop`](Self::stop); dropping it stops it without waiting.
#[derive(Debug)]
pub struct Instance {
    #[cfg_attr(
        not(any(feature = "kafka", feature = "rabbitmq")),
        expect(dead_code, reason = "a member's name is kept there")
    )]
    folder: PathBuf,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    inflight: Inflight,
    flows: Vec<Flow>,
    live: Arc<Live>,
    replays: ReplayDriver,
    upkeep: Upkeep,
    listener: redrive_server::Running,
}

impl Instance {
    /// Opens the data file and serves its API. No flow runs yet.
    pub async fn open(options: InstanceOptions, metrics: Option<redrive_server::Figures>) -> Result<Self> {
        let folder = options.folder();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let settings = Options {
            durability: options.durability,
            file_limit: options.file_limit,
            clock: Arc::clone(&clock),
            ..Options::default()
        };
        let path = options.data.clone();
        let store = tokio::task::spawn_blocking(move || Store::open(&path, settings))
            .await
            .map_err(std::io::Error::other)?
            .map_err(|source| Error::Open { path: options.data.clone(), source })?;
        let store = Arc::new(store);
        let inflight = Inflight::open(&folder, &clock).await;
        let live = Arc::new(Live::default());
        let mut api = Api::new(
            Arc::clone(&store) as Arc<dyn Broker>,
            Arc::clone(&store) as Arc<dyn Ledger>,
            Arc::clone(&clock),
            Arc::clone(&live) as Arc<dyn Flows>,
        );
        if let Some(handle) = metrics {
            api = api.metrics(handle);
        }
        let token = Token::of_folder(&folder, options.token.as_deref())?;
        let listen = ListenOptions {
            listen: options.listen,
            insecure: options.insecure,
            ..ListenOptions::new(&folder)
        };
        let listener = Listener::start(listen, router(api, Access::token(token))).await?;
        let ledger = Arc::clone(&store) as Arc<dyn Ledger>;
        Ok(Self {
            replays: ReplayDriver::start(Arc::clone(&ledger), Arc::clone(&clock), REPLAY_LOOK),
            upkeep: Upkeep::start(ledger, Arc::clone(&clock), Retention::default(), UPKEEP_EVERY),
            folder,
            store,
            clock,
            inflight,
            flows: Vec::new(),
            live,
            listener,
        })
    }

    /// Starts a flow. `to` is what it calls, for people to read, without credentials. Its calls are named in the
    /// instance's journal, unless it brings its own. What is missing at its broker is created first, or named and
    /// refused, as the flow says.
    pub async fn start(&mut self, flow: impl Into<Setup>, to: &str) -> Result<Started> {
        let Setup { mut spec, place, topology, ledger } = flow.into();
        spec.journal = spec.journal.or_else(|| self.inflight.journal());
        let reader = brokers::open(place, &spec, self, ledger)?;
        let started = prepare(&reader, topology).await?;
        let flow = Flow::start(
            spec,
            Arc::clone(&reader.broker),
            Arc::clone(&reader.ledger),
            Arc::clone(&self.clock),
        )
        .await?;
        self.live.add(flow.view(), to, reader);
        self.flows.push(flow);
        Ok(started)
    }

    /// A look at each of its flows.
    pub fn views(&self) -> Vec<FlowView> {
        self.live.views()
    }

    /// Says that every flow has been started: `/readyz` answers yes from now on.
    pub fn ready(&self) {
        self.live.ready();
    }

    /// The address of the HTTP API, when it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.address()
    }

    #[cfg(any(feature = "kafka", feature = "rabbitmq"))]
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    #[cfg(any(feature = "kafka", feature = "rabbitmq"))]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The data file, as a broker and a ledger.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Publishes a message into a queue of the data file; when it returns the id, the message is durable. Many at once
    /// are published by the [store](Self::store).
    pub async fn publish(&self, queue: &str, message: NewMessage) -> Result<String> {
        match self.store.publish(queue, vec![message]).await?.pop() {
            Some(Published::Accepted(id)) => Ok(id),
            Some(Published::Refused(refusal)) => Err(PortError::from(refusal).into()),
            None => Err(PortError::Broken("the broker did not answer for the message".to_owned()).into()),
        }
    }

    /// Waits until nothing has been ready, running or waiting in any flow's queue for so long.
    ///
    /// A look at a broker takes its time, and a message that goes from one topic to another meanwhile may be seen in neither.
    /// So two looks have to say so, the one begun so long after the other.
    pub async fn idle(&self, long: Duration) {
        let mut since = None;
        loop {
            let begun = self.clock.monotonic();
            if self.is_busy().await {
                since = None;
            } else if since.is_some_and(|since| begun.saturating_sub(since) >= long) {
                return;
            } else {
                since = since.or_else(|| Some(self.clock.monotonic()));
            }
            tokio::time::sleep(long.min(Duration::from_millis(50))).await;
        }
    }

    async fn is_busy(&self) -> bool {
        if self.live.views().iter().any(|view| view.in_hand() > 0) {
            return true;
        }
        for reader in self.live.readers() {
            if reader.is_busy().await {
                return true;
            }
        }
        false
    }

    /// Stops every flow, then the API. When `hurry` is done first, running calls are given up. In the end the data file is
    /// free for the next instance, unless somebody keeps its [store](Self::store).
    pub async fn stop(self, hurry: impl Future<Output = ()>) {
        let Self { flows, live, replays, upkeep, listener, store, .. } = self;
        let forces: Vec<_> = flows.iter().map(Flow::force).collect();
        let mut stopping = tokio::task::JoinSet::new();
        for flow in flows {
            stopping.spawn(flow.stop());
        }
        let mut hurry = std::pin::pin!(hurry);
        let mut hurried = false;
        loop {
            tokio::select! {
                ended = stopping.join_next() => {
                    if ended.is_none() {
                        break;
                    }
                }
                () = &mut hurry, if !hurried => {
                    hurried = true;
                    forces.iter().for_each(redrive_engine::Force::now);
                }
            }
        }
        replays.stop().await;
        upkeep.stop().await;
        listener.stop(API_GRACE).await;
        let ended = store.ended();
        drop((live, store));
        // What goes on beside the flows ends a moment after them.
        let _ = tokio::time::timeout(CLOSING, ended).await;
    }
}
