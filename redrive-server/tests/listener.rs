//! Where it listens, what it leaves behind, how it stops.

mod support;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use redrive_server::{Client, ListenError, ListenOptions, Listener};
use support::{World, call, get};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn on(folder: &std::path::Path, listen: Option<SocketAddr>) -> ListenOptions {
    ListenOptions { listen, ..ListenOptions::new(folder) }
}

const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

#[tokio::test]
async fn writes_its_address_and_takes_it_away() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("orders.db.d");
    let running = Listener::start(on(&data, Some(ANY.into())), world.router.clone()).await.unwrap();
    let address = fs::read_to_string(data.join("address")).unwrap();
    assert_eq!(address, format!("http://{}\n", running.address().unwrap()));
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    running.stop(Duration::from_secs(5)).await;
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    assert!(Client::connect(&data).await.unwrap().is_none());
}

#[tokio::test]
async fn without_an_address_the_socket_is_still_there() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("address"), "http://127.0.0.1:1\n").unwrap();
    let running = Listener::start(on(folder.path(), None), world.router.clone()).await.unwrap();
    assert_eq!(running.address(), None);
    assert!(!folder.path().join("address").exists(), "an address of the past misleads");
    let client = Client::connect(folder.path()).await.unwrap().unwrap();
    assert!(client.is_remote());
    assert_eq!(call(&client, get("/v1/queues")).await.status(), 200);
}

#[tokio::test]
async fn a_taken_port_says_whom_to_ask_and_how_to_pick_another() {
    let world = World::new();
    let listening = world.listen().await;
    let other = tempfile::tempdir().unwrap();
    let options = on(other.path(), Some(listening.address()));
    let error = Listener::start(options, world.router.clone()).await.unwrap_err();
    assert!(matches!(error, ListenError::Taken { .. }));
    assert_eq!(error.code().id(), "RD-API-21");
    let text = error.to_string();
    assert!(text.contains(&format!("lsof -i :{}", listening.address().port())), "{text}");
    assert!(text.contains("--listen 127.0.0.1:0"), "{text}");
    assert!(!other.path().join("cli.sock").exists(), "nothing is bound when one of them fails");
}

#[tokio::test]
async fn an_open_address_is_refused_unless_it_is_meant() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let open = on(folder.path(), Some("0.0.0.0:0".parse().unwrap()));
    let error = Listener::start(open.clone(), world.router.clone()).await.unwrap_err();
    assert!(matches!(error, ListenError::Open(_)) && error.code().id() == "RD-CONFIG-17", "{error}");
    let meant = ListenOptions { insecure: true, ..open };
    Listener::start(meant, world.router.clone()).await.unwrap().stop(Duration::ZERO).await;
}

#[tokio::test]
async fn a_socket_is_taken_over_only_from_the_dead() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cli.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let running = Listener::start(on(folder.path(), None), world.router.clone()).await.unwrap();

    let second = Listener::start(on(folder.path(), None), world.router.clone()).await.unwrap_err();
    assert!(matches!(second, ListenError::SocketTaken(_)) && second.code().id() == "RD-API-23", "{second}");
    let client = Client::connect(folder.path()).await.unwrap().unwrap();
    assert_eq!(call(&client, get("/v1/queues")).await.status(), 200, "the first one still serves");
    running.stop(Duration::from_secs(5)).await;

    fs::write(&path, "precious").unwrap();
    let file = Listener::start(on(folder.path(), None), world.router.clone()).await.unwrap_err();
    assert!(matches!(file, ListenError::NotASocket(_)), "{file}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_folder_may_lie_deeper_than_a_socket_address_is_long() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a".repeat(80)).join("b".repeat(80)).join("orders.db.d");
    let running = Listener::start(on(&deep, None), world.router.clone()).await.unwrap();
    assert!(deep.join("cli.sock").exists());
    let client = Client::connect(&deep).await.unwrap().unwrap();
    assert_eq!(call(&client, get("/v1/queues")).await.status(), 200);
    running.stop(Duration::from_secs(5)).await;
    assert!(!deep.join("cli.sock").exists());
    assert!(Client::connect(&deep).await.unwrap().is_none());
}

#[tokio::test]
async fn a_folder_that_is_not_there_has_no_instance() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Client::connect(&folder.path().join("none")).await.unwrap().is_none());
    assert!(Client::connect(&folder.path().join("n".repeat(150))).await.unwrap().is_none());
}

/// A request that the server is reading: its head is there, its body is not.
async fn half_a_request(address: SocketAddr) -> TcpStream {
    let head = format!(
        "POST /v1/queues/orders/messages HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
         expect: 100-continue\r\ncontent-length: 2\r\n\r\n",
        support::SECRET
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[tokio::test]
async fn a_stop_lets_a_request_finish() {
    let world = World::new();
    let listening = world.listen().await;
    let address = listening.address();
    let mut request = half_a_request(address).await;
    let mut stopping = std::pin::pin!(listening.running.stop(Duration::from_secs(60)));
    // The stop has begun and waits.
    assert!(poll_once(stopping.as_mut()).is_none());
    request.write_all(b"{}").await.unwrap();
    let mut answer = String::new();
    let (read, ()) = tokio::join!(request.read_to_string(&mut answer), stopping);
    read.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created"), "{answer}");
    assert_eq!(world.store.queued("orders").len(), 1);
    assert!(TcpStream::connect(address).await.is_err());
}

/// Polls once.
fn poll_once<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn a_stop_cuts_what_does_not_finish() {
    let world = World::new();
    let listening = world.listen().await;
    let mut request = half_a_request(listening.address()).await;
    listening.running.stop(Duration::ZERO).await;
    let mut nothing = String::new();
    // The end of the stream, or a reset.
    let _ = request.read_to_string(&mut nothing).await;
    assert_eq!(nothing, "");
    assert!(world.store.queued("orders").is_empty());
}

#[tokio::test]
async fn an_instance_that_is_dropped_leaves_no_files() {
    let world = World::new();
    let listening = world.listen().await;
    let data = listening.folder.path().join("d");
    assert!(data.join("cli.sock").exists());
    drop(listening.running);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_their_turn() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let options = ListenOptions { connections: 1, ..on(folder.path(), Some(ANY.into())) };
    let running = Listener::start(options, world.router.clone()).await.unwrap();
    let address = running.address().unwrap();
    let mut first = TcpStream::connect(address).await.unwrap();
    let ask = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    first.write_all(ask).await.unwrap();
    let mut some = [0; 15];
    first.read_exact(&mut some).await.unwrap();
    // The second is queued by the system and answered when the first is gone.
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(ask).await.unwrap();
    drop(first);
    second.read_exact(&mut some).await.unwrap();
    assert_eq!(&some, b"HTTP/1.1 200 OK");
    // The socket has room of its own.
    let client = Client::connect(folder.path()).await.unwrap().unwrap();
    assert_eq!(call(&client, get("/v1/queues")).await.status(), 200);
}
