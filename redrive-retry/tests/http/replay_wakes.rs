//! Several attempts that wait for one stream: each hears of what comes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};
use redrive_retry::http::ReplayBody;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// A stream that comes piece by piece, and wakes only whoever asked last.
struct Slow(Receiver<Bytes>);

impl Body for Slow {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// An attempt that sends the body.
struct Sending {
    body: ReplayBody<Slow>,
    woken: Arc<Woken>,
}

impl Sending {
    fn of(body: &ReplayBody<Slow>) -> Self {
        Self { body: body.clone(), woken: Arc::default() }
    }

    fn poll(&mut self) -> Poll<Option<Bytes>> {
        let waker = Waker::from(Arc::clone(&self.woken));
        let polled = Pin::new(&mut self.body).poll_frame(&mut Context::from_waker(&waker));
        polled.map(|frame| frame.map(|frame| frame.unwrap().into_data().unwrap()))
    }

    fn was_woken(&self) -> bool {
        self.woken.0.swap(0, Ordering::SeqCst) > 0
    }
}

fn body() -> (Sender<Bytes>, ReplayBody<Slow>) {
    let (sender, receiver) = channel(10);
    (sender, ReplayBody::new(Slow(receiver), 100))
}

const A: Poll<Option<Bytes>> = Poll::Ready(Some(Bytes::from_static(b"a")));

#[test]
fn all_that_wait_are_woken_by_what_comes() {
    let (sender, body) = body();
    let (mut one, mut two) = (Sending::of(&body), Sending::of(&body));
    assert!(one.poll().is_pending() && two.poll().is_pending());
    sender.try_send(Bytes::from("a")).unwrap();
    assert!(one.was_woken() && two.was_woken());
    assert_eq!((one.poll(), two.poll()), (A, A));
    assert!(one.poll().is_pending() && two.poll().is_pending());
    drop(sender);
    assert!(one.was_woken() && two.was_woken());
    assert_eq!((two.poll(), one.poll()), (Poll::Ready(None), Poll::Ready(None)));
}

#[test]
fn one_that_waits_hears_of_what_another_has_read() {
    let (sender, body) = body();
    let (mut one, mut two) = (Sending::of(&body), Sending::of(&body));
    sender.try_send(Bytes::from("a")).unwrap();
    assert_eq!(one.poll(), A);
    assert!(one.poll().is_pending());
    assert_eq!(two.poll(), A);
    sender.try_send(Bytes::from("b")).unwrap();
    // The stream has woken its last asker; a third that comes first takes the piece.
    assert!(one.was_woken());
    assert!(two.poll().is_ready());
    assert!(two.poll().is_pending() && one.poll().is_ready() && one.poll().is_pending());
    drop(sender);
    assert_eq!(one.poll(), Poll::Ready(None));
    assert!(two.was_woken(), "the end is told too");
}

#[test]
fn one_that_was_given_up_does_not_take_the_wake_with_it() {
    let (sender, body) = body();
    let (mut one, mut two) = (Sending::of(&body), Sending::of(&body));
    assert!(one.poll().is_pending() && two.poll().is_pending());
    drop(two);
    sender.try_send(Bytes::from("a")).unwrap();
    assert!(one.was_woken());
    assert_eq!(one.poll(), A);
}
