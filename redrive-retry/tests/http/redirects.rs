//! An endpoint that sends a request in circles has answered: another attempt would be sent round alike.

use redrive_retry::guard::{BreakerConfig, BreakerState, Outcome};
use redrive_retry::http::{HttpAnswers, HttpCause, HttpRetry, RetryMiddleware};
use redrive_retry::{CircuitBreaker, RetryError, Retryer, Stop};

use crate::clients::quick;
use crate::server::{Fate, Server};

/// The server sends every request to where it was sent.
async fn circle() -> Server {
    Server::start([Fate::Answer(302, &[("location", "/orders")])]).await
}

/// A breaker that one failure opens, and a retryer with it.
fn brittle() -> (CircuitBreaker, Retryer<HttpAnswers>) {
    let breaker = CircuitBreaker::new(BreakerConfig { consecutive: 1, ..BreakerConfig::default() }).unwrap();
    let retryer = quick().breaker(breaker.clone()).classify(HttpAnswers::default()).build().unwrap();
    (breaker, retryer)
}

/// A `reqwest` client that follows so many redirects.
fn following(redirects: usize) -> reqwest::ClientBuilder {
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::limited(redirects))
}

fn assert_led_astray<E>(error: &RetryError<E>, breaker: &CircuitBreaker, server: &Server) {
    assert_eq!((error.stop(), error.attempts(), server.count()), (Stop::Final, 1, 4), "{}", error.stop());
    assert_eq!((error.outcome(), breaker.state()), (Some(Outcome::Ignored), BreakerState::Closed));
}

#[tokio::test]
async fn a_request_that_is_sent_in_circles_is_not_sent_again() {
    let (server, (breaker, retryer)) = (circle().await, brittle());
    let client = HttpRetry::reqwest(following(3), retryer).unwrap();
    let error = client.execute(client.client().get(server.url()).build().unwrap()).await.unwrap_err();
    assert_led_astray(&error, &breaker, &server);
}

#[tokio::test]
async fn nor_is_one_in_a_chain_of_middleware() {
    let (server, (breaker, retryer)) = (circle().await, brittle());
    let client = reqwest_middleware::ClientBuilder::new(following(3).build().unwrap())
        .with(RetryMiddleware::new(retryer))
        .build();
    let error = client.get(server.url()).send().await.unwrap_err();
    let reqwest_middleware::Error::Middleware(error) = error else { panic!("{error:?}") };
    let error: &RetryError<HttpCause<reqwest_middleware::Error>> = error.downcast_ref().unwrap();
    assert_led_astray(error, &breaker, &server);
}
