//! A judge of one's own around every client: what it takes for the answer is, and for the rest it asks ours.

use redrive_retry::http::{
    HttpAnswer, HttpAnswers, HttpFailure, HttpJudge, HttpRetry, Retried, RetryMiddleware,
};
use redrive_retry::{Classify, Judged, Retryer, Stop};
use tower::ServiceExt as _;

use crate::clients::{hyper, quick};
use crate::server::{Fate, Server};

#[derive(Debug, Default)]
struct FiveHundredIsFinal(HttpAnswers);

impl HttpJudge for FiveHundredIsFinal {}

impl<A: HttpAnswer, E: 'static> Classify<A, E> for FiveHundredIsFinal {
    type Error = HttpFailure<A, E>;

    fn judge(&self, result: Result<A, E>) -> Judged<A, HttpFailure<A, E>> {
        match result {
            Ok(answer) if answer.status() == 500 => Judged::Done(answer),
            other => self.0.judge(other),
        }
    }

    fn let_go(&self, error: &mut HttpFailure<A, E>) {
        Classify::<A, E>::let_go(&self.0, error);
    }
}

fn retryer() -> Retryer<FiveHundredIsFinal> {
    quick().attempts(3).classify(FiveHundredIsFinal::default()).build().unwrap()
}

async fn server() -> Server {
    Server::start([Fate::Answer(503, &[]), Fate::Answer(500, &[]), Fate::Answer(503, &[])]).await
}

/// The status of an answer, and the attempts and the reason with which the retries gave up, if they did.
type Ended = (u16, Option<(u32, Stop)>);

fn ended<A: HttpAnswer>(answer: &A) -> Ended {
    let retried = answer.extensions().get::<Retried>();
    (answer.status().as_u16(), retried.map(|retried| (retried.attempts, retried.stop)))
}

const EXPECTED: [Ended; 2] = [(500, None), (503, Some((3, Stop::Attempts)))];

#[tokio::test]
async fn it_holds_around_each_client() {
    let server = server().await;
    let client = HttpRetry::new(hyper(), retryer());
    for expected in EXPECTED {
        let request = http::Request::get(server.url()).body(http_body_util::Full::default()).unwrap();
        assert_eq!(ended(&client.clone().oneshot(request).await.unwrap()), expected);
    }
    let server = self::server().await;
    let client = HttpRetry::reqwest(reqwest::Client::builder(), retryer()).unwrap();
    for expected in EXPECTED {
        let request = client.client().get(server.url()).build().unwrap();
        assert_eq!(ended(&client.execute(request).await.unwrap()), expected);
    }
    let server = self::server().await;
    let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
        .with(RetryMiddleware::new(retryer()))
        .build();
    for expected in EXPECTED {
        assert_eq!(ended(&client.get(server.url()).send().await.unwrap()), expected);
    }
}
