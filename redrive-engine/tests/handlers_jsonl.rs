//! A long-lived process that speaks JSON lines.

mod script;

use std::time::Duration;

use redrive_core::classify::IoKind;
use redrive_core::{Message, Reason, Verdict};
use redrive_engine::handler::{Handler, JsonlHandler};
use script::{Lifeline, Script, call, context, exists, failure, gone, message};

/// The beginning of every worker: `say` answers, `calls` reads.
const BEGIN: &str = r"
import base64, json, os, socket, sys
def say(**answer): print(json.dumps(answer), flush=True)
def calls():
    for line in sys.stdin: yield json.loads(line)
";

fn worker(text: &str) -> Script {
    Script::python(&format!("{BEGIN}{text}"))
}

#[tokio::test]
async fn answers_come_in_any_order() {
    let script = worker(
        r"
batch = []
for call in calls():
    batch.append(call)
    if len(batch) == 50:
        for call in reversed(batch): say(id=call['id'], error=call['body'] if call['body'] != 'good' else None)
        batch = []
",
    );
    let handler = JsonlHandler::new(script.line(""));
    let messages: Vec<Message> = (0..50)
        .map(|n| message(&n.to_string(), if n % 2 == 0 { "good".to_owned() } else { format!("bad {n}") }))
        .collect();
    let mut calls = tokio::task::JoinSet::new();
    let handler = std::sync::Arc::new(handler);
    for sent in messages {
        let handler = std::sync::Arc::clone(&handler);
        calls.spawn(async move { (sent.id.clone(), call(&*handler, &sent).await) });
    }
    while let Some(ended) = calls.join_next().await {
        let (id, attempted) = ended.unwrap();
        let number: usize = id.parse().unwrap();
        match attempted.result {
            Ok(()) => assert_eq!(number % 2, 0),
            Err(failure) => assert_eq!(failure.message(), format!("bad {number}")),
        }
    }
    assert_eq!(handler.ignored(), 0);
}

#[tokio::test]
async fn the_process_gets_the_whole_message() {
    let script = worker(
        r"
for call in calls():
    with open(sys.argv[1] + '/' + call['id'], 'wb') as file:
        body = base64.b64decode(call['body_base64']) if 'body_base64' in call else (call['body'] or '').encode()
        file.write(body)
    checks = [call['attempt'] == 2, call['deadline'] == '2026-07-01T09:00:30Z', call['headers'] == {'type': 'T'}, call['key'] == 'k']
    say(id=call['id'], attempt=2, verdict='ack' if all(checks) else 'dead')
",
    );
    let handler = JsonlHandler::new(script.line(""));
    let large: Vec<u8> = (0..5 * 1024 * 1024_u32).map(|n| (n % 251) as u8).collect();
    for (id, body) in [("text", "é\n\"{}".as_bytes().to_vec()), ("empty", Vec::new()), ("bytes", large)] {
        let mut sent = Message { key: Some("k".into()), ..message(id, body.clone()) };
        sent.headers.push("type", "T");
        let attempted = call(&handler, &sent).await;
        assert!(attempted.result.is_ok(), "{attempted:?}");
        assert!(std::fs::read(script.file(id)).unwrap() == body, "{id}");
    }
}

#[tokio::test]
async fn verdicts_reasons_and_charges_count() {
    let script = worker(
        r"
for call in calls():
    say(id=call['id'], verdict='retry-after=30s', reason='NO_STOCK', error='none left', calls_used=3, cost=2)
",
    );
    let handler = JsonlHandler::new(script.line(""));
    let attempted = call(&handler, &message("1", "{}")).await;
    assert_eq!((attempted.charge.calls, attempted.charge.cost), (3, 2));
    let found = failure(attempted);
    assert_eq!(found.verdict(), Some(&Verdict::RetryAfter(Duration::from_secs(30))));
    assert_eq!((found.message(), found.reason().map(Reason::as_str)), ("none left", Some("NO_STOCK")));
}

#[tokio::test]
async fn garbage_is_counted_and_passed_over() {
    let script = worker(
        r"
for call in calls():
    print('debug output')
    print(json.dumps([1, 2]))
    print('x' * 2_000_000)
    sys.stdout.flush(); sys.stdout.buffer.write(b'\xff\xfe\n')
    say(id='nobody'); say(verdict='ack'); say(id=7)
    say(id=call['id'], attempt=99, verdict='dead')
    say(id=call['id'])
",
    );
    let handler = JsonlHandler::new(script.line(""));
    for round in 1..=3 {
        assert!(call(&handler, &message("1", "{}")).await.result.is_ok());
        assert_eq!(handler.ignored(), 8 * round);
    }
}

#[tokio::test]
async fn a_crash_fails_what_was_in_flight_and_the_next_call_finds_a_new_process() {
    let script = worker(
        r"
for call in calls():
    if call['body'] == 'pid': say(id=call['id'], error=str(os.getpid()))
    if call['body'] == 'die':
        print('cannot go on', file=sys.stderr)
        sys.exit(3)
",
    );
    let handler = JsonlHandler::new(script.line(""));
    let first = failure(call(&handler, &message("1", "pid")).await);
    let (hangs, dies) = (message("2", "hang"), message("3", "die"));
    let (hung, died) = tokio::join!(call(&handler, &hangs), call(&handler, &dies));
    for found in [failure(hung), failure(died)] {
        assert_eq!(found.message(), "`python3` ended with exit status: 3: cannot go on");
        assert_eq!((found.io(), found.exit_code()), (Some(IoKind::BrokenPipe), None));
    }
    let second = failure(call(&handler, &message("1", "pid")).await);
    assert_ne!(first.message(), second.message());
}

#[tokio::test]
async fn a_call_that_is_given_up_makes_way_for_the_next() {
    let script = worker(
        r"
for call in calls():
    if call['body'] == 'hang':
        late, line = call['id'], socket.create_connection(('127.0.0.1', int(sys.argv[2])))
    else:
        say(id=late, attempt=1); say(id=call['id'], attempt=call['attempt'])
",
    );
    let lifeline = Lifeline::open().await;
    let handler = JsonlHandler::new(script.line(&lifeline.port()));
    let (hangs, mut first) = (message("1", "hang"), context());
    first.attempt = 1;
    let _report = tokio::select! {
        attempted = handler.call(&hangs, first) => panic!("{attempted:?}"),
        report = lifeline.report() => report,
    };
    assert!(call(&handler, &message("1", "good")).await.result.is_ok());
    assert_eq!(handler.ignored(), 1, "the late answer of the first attempt");
}

#[tokio::test]
async fn one_id_is_in_flight_once() {
    let script = worker(
        r"
for call in calls():
    say(id=call['id'], error=call['body'])
",
    );
    let handler = JsonlHandler::new(script.line(""));
    let (one, two) = (message("1", "one"), message("1", "two"));
    let (one, two) = tokio::join!(call(&handler, &one), call(&handler, &two));
    assert_eq!((failure(one).message(), failure(two).message()), ("one", "two"));
}

#[tokio::test]
async fn a_program_that_is_not_there_fails_at_once() {
    let handler = JsonlHandler::new("./no/such/program".parse().unwrap());
    let found = failure(call(&handler, &message("1", "")).await);
    assert_eq!((found.io(), found.error_type()), (Some(IoKind::NotFound), Some("EndpointMisconfigured")));
}

#[tokio::test]
async fn shutdown_lets_it_finish() {
    let script = worker(
        r"
for call in calls(): say(id=call['id'])
open(sys.argv[1] + '/finished', 'w').close()
",
    );
    let handler = JsonlHandler::new(script.line(""));
    assert!(call(&handler, &message("1", "")).await.result.is_ok());
    handler.shutdown(Duration::from_secs(60)).await;
    assert!(exists(&script.file("finished")));
    let found = failure(call(&handler, &message("2", "")).await);
    assert_eq!(found.message(), "`python3` has been shut down");
}

#[tokio::test]
async fn shutdown_kills_what_does_not_finish() {
    let script = worker(
        r"
line = socket.create_connection(('127.0.0.1', int(sys.argv[2])))
for call in calls(): say(id=call['id'])
line.recv(1)
",
    );
    let lifeline = Lifeline::open().await;
    let handler = JsonlHandler::new(script.line(&lifeline.port()));
    let sent = message("1", "");
    let (attempted, report) = tokio::join!(call(&handler, &sent), lifeline.report());
    assert!(attempted.result.is_ok());
    handler.shutdown(Duration::from_millis(10)).await;
    gone(report).await;
}
