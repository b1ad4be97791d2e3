//! Functions and commands as handlers.

mod script;

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use redrive_core::classify::{Classification, Classifier, Fault, IoKind, Seen, Subject};
use redrive_core::{Class, Failure, Headers, History, MAX_TEXT, Message, Reason};
use redrive_engine::handler::{CommandHandler, Context, FunctionHandler, Handler, catch};
use script::{Lifeline, Script, call, context, failure, gone, message};

fn classify(failure: &Failure) -> Classification {
    let seen = Seen { subject: &Subject::default(), history: &History::first(), failure };
    Classifier::default().classify(&seen)
}

#[tokio::test]
async fn a_function_fails_with_its_error_and_its_panics() {
    let handler = FunctionHandler::new(|message: Message, cx: Context| async move {
        match message.body.as_deref() {
            Some(b"refused") => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)),
            Some(b"panic") => panic!("attempt {} of {}", cx.attempt, "x".repeat(10_000_000)),
            Some(b"payload") => std::panic::panic_any(42),
            _ => Ok(()),
        }
    })
    .with_version("7");
    assert_eq!(handler.version().as_deref(), Some("7"));
    assert!(call(&handler, &message("1", "")).await.result.is_ok());
    let found = failure(call(&handler, &message("1", "refused")).await);
    assert_eq!(
        (found.io(), found.error_type()),
        (Some(IoKind::ConnectionRefused), Some("std::io::error::Error"))
    );

    let (panics, context) = (message("1", "panic"), context());
    let found = failure(catch(handler.call(&panics, context.clone())).await);
    assert!(found.panicked() && found.message().starts_with("attempt 2 of xxx"));
    assert_eq!((found.message().len(), classify(&found).reason), (MAX_TEXT, Reason::HANDLER_PANICKED));
    let found = failure(catch(handler.call(&message("1", "payload"), context)).await);
    assert_eq!(found.message(), "the handler panicked with a value that is no text");
}

#[tokio::test]
async fn exit_codes_have_their_meaning() {
    let script = Script::sh("echo \"ending with $2\" >&2\nexit $2\n");
    for (code, class, reason) in [
        (75, Class::Transient, Reason::TRY_AGAIN),
        (65, Class::PermanentTechnical, Reason::INVALID_MESSAGE),
        (1, Class::Unknown, Reason::COMMAND_FAILED),
        (255, Class::Unknown, Reason::COMMAND_FAILED),
    ] {
        let handler = CommandHandler::new(script.line(&code.to_string()));
        let found = failure(call(&handler, &message("1", "{}")).await);
        assert_eq!(found.exit_code(), Some(code));
        assert_eq!(found.message(), format!("`sh` ended with exit status: {code}: ending with {code}"));
        assert_eq!(found.body(), Some(&*format!("ending with {code}")));
        let class_found = classify(&found);
        assert_eq!((class_found.class, class_found.reason), (class, reason));
    }
    assert!(call(&CommandHandler::new(script.line("0")), &message("1", "{}")).await.result.is_ok());
}

#[tokio::test]
async fn a_signal_is_named() {
    let script = Script::sh("kill -9 $$\n");
    let found = failure(call(&CommandHandler::new(script.line("")), &message("1", "")).await);
    assert_eq!((found.exit_code(), found.message()), (Some(137), "`sh` ended with signal: 9 (SIGKILL)"));
    assert_eq!(classify(&found).reason, Reason::COMMAND_FAILED);
}

#[tokio::test]
async fn a_command_gets_the_bytes_and_the_environment() {
    let script = Script::sh("cat > \"$1/body\"\nenv -0 > \"$1/env\"\n");
    let mut headers = Headers::new();
    headers.push("x-correlation-id", "c-1\nline two");
    headers.push("path", "/evil");
    headers.push("LD_PRELOAD", "evil.so");
    let body: Vec<u8> = (0..10 * 1024 * 1024_u32).map(|n| (n % 251) as u8).collect();
    let sent = Message { headers, key: Some("k-1".into()), ..message("o-1", body.clone()) };
    let mut told = context();
    told.calls_left = Some(4);
    let handler = CommandHandler::new(script.line(""));
    assert!(handler.call(&sent, told).await.result.is_ok());

    assert!(std::fs::read(script.file("body")).unwrap() == body);
    let text = std::fs::read_to_string(script.file("env")).unwrap();
    let environment: HashMap<_, _> = text.split('\0').filter_map(|line| line.split_once('=')).collect();
    for (name, value) in [
        ("REDRIVE_ID", "o-1"),
        ("REDRIVE_IDEMPOTENCY_KEY", "o-1"),
        ("REDRIVE_FLOW", "orders"),
        ("REDRIVE_ATTEMPT", "2"),
        ("REDRIVE_WILL_RETRY", "true"),
        ("REDRIVE_CALLS_LEFT", "4"),
        ("REDRIVE_DEADLINE", "2026-07-01T09:00:30Z"),
        ("REDRIVE_KEY", "k-1"),
        ("REDRIVE_HEADER_X_CORRELATION_ID", "c-1\nline two"),
        ("REDRIVE_HEADER_PATH", "/evil"),
        ("REDRIVE_HEADER_LD_PRELOAD", "evil.so"),
    ] {
        assert_eq!(environment.get(name), Some(&value), "{name}");
    }
    for name in ["LD_PRELOAD", "path", "REDRIVE_TOMBSTONE", "REDRIVE_KEY_BASE64"] {
        assert_eq!(environment.get(name), None, "{name}");
    }
    assert_ne!(environment.get("PATH"), Some(&"/evil"));
}

#[tokio::test]
async fn a_tombstone_and_a_key_of_bytes_are_told_apart() {
    let script = Script::sh(
        "test \"$REDRIVE_TOMBSTONE\" = true && test \"$REDRIVE_KEY_BASE64\" = /wA= && test -z \"$(cat)\"\n",
    );
    let sent = Message { body: None, key: Some(vec![0xff, 0].into()), ..message("a\0b", "") };
    assert!(call(&CommandHandler::new(script.line("")), &sent).await.result.is_ok());
}

#[tokio::test]
async fn a_command_need_not_read_its_input() {
    let script = Script::sh("exit 0\n");
    let sent = message("1", vec![b'x'; 10 * 1024 * 1024]);
    assert!(call(&CommandHandler::new(script.line("")), &sent).await.result.is_ok());
}

#[tokio::test]
async fn a_flood_of_errors_is_kept_to_its_end() {
    let script = Script::python(
        "import sys\nfor n in range(200000): print('line', n, 'x' * 40, file=sys.stderr)\nsys.exit(3)\n",
    );
    let found = failure(call(&CommandHandler::new(script.line("")), &message("1", "")).await);
    let kept = found.body().unwrap();
    assert!(kept.len() <= 4096 && kept.lines().count() == 20, "{kept}");
    assert!(found.message().contains("line 199999"), "{found:?}");
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_the_endpoint_s_fault() {
    let folder = tempfile::TempDir::new().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    for (program, io) in
        [("./no/such/program", IoKind::NotFound), (plain.to_str().unwrap(), IoKind::PermissionDenied)]
    {
        let handler = CommandHandler::new(program.parse().unwrap());
        let found = failure(call(&handler, &message("1", "")).await);
        assert!(found.message().starts_with(&format!("`{program}` cannot be started: ")), "{found:?}");
        assert_eq!(found.io(), Some(io));
        let class = classify(&found);
        assert_eq!((class.reason, class.fault), (Reason::ENDPOINT_MISCONFIGURED, Some(Fault::Endpoint)));
    }
}

/// Starts a child that reports at a port, and then does what its second argument says.
const PARENT: &str = r"
import subprocess, sys, time
report = 'import socket, sys; s = socket.create_connection((\'127.0.0.1\', int(sys.argv[1]))); print(flush=True); s.recv(1)'
child = subprocess.Popen([sys.executable, '-c', report, sys.argv[2]], stdout=subprocess.PIPE)
child.stdout.readline()
if sys.argv[3] == 'stay': child.wait()
";

#[tokio::test]
async fn everything_it_started_ends_with_an_attempt_that_is_given_up() {
    let (script, lifeline) = (Script::python(PARENT), Lifeline::open().await);
    let handler = CommandHandler::new(script.line(&format!("{} stay", lifeline.port())));
    let sent = message("1", "");
    let report = tokio::select! {
        attempted = call(&handler, &sent) => panic!("it ended: {attempted:?}"),
        report = lifeline.report() => report,
    };
    gone(report).await;
}

#[tokio::test]
async fn what_it_left_running_ends_with_it() {
    let (script, lifeline) = (Script::python(PARENT), Lifeline::open().await);
    let handler = CommandHandler::new(script.line(&format!("{} leave", lifeline.port())));
    let sent = message("1", "");
    let (attempted, report) = tokio::time::timeout(Duration::from_secs(60), async {
        tokio::join!(call(&handler, &sent), lifeline.report())
    })
    .await
    .expect("the child's open pipes hold nothing up");
    assert!(attempted.result.is_ok());
    gone(report).await;
}
