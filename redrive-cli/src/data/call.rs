//! The way to the data: the running instance when there is one, the file otherwise.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use redrive::InstanceOptions;
use redrive::codes;
use redrive::engine::port::{Broker, Clock, Ledger, SystemClock};
use redrive::server::http::{Method, Request, StatusCode, header};
use redrive::server::{self, Access, Api, Client, NoFlows, router};
use redrive::sqlite::{OpenError, Options, Store};
use serde_json::Value;

use super::arguments::DataArguments;
use crate::problem::{FAILED, MISSING, Problem, REFUSED, USAGE};
use crate::{files, terminal};

/// Another command holds the file for moments only, and an instance that starts has it before it can be called.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The data, however it is reached.
pub(crate) struct Data {
    client: Client,
    /// The file's own, when no instance runs.
    store: Option<Store>,
}

/// What to do about a file that is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    Refuse,
    Make,
}

/// An answer that is not an error.
pub(crate) struct Answer {
    pub(crate) bytes: Bytes,
}

/// A refusal of the API: what it means here, and the object it came as.
pub(crate) struct Refused {
    pub(crate) problem: Problem,
    pub(crate) object: Value,
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        refused.problem
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self { problem, object: Value::Null }
    }
}

impl Data {
    /// Reaches the data, and says on stderr how.
    pub(crate) async fn open(arguments: &DataArguments, absent: Absent) -> Result<Self, Problem> {
        let file = files::data(arguments.data.as_deref(), None)?;
        let folder = InstanceOptions::new(&file).folder();
        let began = Instant::now();
        loop {
            let found = Client::connect(&folder).await.map_err(|error| unanswered(&error))?;
            if let Some(client) = found {
                terminal::say("on the running instance");
                return Ok(Self { client, store: None });
            }
            if absent == Absent::Refuse && !file.exists() {
                let text = format!("there is no data file {}", file.display());
                return Err(Problem::new(codes::NO_DATA, MISSING, text).with_help(
                    "name it with --data FILE or $REDRIVE_DATA; `redrive publish` and `redrive run` make one",
                ));
            }
            match Self::on_file(&file) {
                Ok(data) => {
                    terminal::say(&format!("on the file {}", file.display()));
                    return Ok(data);
                }
                Err(OpenError::InUse { .. }) if began.elapsed() < PATIENCE => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Err(error) => {
                    let exit = if matches!(error, OpenError::InUse { .. }) { REFUSED } else { FAILED };
                    return Err(Problem::new(codes::NO_DATA_ACCESS, exit, error.to_string()));
                }
            }
        }
    }

    fn on_file(file: &Path) -> Result<Self, OpenError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let store = Store::open(file, Options { clock: Arc::clone(&clock), ..Options::default() })?;
        let shared = Arc::new(store.clone());
        let broker = Arc::clone(&shared) as Arc<dyn Broker>;
        let api = Api::new(broker, shared as Arc<dyn Ledger>, clock, Arc::new(NoFlows));
        Ok(Self { client: Client::in_process(router(api, Access::local())), store: Some(store) })
    }

    /// A broker without a data file: its queues can be published into, and nothing else.
    #[cfg(any(feature = "kafka", feature = "rabbitmq"))]
    pub(crate) fn on_broker(broker: Arc<dyn Broker>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let ledger = Arc::new(redrive::engine::NoLedger) as Arc<dyn Ledger>;
        let api = Api::new(broker, ledger, clock, Arc::new(NoFlows));
        Self { client: Client::in_process(router(api, Access::local())), store: None }
    }

    /// The file's store, when no instance runs on it.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Problem> {
        let answer = self.send(Method::GET, path, None, Bytes::new()).await?;
        json(&answer.bytes)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Problem> {
        let answer = self.send(Method::POST, path, Some("application/json"), body.to_string().into()).await?;
        json(&answer.bytes)
    }

    /// A call of any kind. A refusal is the error.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Bytes,
    ) -> Result<Answer, Refused> {
        self.send_with(method, path, content_type, &[], body).await
    }

    /// The same with headers that become the message's.
    pub(crate) async fn send_with(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<Answer, Refused> {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(kind) = content_type {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        for (name, value) in headers {
            request = request.header(format!("{}{name}", server::HEADER_PREFIX), value);
        }
        let request = request.body(body).map_err(|error| {
            Problem::new(codes::WRONG_ARGUMENT, USAGE, format!("the call cannot be made: {error}"))
                .with_help("a header has a name and a value that HTTP can carry")
        })?;
        let response = self.client.call(request).await.map_err(|error| unanswered(&error))?;
        if response.status().is_success() {
            return Ok(Answer { bytes: response.into_body() });
        }
        Err(refused(response.status(), response.body()))
    }
}

pub(crate) fn json(bytes: &[u8]) -> Result<Value, Problem> {
    serde_json::from_slice(bytes).map_err(|error| unexpected(error.to_string()))
}

fn unanswered(error: &server::ClientError) -> Problem {
    Problem::with_id(error.code().id(), FAILED, error.to_string())
        .with_help("look at the log of the instance; when it has ended, the same command works on the file")
}

/// An answer that this command does not understand.
pub(crate) fn unexpected(why: String) -> Problem {
    Problem::with_id(server::codes::NO_ANSWER.id(), FAILED, format!("an answer that cannot be read: {why}"))
        .with_help("the running instance may be of another version")
}

fn refused(status: StatusCode, body: &[u8]) -> Refused {
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
    let Some((code, message)) = text("code").zip(text("message")) else {
        return unexpected(format!("status {status}")).into();
    };
    let exit = exit(status, &code);
    let mut problem = Problem::with_id(&code, exit, message);
    if let Some(help) = text("help") {
        problem = problem.with_help(help);
    }
    Refused { problem, object }
}

fn exit(status: StatusCode, code: &str) -> u8 {
    match status {
        StatusCode::NOT_FOUND => MISSING,
        StatusCode::UNPROCESSABLE_ENTITY if code == server::codes::PARTLY.id() => FAILED,
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            USAGE
        }
        status if status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT => REFUSED,
        _ => FAILED,
    }
}
