//! A connection that is made again when it is lost.
//!
//! Nobody waits for it in the background: whoever needs it asks, and is told how it stands. After a failure the next try
//! waits a while, longer each time, and whoever asks meanwhile gets the last answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::types::ShortString;
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{AsyncTcpStream, Channel, Connection, ConnectionProperties, Event};
use redrive_engine::adapter::Alarms;
use redrive_engine::port::{PortError, Refusal};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::blocked::{Blocked, Heard};
use crate::streams::{self, Streaming, Watched};
use crate::{Login, RabbitFlow, metrics, tls, trouble, version};

/// The first and the longest wait between two tries.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long a channel may take to be opened.
const OPENING: Duration = Duration::from_secs(10);
/// How long an end may take: now and then the client library waits without one.
const CLOSING: Duration = Duration::from_secs(2);

/// A connection to RabbitMQ.
#[derive(Debug)]
pub(crate) struct Link {
    login: Login,
    encryption: Option<Arc<rustls::ClientConfig>>,
    flow: Arc<str>,
    /// What the broker shows it as.
    name: String,
    alarms: Arc<Alarms>,
    now: tokio::sync::Mutex<State>,
    frame_max: AtomicU64,
    /// Whether the server reads nothing from the flow now, and from the connection as it is.
    blocked: Arc<Blocked>,
    heard: Mutex<Option<Arc<Heard>>>,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Arc<Connection>>,
    made: u64,
    wait: Duration,
    next_try: Option<Instant>,
    said: Option<PortError>,
}

impl Link {
    /// A connection for one purpose, which is not made yet.
    pub(crate) fn new(
        flow: &RabbitFlow,
        purpose: &str,
        alarms: Arc<Alarms>,
        blocked: Arc<Blocked>,
    ) -> Result<Self, PortError> {
        Ok(Self {
            encryption: flow.login.tls.as_ref().map(tls::config).transpose()?,
            login: flow.login.clone(),
            flow: Arc::clone(&flow.flow),
            name: format!("redrive {} {} {purpose}", flow.flow, flow.instance),
            alarms,
            now: tokio::sync::Mutex::default(),
            frame_max: AtomicU64::new(0),
            blocked,
            heard: Mutex::default(),
        })
    }

    /// How many bytes a frame of it has at most; a guess before it was made.
    pub(crate) fn frame_max(&self) -> usize {
        match self.frame_max.load(Ordering::Relaxed) {
            0 => 131_072,
            known => usize::try_from(known).unwrap_or(usize::MAX),
        }
    }

    /// Whether the server reads nothing from it now. What is sent all the same would pile up, and come twice.
    pub(crate) fn is_blocked(&self) -> bool {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.as_ref().is_some_and(|heard| heard.is_blocked())
    }

    /// A new channel.
    pub(crate) async fn channel(&self) -> Result<Channel, PortError> {
        let connection = self.connection().await?;
        let opened = tokio::time::timeout(OPENING, connection.create_channel()).await;
        let doing = "cannot open a channel to RabbitMQ";
        match opened {
            Ok(opened) => opened.map_err(|error| trouble::away(doing, &error)),
            Err(_) => Err(PortError::Unavailable(format!("{doing}: no answer"))),
        }
    }

    /// The connection as it is, or a new one.
    async fn connection(&self) -> Result<Arc<Connection>, PortError> {
        let mut now = self.now.lock().await;
        if let Some(connection) = now.connection.as_ref().filter(|connection| connection.status().connected())
        {
            return Ok(Arc::clone(connection));
        }
        now.connection = None;
        if let (Some(next), Some(said)) = (now.next_try, &now.said)
            && Instant::now() < next
        {
            return Err(said.clone());
        }
        match self.connect().await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                self.watch(&connection);
                if now.made > 0 {
                    metrics::reconnected(&self.flow);
                }
                *now = State {
                    connection: Some(Arc::clone(&connection)),
                    made: now.made + 1,
                    ..State::default()
                };
                self.alarms.clear("connection_lost", &self.name);
                Ok(connection)
            }
            Err(error) => {
                now.wait = (now.wait * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
                now.next_try = Some(Instant::now() + now.wait);
                now.said = Some(error.clone());
                if now.made > 0 {
                    self.alarms.raise("connection_lost", &self.name, error.to_string());
                }
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Connection, PortError> {
        let login = &self.login;
        let uri = address_of(login);
        let properties = ConnectionProperties::default()
            .with_connection_name(self.name.as_str().into())
            .with_client_property("product".into(), "redrive".into());
        let encryption = self.encryption.clone();
        let connect = async move |uri: AMQPUri, _: Streaming| {
            let AMQPAuthority { host, port, .. } = uri.authority;
            Ok(AsyncTcpStream::Plain(match &encryption {
                None => Watched::new(streams::connect(&host, port).await?),
                Some(config) => Watched::new(tls::connect(config, &host, port).await?),
            }))
        };
        let connecting = Connection::connector(uri, streams::runtime(), connect, properties);
        match tokio::time::timeout(login.connect_timeout, connecting).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(self.not_taken(&error).await),
            Err(_) => Err(PortError::Unavailable(format!(
                "RabbitMQ at {}:{} did not answer within {:?}",
                login.host, login.port, login.connect_timeout
            ))),
        }
    }

    /// Why the server did not take the connection.
    async fn not_taken(&self, error: &lapin::Error) -> PortError {
        let Login { host, port, connect_timeout, .. } = &self.login;
        if let Some(config) = self.encryption.as_ref().filter(|_| trouble::is_cut(error))
            && let Some(said) = tls::last_word(config, host, *port, *connect_timeout).await
            && let Some(why) = trouble::of_encryption(&self.login, &said)
        {
            return why;
        }
        trouble::no_connection(&self.login, error)
    }

    /// Learns how large its frames are, and raises an alarm while it does not read.
    fn watch(&self, connection: &Connection) {
        self.frame_max.store(connection.configuration().frame_max().into(), Ordering::Relaxed);
        let mut events = Box::pin(connection.events_listener());
        let status = connection.status().clone();
        let heard = Arc::new(Heard::nothing(&self.blocked));
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&heard));
        let (alarms, about) = (Arc::clone(&self.alarms), self.name.clone());
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                match event {
                    Event::ConnectionBlocked(reason) => {
                        let why = format!(
                            "RabbitMQ takes no messages: {reason}; what is to be written stays unsettled until it does"
                        );
                        heard.says(true);
                        alarms.raise("broker_blocked", &about, why);
                    }
                    Event::ConnectionUnblocked => {
                        heard.says(false);
                        alarms.clear("broker_blocked", &about);
                    }
                    // One that ended a channel alone says nothing of the connection.
                    Event::Error(_) if !status.connected() => break,
                    _ => {}
                }
            }
            // The next connection may have heard of it again by now.
            if heard.says(false) {
                alarms.clear("broker_blocked", &about);
            }
        });
    }

    /// The server's version, major and minor, when it can be had. The client library does not tell it.
    pub(crate) async fn version(&self) -> Option<(u32, u32)> {
        let Login { host, port, connect_timeout, .. } = &self.login;
        let asking = async {
            match &self.encryption {
                None => version::ask(TcpStream::connect((host.as_str(), *port)).await.ok()?).await,
                Some(config) => version::ask(tls::connect(config, host, *port).await.ok()?).await,
            }
        };
        tokio::time::timeout(*connect_timeout, asking).await.ok()?
    }

    /// Ends it.
    pub(crate) async fn close(&self) {
        let connection = self.now.lock().await.connection.take();
        if let Some(connection) = connection {
            let _ = tokio::time::timeout(CLOSING, connection.close(200, "done".into())).await;
        }
    }
}

/// Ends a channel.
pub(crate) async fn close(channel: &Channel) {
    if channel.status().connected() {
        let _ = tokio::time::timeout(CLOSING, channel.close(200, "done".into())).await;
    }
}

/// A login as the client library takes it.
fn address_of(login: &Login) -> AMQPUri {
    AMQPUri {
        scheme: if login.tls.is_some() { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo { username: login.user.clone(), password: login.password.clone() },
            host: login.host.clone(),
            port: login.port,
        },
        vhost: login.vhost.clone(),
        query: AMQPQueryString {
            heartbeat: Some(u16::try_from(login.heartbeat.as_secs()).unwrap_or(u16::MAX)),
            connection_timeout: u64::try_from(login.connect_timeout.as_millis()).ok(),
            ..AMQPQueryString::default()
        },
    }
}

/// A name as AMQP takes it.
pub(crate) fn short(name: &str) -> Result<ShortString, PortError> {
    ShortString::try_new(name)
        .map_err(|_| Refusal::Invalid(format!("`{name}` is longer than RabbitMQ's names can be")).into())
}
