//! Just enough HTTP to be a handler that writes down every call, and to call the API of a process that may die.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A handler with a journal of its own, which no crash of Redrive can touch.
pub(crate) struct Journal {
    pub(crate) address: SocketAddr,
    calls: Arc<Mutex<BTreeMap<String, Vec<u16>>>>,
    successes: Arc<Mutex<Vec<String>>>,
    fixed: Arc<AtomicBool>,
    begun: Arc<AtomicUsize>,
}

impl Journal {
    /// Bodies decide the answers: `ok` 200; `flaky` 503 twice, then 200; `bad` 422; `down` 503. Once it is fixed,
    /// everything is answered with 200. `held` gets no answer before that, nor does
    /// `refused`, which is answered with 422 then.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let calls: Arc<Mutex<BTreeMap<String, Vec<u16>>>> = Arc::default();
        let successes: Arc<Mutex<Vec<String>>> = Arc::default();
        let fixed = Arc::new(AtomicBool::new(false));
        let (journal, mended) = (Arc::clone(&calls), Arc::clone(&fixed));
        let through = Arc::clone(&successes);
        let begun: Arc<AtomicUsize> = Arc::default();
        let counted = Arc::clone(&begun);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (journal, mended) = (Arc::clone(&journal), Arc::clone(&mended));
                let through = Arc::clone(&through);
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
                            let earlier = calls.entry(id.clone()).or_default();
                            let status = match body.as_slice() {
                                b"refused" => 422,
                                _ if mended.load(Ordering::SeqCst) => 200,
                                b"flaky" if earlier.iter().filter(|status| **status == 503).count() < 2 => {
                                    503
                                }
                                b"bad" => 422,
                                b"down" => 503,
                                _ => 200,
                            };
                            earlier.push(status);
                            if status == 200 {
                                through.lock().unwrap().push(id);
                            }
                            status
                        };
                        if write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n").is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, calls, successes, fixed, begun }
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
        let successes = self.successes.lock().unwrap();
        successes.iter().filter(|id| seen.insert((*id).clone())).cloned().collect()
    }

    /// The statuses that each message was answered with.
    pub(crate) fn calls(&self) -> BTreeMap<String, Vec<u16>> {
        self.calls.lock().unwrap().clone()
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
