//! What a `reqwest` client is told that this crate makes: the time to connect, and to send nothing again by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redrive_retry::http::{HttpAnswers, HttpCause, HttpRetry};
use redrive_retry::{Builder, Retryer, Stop, TokioClock};
use reqwest::dns::{Name, Resolve, Resolving};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::clients::quick;

/// Knows no name, and does not say so.
struct Silent;

impl Resolve for Silent {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(std::future::pending())
    }
}

fn patient() -> Builder {
    let minute = Duration::from_mins(1);
    Retryer::builder().attempts(1).attempt_timeout(minute).deadline(minute).clock(TokioClock)
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_come_about_has_the_time_to_connect() {
    let short = Duration::from_millis(700);
    for (settings, time) in [(patient(), Duration::from_secs(3)), (patient().connect_timeout(short), short)] {
        let retryer = settings.classify(HttpAnswers::default()).build().unwrap();
        let builder = reqwest::Client::builder().dns_resolver(Arc::new(Silent)).no_proxy();
        let client = HttpRetry::reqwest(builder, retryer).unwrap();
        let request = client.client().get("http://orders.test/").build().unwrap();
        let began = Instant::now();
        let error = client.execute(request).await.unwrap_err();
        let Some(HttpCause::Transport(transport)) = error.error() else { panic!("{error:?}") };
        assert!(transport.is_connect() && transport.is_timeout(), "{transport:?}");
        assert_eq!(began.elapsed(), time);
    }
}

/// A server of HTTP/2 that refuses every request, and counts them.
async fn refusing() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let refused = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&refused);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    seen.fetch_add(1, Ordering::SeqCst);
                    respond.send_reset(h2::Reason::REFUSED_STREAM);
                }
            });
        }
    });
    (format!("http://{address}/"), refused)
}

fn http2() -> reqwest::ClientBuilder {
    reqwest::Client::builder().http2_prior_knowledge().no_proxy()
}

#[tokio::test]
async fn what_http2_refused_is_sent_again_by_us_alone() {
    let (url, refused) = refusing().await;
    assert!(http2().build().unwrap().get(&url).send().await.is_err());
    assert!(refused.swap(0, Ordering::SeqCst) > 1, "left to itself, it sends it again");
    for attempts in [1, 3] {
        let retryer = quick().attempts(attempts).classify(HttpAnswers::default()).build().unwrap();
        let client = HttpRetry::reqwest(http2(), retryer).unwrap();
        let error = client.execute(client.client().get(&url).build().unwrap()).await.unwrap_err();
        assert_eq!((error.stop(), error.attempts()), (Stop::Attempts, attempts));
        assert_eq!(refused.swap(0, Ordering::SeqCst), attempts as usize);
    }
}
