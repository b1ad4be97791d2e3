//! `publish`: messages into a queue, one or as many as a file has lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::ExitCode;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use redrive::address::SourceAddress;
use redrive::codes;
use redrive::core::TextError;
use redrive::server::http::Method;
use serde_json::{Map, Value, json};

use super::arguments::PublishArguments;
use super::call::{self, Absent, Data, Refused};
use super::filter::encoded;
use super::progress::Progress;
use super::shown;
use crate::problem::{FAILED, MISSING, Problem, USAGE};
use crate::{files, terminal};

/// Messages of one call.
const BATCH: usize = 1_000;
/// Bytes of one call, unless a single message has more.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

pub(crate) async fn run(arguments: &PublishArguments) -> Result<ExitCode, Problem> {
    let target = target(&arguments.to)?;
    let path = format!("/v1/queues/{}/messages", encoded(target.queue()));
    let source = source(arguments)?;
    let data = match &target {
        Target::Queue(_) => Data::open(&arguments.common, Absent::Make).await?,
        #[cfg(feature = "kafka")]
        Target::Topic(address) => on_kafka(arguments, address)?,
        #[cfg(feature = "rabbitmq")]
        Target::RabbitMq(address) => on_rabbitmq(address)?,
    };
    match source {
        Source::One(body) => one(arguments, &data, &path, &body).await,
        Source::Lines(lines, form) => many(arguments, &data, &path, lines, form).await,
    }
}

/// Where messages go.
enum Target {
    Queue(String),
    #[cfg(feature = "kafka")]
    Topic(redrive::address::KafkaAddress),
    #[cfg(feature = "rabbitmq")]
    RabbitMq(redrive::address::AmqpAddress),
}

impl Target {
    fn queue(&self) -> &str {
        match self {
            Self::Queue(name) => name,
            #[cfg(feature = "kafka")]
            Self::Topic(address) => address.topics.first().map_or("", String::as_str),
            #[cfg(feature = "rabbitmq")]
            Self::RabbitMq(address) => address.queue.as_deref().unwrap_or_default(),
        }
    }
}

fn target(address: &str) -> Result<Target, Problem> {
    #[cfg(feature = "kafka")]
    if let Ok(SourceAddress::Kafka(kafka)) = address.parse() {
        if kafka.topics.len() != 1 {
            return Err(Problem::new(codes::WRONG_ARGUMENT, USAGE, "a message goes to one topic")
                .with_help("name one: kafka://localhost:9092/orders"));
        }
        return Ok(Target::Topic(kafka));
    }
    #[cfg(feature = "rabbitmq")]
    if let Ok(SourceAddress::Amqp(rabbit)) = address.parse() {
        return Ok(Target::RabbitMq(rabbit));
    }
    queue(address).map(Target::Queue)
}

/// A broker's name in the address is looked up in the configuration, when there is one.
#[cfg(feature = "kafka")]
fn on_kafka(arguments: &PublishArguments, address: &redrive::address::KafkaAddress) -> Result<Data, Problem> {
    if arguments.carried.delay.is_some() {
        return Err(Problem::new(codes::WRONG_ARGUMENT, USAGE, "Kafka hands messages out at once")
            .with_help("a flow that forwards delivers a message when it is due: docs/forward.md"));
    }
    let broker = redrive::brokers::kafka(&written()?, address, &files::env);
    let broker = broker.map_err(|error| Problem::new(error.code(), FAILED, error.to_string()))?;
    terminal::say(&format!("to {}", SourceAddress::Kafka(address.clone())));
    Ok(Data::on_broker(broker))
}

/// What waits for its time does so in the queues of the flow that reads the queue.
#[cfg(feature = "rabbitmq")]
fn on_rabbitmq(address: &redrive::address::AmqpAddress) -> Result<Data, Problem> {
    let broker = redrive::brokers::rabbitmq(&written()?, address, &files::env);
    let broker = broker.map_err(|error| Problem::new(error.code(), FAILED, error.to_string()))?;
    terminal::say(&format!("to {address}"));
    Ok(Data::on_broker(broker))
}

/// The configuration, when there is one.
#[cfg(any(feature = "kafka", feature = "rabbitmq"))]
fn written() -> Result<redrive::config::Config, Problem> {
    Ok(match files::config(None) {
        Some(path) => redrive::config::check(&files::read(&path)?, &files::env).value.unwrap_or_default(),
        None => redrive::config::Config::default(),
    })
}

/// The name in `queue:NAME`.
pub(crate) fn queue(address: &str) -> Result<String, Problem> {
    match address.parse() {
        Ok(SourceAddress::Queue(name)) => Ok(name),
        Ok(other) => {
            let text = format!("{} is not a queue of the data file", other.kind());
            Err(Problem::new(codes::NOT_BUILT_IN, USAGE, text).with_help("name one as queue:NAME"))
        }
        Err(error) => {
            let error: TextError = error;
            Err(Problem::in_text(codes::WRONG_ARGUMENT, address, &error).with_help("name one as queue:NAME"))
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

enum Source {
    One(Vec<u8>),
    Lines(Box<dyn BufRead>, Form),
}

fn source(arguments: &PublishArguments) -> Result<Source, Problem> {
    if let Some(file) = &arguments.lines {
        return Ok(Source::Lines(reader(file)?, Form::Text));
    }
    if let Some(file) = &arguments.jsonl {
        return Ok(Source::Lines(reader(file)?, Form::Json));
    }
    if let Some(file) = &arguments.file {
        return whole(file).map(Source::One);
    }
    match arguments.body.as_deref() {
        Some("-") => whole(Path::new("-")).map(Source::One),
        Some(body) => Ok(Source::One(body.as_bytes().to_vec())),
        None => Err(Problem::new(codes::WRONG_ARGUMENT, USAGE, "there is no body")
            .with_help("give it as text, as - for standard input, or with --file, --lines or --jsonl")),
    }
}

/// A file, or standard input.
pub(crate) fn whole(file: &Path) -> Result<Vec<u8>, Problem> {
    if file != Path::new("-") {
        return files::read(file);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| unreadable(file, &error))?;
    Ok(bytes)
}

fn reader(file: &Path) -> Result<Box<dyn BufRead>, Problem> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let open = File::open(file).map_err(|error| unreadable(file, &error))?;
    Ok(Box::new(BufReader::with_capacity(256 * 1024, open)))
}

fn unreadable(file: &Path, error: &std::io::Error) -> Problem {
    let exit = if error.kind() == std::io::ErrorKind::NotFound { MISSING } else { FAILED };
    Problem::new(codes::NO_FILE, exit, format!("{}: {error}", file.display()))
}

/// A message as a line of the API. Names of headers keep their case this way, and any body fits.
fn line(arguments: &PublishArguments, body: &[u8]) -> String {
    let mut object = Map::new();
    match std::str::from_utf8(body) {
        Ok(text) => object.insert("body".into(), json!(text)),
        Err(_) => object.insert("body_base64".into(), json!(BASE64_STANDARD.encode(body))),
    };
    if let Some(key) = &arguments.carried.key {
        object.insert("key".into(), json!(key));
    }
    if let Some(id) = &arguments.carried.id {
        object.insert("id".into(), json!(id));
    }
    if let Some(delay) = &arguments.carried.delay {
        object.insert("delay".into(), json!(delay));
    }
    let mut headers = Map::new();
    for (name, value) in &arguments.carried.header {
        let values = headers.entry(name.as_str()).or_insert_with(|| json!([]));
        if let Value::Array(values) = values {
            values.push(json!(value));
        }
    }
    if !headers.is_empty() {
        object.insert("headers".into(), headers.into());
    }
    Value::Object(object).to_string()
}

async fn one(
    arguments: &PublishArguments,
    data: &Data,
    path: &str,
    body: &[u8],
) -> Result<ExitCode, Problem> {
    let sent = send(data, path, line(arguments, body)).await;
    let ids = sent.map_err(|refused| {
        // Nobody who published one message has lines in mind.
        let mut problem = refused.problem;
        if let Some(rest) = problem.message.strip_prefix("line 1: ") {
            problem.message = rest.to_owned();
        }
        problem
    })?;
    terminal::print(&shown::ids(&ids, arguments.common.json))
}

async fn send(data: &Data, path: &str, lines: String) -> Result<Vec<String>, Refused> {
    let answer = data.send(Method::POST, path, Some("application/x-ndjson"), lines.into()).await?;
    let mut answer = call::json(&answer.bytes)?;
    let ids = shown::list(&mut answer, "ids")?;
    Ok(ids.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// A batch on its way, and where its lines stand in the file.
#[derive(Default)]
struct Batch {
    text: String,
    places: Vec<usize>,
}

async fn many(
    arguments: &PublishArguments,
    data: &Data,
    path: &str,
    mut lines: Box<dyn BufRead>,
    form: Form,
) -> Result<ExitCode, Problem> {
    let file = arguments.lines.as_deref().or(arguments.jsonl.as_deref()).unwrap_or(Path::new("-"));
    let mut progress = Progress::new();
    let (mut batch, mut bytes, mut place, mut published) = (Batch::default(), Vec::new(), 0, 0);
    loop {
        bytes.clear();
        let read = lines.read_until(b'\n', &mut bytes).map_err(|error| unreadable(file, &error))?;
        let full = batch.places.len() == BATCH || batch.text.len() >= BATCH_BYTES;
        if (read == 0 || full) && !batch.places.is_empty() {
            published += send_batch(arguments, data, path, std::mem::take(&mut batch), published).await?;
            progress.show(format!("{published} published"));
        }
        if read == 0 {
            break;
        }
        place += 1;
        let content = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        if content.trim_ascii().is_empty() {
            continue;
        }
        match (form, std::str::from_utf8(content)) {
            (Form::Text, _) => batch.text.push_str(&line(arguments, content)),
            (Form::Json, Ok(text)) => batch.text.push_str(text),
            (Form::Json, Err(_)) => {
                let text = format!("{}: line {place} is not UTF-8", file.display());
                return Err(Problem::new(codes::WRONG_ARGUMENT, USAGE, text).with_help(format!(
                    "{published} published before it; a body of bytes is `body_base64`"
                )));
            }
        }
        batch.text.push('\n');
        batch.places.push(place);
    }
    if published == 0 {
        let text = format!("{}: there is no line with a message", file.display());
        return Err(Problem::new(codes::WRONG_ARGUMENT, USAGE, text));
    }
    drop(progress);
    terminal::say(&format!("{} published", shown::counted(published, "message")));
    Ok(ExitCode::SUCCESS)
}

/// Sends a batch and prints its ids at once, so that what was taken is known whatever comes after.
async fn send_batch(
    arguments: &PublishArguments,
    data: &Data,
    path: &str,
    batch: Batch,
    before: u64,
) -> Result<u64, Problem> {
    let Refused { mut problem, object } = match send(data, path, batch.text).await {
        Ok(ids) => {
            terminal::print(&shown::ids(&ids, arguments.common.json))?;
            return Ok(ids.len() as u64);
        }
        Err(refused) => refused,
    };
    let place = |line: &Value| {
        let line = usize::try_from(line.as_u64()?).ok()?;
        batch.places.get(line.checked_sub(1)?).copied()
    };
    let mut taken = Vec::new();
    for line in object.get("lines").and_then(Value::as_array).into_iter().flatten() {
        if let Some(id) = line.get("id").and_then(Value::as_str) {
            taken.push(id.to_owned());
            continue;
        }
        let at = line.get("line").and_then(place).unwrap_or_default();
        let why = line.get("message").and_then(Value::as_str).unwrap_or_default();
        terminal::say(&format!("line {at}: {why}"));
    }
    terminal::print(&shown::ids(&taken, arguments.common.json))?;
    if let Some(line) = object.get("line")
        && let Some(at) = place(line)
        && let Some((_, why)) = problem.message.split_once(": ")
    {
        problem.message = format!("line {at}: {why}");
    }
    let first = batch.places.first().copied().unwrap_or_default();
    let published = before + taken.len() as u64;
    problem.help = Some(if taken.is_empty() {
        format!("{published} published; nothing from line {first} on")
    } else {
        let last = batch.places.last().copied().unwrap_or_default();
        format!(
            "{published} published; of lines {first} to {last} those named above were not, and nothing after"
        )
    });
    if !taken.is_empty() {
        problem.message = String::from("a part of the messages was refused");
    }
    Err(problem)
}
