//! Just enough HTTP to be a handler that writes down every call, and to call the API of a process that may die.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a message waits whose handler asks for it.
pub(crate) const ASKED: Duration = Duration::from_secs(21);

/// A handler with a journal of its own, which no crash of Redrive can touch.
pub(crate) struct Journal {
    pub(crate) address: SocketAddr,
    /// Every call in the order of arrival: the message, and the status that it is answered with.
    calls: Arc<Mutex<Vec<(String, u16)>>>,
    fixed: Arc<AtomicBool>,
    begun: Arc<AtomicUsize>,
}

impl Journal {
    /// Bodies decide the answers: `ok` 200; `flaky` 503 twice, then 200; `bad` 422; `down` 503. Once it is fixed,
    /// everything is answered with 200. `held` gets no answer before that, nor does
    /// `refused`, which is answered with 422 then. `later` asks once to be tried again after [`ASKED`], then 200.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let calls: Arc<Mutex<Vec<(String, u16)>>> = Arc::default();
        let fixed = Arc::new(AtomicBool::new(false));
        let (journal, mended) = (Arc::clone(&calls), Arc::clone(&fixed));
        let begun: Arc<AtomicUsize> = Arc::default();
        let counted = Arc::clone(&begun);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (journal, mended) = (Arc::clone(&journal), Arc::clone(&mended));
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let mut stream = stream;
                    while let Some((headers, body)) = read(&mut reader) {
                        let id = headers.get("idempotency-key").cloned().unwrap_or_default();
                        counted.fetch_add(1, Ordering::SeqCst);
                        while matches!(body.as_slice(), b"held" | b"refused")
                            && !mended.load(Ordering::SeqCst)
                        {
                            std::thread::park_timeout(Duration::from_millis(2));
                        }
                        let status = {
                            let mut calls = journal.lock().unwrap();
                            let failed = |times| {
                                calls.iter().filter(|call| **call == (id.clone(), 503)).count() >= times
                            };
                            let status = match body.as_slice() {
                                b"refused" => 422,
                                _ if mended.load(Ordering::SeqCst) => 200,
                                b"flaky" if !failed(2) => 503,
                                b"later" if !failed(1) => 503,
                                b"bad" => 422,
                                // Whoever was to hand the body over has lost it.
                                b"" => 400,
                                b"down" => 503,
                                _ => 200,
                            };
                            calls.push((id, status));
                            status
                        };
                        let asks = status == 503 && body == b"later";
                        let asked = if asks {
                            format!("retry-after: {}\r\n", ASKED.as_secs())
                        } else {
                            String::new()
                        };
                        let answer = format!("HTTP/1.1 {status} x\r\n{asked}content-length: 0\r\n\r\n");
                        if stream.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, calls, fixed, begun }
    }

    pub(crate) fn fix(&self) {
        self.fixed.store(true, Ordering::SeqCst);
    }

    /// How many calls have begun, answered or not.
    #[allow(dead_code, reason = "not every test waits for that")]
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// The messages that were answered with 200, in the order of the answers, each where it was first.
    pub(crate) fn order(&self) -> Vec<String> {
        let mut seen = std::collections::BTreeSet::new();
        let calls = self.calls.lock().unwrap();
        let through = calls.iter().filter(|(_, status)| *status == 200);
        through.filter(|(id, _)| seen.insert(id)).map(|(id, _)| id.clone()).collect()
    }

    /// Every call: the message, and the status that it was answered with.
    #[allow(dead_code, reason = "not every test looks at each of them")]
    pub(crate) fn in_turn(&self) -> Vec<(String, u16)> {
        self.calls.lock().unwrap().clone()
    }

    /// The calls, failed ones among them, that were made before their turn: each message of a lane has its turn once the
    /// one in front of it has come through.
    #[allow(dead_code, reason = "not every test keeps an order")]
    pub(crate) fn too_early(&self, lane: &[String]) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        let through = |id: &String| calls.iter().position(|(other, status)| other == id && *status == 200);
        let mut early = Vec::new();
        for pair in lane.windows(2) {
            let until = through(&pair[0]).unwrap_or(calls.len());
            let before = calls[..until].iter().filter(|(id, _)| *id == pair[1]);
            early.extend(before.map(|(id, status)| format!("{id} ({status}) before {}", pair[0])));
        }
        early
    }

    /// The statuses that each message was answered with.
    pub(crate) fn calls(&self) -> BTreeMap<String, Vec<u16>> {
        let mut found: BTreeMap<String, Vec<u16>> = BTreeMap::new();
        for (id, status) in self.calls.lock().unwrap().iter() {
            found.entry(id.clone()).or_default().push(*status);
        }
        found
    }
}

/// The headers and the body of a request or an answer; nothing at the end of the connection.
pub(crate) fn read(reader: &mut BufReader<TcpStream>) -> Option<(BTreeMap<String, String>, Vec<u8>)> {
    let mut headers = BTreeMap::new();
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    headers.insert(String::new(), line.trim().to_owned());
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((headers, body))
}

/// Posts to the API; an error when the process died before it answered.
pub(crate) fn post(
    address: &str,
    token: &str,
    path: &str,
    kind: &str,
    body: &str,
) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let answer = read(&mut BufReader::new(stream));
    let (headers, body) = answer.ok_or_else(|| std::io::Error::other("the connection broke off"))?;
    let status = headers[""].split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
