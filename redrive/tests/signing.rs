//! Signatures and spellings, from what a person wrote to what a flow does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::core::Headers;
use redrive::core::headers::{Key, Spelling, Trail};
use redrive::engine::handler::FunctionHandler;
use redrive::engine::port::Broker as _;
use redrive::setup::{self, InCode};
use redrive::{Context, Flow, Message, NewMessage, config};

const FILE: &str = "
version: 1
flows:
  orders:
    from: queue:orders
    to: http://127.0.0.1:1
    headers: app-prefixed
    signing: { keys: [{ id: new, secret_env: NEW_KEY }, { id: old, secret_env: OLD_KEY }] }
";

fn key(id: &str, seed: u8) -> Key {
    Key::new(id, &[seed; 32]).unwrap()
}

#[test]
fn the_file_names_the_spelling_and_the_keys() {
    let config = config::check(FILE.as_bytes(), &|_| None).value.unwrap();
    let setup = |env: &dyn Fn(&str) -> Option<String>| setup::flow(&config, "orders", in_code(), env);
    let missing = setup(&|_| None).unwrap_err();
    assert_eq!(missing.to_string(), "flow `orders`: signing: key `new`: the environment has no `NEW_KEY`");
    let rules = setup(&|name| match name {
        "NEW_KEY" => Some(key("new", 2).to_secret_text()),
        "OLD_KEY" => Some(key("old", 1).to_secret_text()),
        _ => None,
    })
    .unwrap()
    .spec
    .headers;
    assert_eq!(rules.spelling(), Spelling::AppPrefixed);
    let mut headers = Headers::new();
    rules.write(&Trail { attempt: 3, ..Trail::default() }, &mut headers, None);
    assert_eq!(headers.get_text("x-app-retry-attempt", 9).as_deref(), Some("3"));
    let mac = headers.get_text("x-redrive-mac", 100).unwrap();
    assert!(mac.starts_with("v1,new,"), "{mac}");
    // What the old key signed is still believed.
    let keys = redrive::core::headers::Keyring::new(key("old", 1));
    let old = redrive::engine::port::HeaderRules::default().signed(keys);
    old.write(&Trail { attempt: 2, ..Trail::default() }, &mut headers, None);
    let read = rules.read(&headers, None);
    assert_eq!((read.attempt, read.doubt()), (2, None));
}

fn in_code() -> InCode {
    let function = |_: Message, _: Context| async { Ok::<(), std::io::Error>(()) };
    InCode { handler: Some(Arc::new(FunctionHandler::new(function))), ..InCode::default() }
}

/// Runs a flow with these keys on one message that claims three attempts, and gives the attempt it was handled as.
async fn handled_as(keys: &[Key]) -> u32 {
    let folder = tempfile::tempdir().unwrap();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let flow = Flow::from("queue:orders").data(folder.path().join("redrive.db")).headers(Spelling::Plain);
    let flow = keys.iter().fold(flow, |flow, key| flow.signing_key(key.clone()));
    let instance = flow
        .handle(move |_: Message, context: Context| {
            if let Some(sender) = sender.lock().unwrap().take() {
                let _ = sender.send(context.attempt);
            }
            std::future::ready(Ok::<(), std::io::Error>(()))
        })
        .start()
        .await
        .unwrap();
    let mut headers = Headers::new();
    headers.push("retry-attempt", "3");
    instance.store().publish("orders", vec![NewMessage { headers, ..NewMessage::default() }]).await.unwrap();
    let attempt = tokio::time::timeout(Duration::from_secs(60), receiver).await.unwrap().unwrap();
    instance.stop(std::future::pending()).await;
    attempt
}

#[tokio::test]
async fn a_flow_in_code_has_spellings_and_keys() {
    assert_eq!(handled_as(&[]).await, 4, "the other spelling is believed");
    assert_eq!(handled_as(&[key("k", 7)]).await, 1, "but not where headers are signed");
}

#[tokio::test]
async fn two_keys_with_one_id_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let flow = Flow::from("queue:orders").data(folder.path().join("redrive.db"));
    let ready = flow
        .signing_key(key("k", 1))
        .signing_key(key("k", 2))
        .handle(|_: Message, _: Context| async { Ok::<(), std::io::Error>(()) });
    assert_eq!(ready.start().await.unwrap_err().to_string(), "two signing keys have the id `k`");
}
