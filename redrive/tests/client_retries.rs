//! A handler's own calls are retried by `redrive::retry`, on the account of its message.
#![cfg(feature = "retry")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive::retry::{CallBudget, Retryer};
use redrive::{Context, Flow, Message, NewMessage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retryer_in_a_handler_draws_on_its_message() {
    let folder = tempfile::tempdir().unwrap();
    let (calls, used) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
    let (seen, charged) = (Arc::clone(&calls), Arc::clone(&used));
    let retryer = Retryer::builder().schedule("0s x4".parse().unwrap()).build().unwrap();
    let instance = Flow::from("queue:orders")
        .data(folder.path().join("orders.db"))
        .handle(move |_: Message, _: Context| {
            let (retryer, seen, charged) = (retryer.clone(), Arc::clone(&seen), Arc::clone(&charged));
            async move {
                let fetch = |_| {
                    let number = seen.fetch_add(1, Ordering::SeqCst);
                    async move { if number < 2 { Err("busy") } else { Ok(()) } }
                };
                let fetched = retryer.call(fetch).await;
                let budget = CallBudget::current().expect("the flow has set one");
                charged.store(budget.used(), Ordering::SeqCst);
                fetched.map_err(|error| error.to_string())
            }
        })
        .start()
        .await
        .unwrap();
    instance.publish("orders", NewMessage { body: Some("1".into()), ..NewMessage::default() }).await.unwrap();
    instance.idle(Duration::from_millis(10)).await;
    instance.stop(std::future::pending()).await;
    assert_eq!(calls.load(Ordering::SeqCst), 3, "two that failed and one that did not, within one attempt");
    assert_eq!(used.load(Ordering::SeqCst), 3);
}
