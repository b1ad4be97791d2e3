//! What a server and a network can do to a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redrive_core::Timestamp;
use redrive_retry::guard::{BreakerConfig, BreakerState};
use redrive_retry::http::HttpAnswers;
use redrive_retry::{CallBudget, CircuitBreaker, Clock, Stop, TokioClock};

use crate::clients::{ALL, Came, Client, post, quick};
use crate::server::{Fate, OK, Server};

#[tokio::test]
async fn statuses_that_may_pass_are_retried() {
    for client in ALL {
        for status in [408, 425, 429, 500, 502, 503, 504, 599] {
            let server = Server::start([Fate::Answer(status, &[]), OK]).await;
            assert_eq!(client.get(&server.url(), quick()).await, Came::ok(0), "{client:?} {status}");
            assert_eq!(server.count(), 2, "{client:?} {status}");
        }
    }
}

#[tokio::test]
async fn statuses_that_say_no_are_the_answer() {
    for client in ALL {
        for status in [200, 201, 400, 401, 403, 404, 409, 410, 422, 501, 505] {
            let server = Server::start([Fate::Answer(status, &[])]).await;
            let came = client.get(&server.url(), quick()).await;
            let expected = Came::Answer { status, body: "0 bytes".to_owned(), gave_up: None };
            assert_eq!((came, server.count()), (expected, 1), "{client:?} {status}");
        }
    }
}

#[tokio::test]
async fn the_last_answer_is_handed_on_with_why_there_was_no_other() {
    for client in ALL {
        let server = Server::start([Fate::Answer(503, &[])]).await;
        let came = client.get(&server.url(), quick().attempts(3)).await;
        let expected =
            Came::Answer { status: 503, body: "0 bytes".to_owned(), gave_up: Some((3, Stop::Attempts)) };
        assert_eq!((came, server.count()), (expected, 3), "{client:?}");
    }
}

#[tokio::test]
async fn connections_that_break_are_retried_on_another() {
    for client in ALL {
        for fate in [Fate::Reset, Fate::Close, Fate::HalfAnswer, Fate::ResetEarly] {
            let server = Server::start([fate.clone(), OK]).await;
            assert_eq!(client.get(&server.url(), quick()).await, Came::ok(0), "{client:?} {fate:?}");
            assert_eq!(server.count(), 2, "{client:?} {fate:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_on_which_nothing_comes_is_given_up() {
    const HOUR: Duration = Duration::from_hours(1);
    for client in ALL {
        let server = Server::start([Fate::HalfOpen, Fate::Late(24 * HOUR), OK]).await;
        let settings = quick().attempt_timeout(HOUR).deadline(24 * HOUR).clock(TokioClock);
        // What the network takes is real. Only the time of the two attempts that hang goes by at once.
        let hours = async {
            for hanging in 1..=2 {
                server.has_received(hanging).await;
                tokio::time::pause();
                tokio::time::advance(HOUR).await;
                tokio::time::resume();
            }
        };
        let url = server.url();
        let (came, ()) = tokio::join!(client.get(&url, settings), hours);
        assert_eq!((came, server.count()), (Came::ok(0), 3), "{client:?}");
    }
}

#[tokio::test]
async fn a_late_answer_is_waited_for() {
    for client in ALL {
        let server = Server::start([Fate::Late(Duration::from_millis(50))]).await;
        assert_eq!(client.get(&server.url(), quick()).await, Came::ok(0), "{client:?}");
        assert_eq!(server.count(), 1, "{client:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_with_its_history() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for client in ALL {
        let Came::Nothing(why) = client.get(&format!("http://{gone}/"), quick().attempts(2)).await else {
            panic!("nobody could answer");
        };
        assert!(why.starts_with("gave up after 2 attempts in "), "{why}");
    }
}

/// A clock that a test sets.
#[derive(Debug, Default)]
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

/// A clock whose time of day stands: Wed, 01 Jul 2026 09:00:00 GMT.
#[derive(Debug)]
struct NineOClock;

impl Clock for NineOClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(1_782_896_400_000)
    }
}

#[tokio::test]
async fn an_answer_that_says_when_is_followed_and_nonsense_is_not() {
    const SCHEDULED: u64 = 20;
    const CASES: [(&[(&str, &str)], u64); 7] = [
        (&[("retry-after", "3600")], 3_600),
        (&[("retry-after", "Wed, 01 Jul 2026 09:00:30 GMT")], 30),
        (&[("retry-after", "Wednesday, 01-Jul-26 09:00:30 GMT")], 30),
        (&[("retry-after", "Wed, 01 Jul 2026 08:59:59 GMT")], SCHEDULED),
        (&[("retry-after", "-1")], SCHEDULED),
        (&[("retry-after", "soon")], SCHEDULED),
        (&[], SCHEDULED),
    ];
    // There is no time for any of these waits, so the call says at once what it would have waited.
    let settings = quick()
        .base(Duration::from_secs(SCHEDULED))
        .cap(Duration::from_secs(SCHEDULED))
        .attempt_timeout(Duration::from_secs(10))
        .deadline(Duration::from_secs(10))
        .retry_after(Duration::ZERO, Duration::from_hours(24));
    for client in ALL {
        for (headers, expected) in CASES {
            let server = Server::start([Fate::Answer(429, headers), OK]).await;
            let answers = HttpAnswers::with_clock(Arc::new(NineOClock));
            let retryer = settings.clone().classify(answers).build().unwrap();
            let came = client.get_with(&server.url(), retryer).await;
            let Came::Answer { status: 429, gave_up: Some((1, Stop::NoTimeToWait { wait, .. })), .. } = came
            else {
                panic!("{client:?} {headers:?}: {came:?}");
            };
            assert_eq!(wait, Duration::from_secs(expected), "{client:?} {headers:?}");
        }
    }
}

#[tokio::test]
async fn what_an_answer_asks_for_is_cut_to_the_longest_that_is_taken() {
    for client in ALL {
        let server = Server::start([
            Fate::Answer(429, &[("retry-after", "3600")]),
            Fate::Answer(503, &[("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")]),
            OK,
        ])
        .await;
        assert_eq!(client.get(&server.url(), quick()).await, Came::ok(0), "{client:?}");
    }
}

#[tokio::test]
async fn a_conflict_is_retried_when_it_says_when() {
    for client in ALL {
        let server = Server::start([Fate::Answer(409, &[("retry-after", "1")]), OK]).await;
        assert_eq!(client.get(&server.url(), quick()).await, Came::ok(0), "{client:?}");
    }
}

#[tokio::test]
async fn a_conflict_that_says_when_is_an_answer_of_an_endpoint_that_is_well() {
    for client in ALL {
        let config = BreakerConfig { consecutive: 1, half_open_probes: 1, ..BreakerConfig::default() };
        let breaker = CircuitBreaker::new(config).unwrap();
        let server = Server::start([Fate::Answer(409, &[("retry-after", "1")])]).await;
        for state in [BreakerState::Closed, BreakerState::HalfOpen] {
            if state == BreakerState::HalfOpen {
                breaker.force_open();
                breaker.auto();
            }
            assert_eq!(breaker.state(), state, "{client:?}");
            let came = client.get(&server.url(), quick().attempts(2).breaker(breaker.clone())).await;
            let Came::Answer { status: 409, gave_up: Some((2, Stop::Attempts)), .. } = came else {
                panic!("{client:?}: {came:?}");
            };
            assert_eq!(breaker.state(), BreakerState::Closed, "{client:?}, from {state}");
        }
    }
}

#[tokio::test]
async fn an_outage_opens_the_breaker_and_its_end_closes_it() {
    let config = BreakerConfig {
        consecutive: 2,
        half_open_probes: 1,
        open: Duration::from_hours(1),
        ..BreakerConfig::default()
    };
    let clock = Arc::new(Hands::default());
    let breaker = CircuitBreaker::with_clock(config, Arc::clone(&clock)).unwrap();
    let settings = || quick().attempts(2).breaker(breaker.clone()).clock(Arc::clone(&clock));
    let server =
        Server::start([Fate::Reset, Fate::Answer(503, &[]), Fate::Answer(500, &[]), Fate::Close, OK]).await;
    for _ in 0..2 {
        Client::Hyper.get(&server.url(), settings()).await;
    }
    assert_eq!((breaker.state(), server.count()), (BreakerState::Open, 4));
    let refused = Client::Reqwest.get(&server.url(), settings()).await;
    assert!(
        matches!(refused, Came::Nothing(why) if why.starts_with("not attempted: the circuit breaker is open"))
    );
    assert_eq!(server.count(), 4, "nothing was sent");
    clock.0.store(3_600, Ordering::SeqCst);
    assert_eq!(Client::Hyper.get(&server.url(), settings()).await, Came::ok(0));
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test]
async fn requests_draw_on_the_budget_of_the_message_that_caused_them() {
    let server = Server::start([Fate::Answer(503, &[])]).await;
    let budget = CallBudget::new(Some(3), None);
    let url = server.url();
    budget
        .scope(async {
            let came = Client::Reqwest.send(post(&url, "{}"), quick(), true).await;
            let Came::Answer { gave_up: Some((3, Stop::CallBudget)), .. } = came else { panic!("{came:?}") };
        })
        .await;
    assert_eq!((budget.used(), server.count()), (3, 3));
}
