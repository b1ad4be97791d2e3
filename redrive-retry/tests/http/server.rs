//! A server on a real socket that does to each request what its script says.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to a request.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    /// It is answered.
    Answer(u16, &'static [(&'static str, &'static str)]),
    /// It is answered after a while.
    Late(Duration),
    /// The connection is reset before it is answered.
    Reset,
    /// The connection is closed before it is answered.
    Close,
    /// The connection is kept and nothing comes.
    HalfOpen,
    /// The head of an answer comes, and then a reset.
    HalfAnswer,
    /// The request is not read to its end before it is reset.
    ResetEarly,
}

pub(crate) const OK: Fate = Fate::Answer(200, &[]);

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) key: Option<String>,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    received: watch::Receiver<Vec<Received>>,
}

struct Script {
    fates: Mutex<VecDeque<Fate>>,
    received: watch::Sender<Vec<Received>>,
}

impl Server {
    /// Goes through the fates, one a request, and stays with the last.
    pub(crate) async fn start(fates: impl IntoIterator<Item = Fate>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sends, received) = watch::channel(Vec::new());
        let fates = Mutex::new(fates.into_iter().collect());
        let script = Arc::new(Script { fates, received: sends });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let script = Arc::clone(&script);
                // A connection that breaks is what this is for.
                tokio::spawn(async move { drop(serve(stream, &script).await) });
            }
        });
        Self { address, received }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/orders", self.address)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.borrow().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.received.borrow().len()
    }

    /// Waits until so many requests have arrived.
    pub(crate) async fn has_received(&self, count: usize) {
        let mut received = self.received.clone();
        received.wait_for(|received| received.len() >= count).await.expect("it is listening");
    }
}

async fn serve(stream: TcpStream, script: &Script) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let Some(head) = Head::read(&mut stream).await? else { return Ok(()) };
        let fate = {
            let mut fates = script.fates.lock().unwrap();
            if fates.len() > 1 { fates.pop_front().unwrap() } else { fates[0].clone() }
        };
        let early = matches!(fate, Fate::ResetEarly);
        let body = if early { Vec::new() } else { head.body(&mut stream).await? };
        let received = Received { method: head.method.clone(), key: head.key.clone(), body };
        let length = received.body.len();
        script.received.send_modify(|all| all.push(received));
        match fate {
            Fate::Answer(status, headers) => answer(&mut stream, status, headers, length).await?,
            Fate::Late(after) => {
                tokio::time::sleep(after).await;
                answer(&mut stream, 200, &[], length).await?;
            }
            Fate::Close => return Ok(()),
            Fate::HalfOpen => std::future::pending().await,
            Fate::Reset | Fate::ResetEarly => return reset(stream.into_inner()),
            Fate::HalfAnswer => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-le").await?;
                stream.flush().await?;
                return reset(stream.into_inner());
            }
        }
    }
}

/// Closes with a reset instead of an orderly end.
fn reset(stream: TcpStream) -> std::io::Result<()> {
    stream.set_zero_linger()
}

/// Answers with how much came.
async fn answer(
    stream: &mut BufReader<TcpStream>,
    status: u16,
    headers: &[(&str, &str)],
    length: usize,
) -> std::io::Result<()> {
    let body = format!("{length} bytes");
    let mut text = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{text}\r\n{body}").as_bytes()).await?;
    stream.flush().await
}

struct Head {
    method: String,
    key: Option<String>,
    length: Option<usize>,
}

impl Head {
    async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Self>> {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let method = line.split(' ').next().unwrap_or_default().to_owned();
        let mut head = Self { method, key: None, length: Some(0) };
        loop {
            line.clear();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end_matches(['\r', '\n']).split_once(": ") else {
                return Ok(Some(head));
            };
            match name.to_ascii_lowercase().as_str() {
                "idempotency-key" => head.key = Some(value.to_owned()),
                "content-length" => head.length = value.parse().ok(),
                "transfer-encoding" => head.length = None,
                _ => {}
            }
        }
    }

    async fn body(&self, stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if let Some(length) = self.length {
            body.resize(length, 0);
            stream.read_exact(&mut body).await?;
            return Ok(body);
        }
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let size = usize::from_str_radix(line.trim_end(), 16).map_err(std::io::Error::other)?;
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).await?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return Ok(body);
            }
        }
    }
}
