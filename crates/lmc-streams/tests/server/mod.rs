//! A small HTTP server with bad manners, for one file.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How one request is answered.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// Serves the file as a good server does, with ranges.
    Whole,
    /// Closes the connection after so many bytes of the body.
    CutAfter(usize),
    /// Sends nothing more after so many bytes of the body.
    StallAfter(usize),
    /// Sends a byte every 50 milliseconds after so many bytes of the body.
    DripAfter(usize),
    /// The connection is closed without a word.
    CutBeforeAnswer,
    /// The whole file, whatever part was asked for.
    IgnoreRange,
    /// A part, but not the one that was asked for.
    WrongRange,
    /// The body ends where the connection ends.
    WithoutLength,
    /// Sends only a status.
    Status(u16),
    /// Redirects to another path of the same server.
    Redirect,
}

/// What was asked for and how much was sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// The first byte asked for.
    pub range: Option<usize>,
    /// Bytes of the body that were sent.
    pub sent: usize,
}

/// A server that runs until the test ends.
pub struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Serves `content` at every path: each request in the next manner, the last manner for all that follow.
    pub fn start(content: &[u8], manners: &[Manner]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (content, manners, seen) = (content.to_vec(), manners.to_vec(), requests.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let number = seen.lock().unwrap().len();
                let manner = manners.get(number).or(manners.last()).copied().unwrap_or(Manner::Whole);
                answer(&mut stream.unwrap(), &content, manner, &seen);
            }
        });
        Self { port, requests }
    }

    /// The address of a path of this server.
    pub fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// An address at which nobody listens.
    pub fn closed_address(path: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://127.0.0.1:{}/{path}", listener.local_addr().unwrap().port())
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn answer(stream: &mut TcpStream, content: &[u8], manner: Manner, seen: &Mutex<Vec<Request>>) {
    let range = read_range(stream);
    let from =
        if matches!(manner, Manner::IgnoreRange | Manner::WithoutLength) { 0 } else { range.unwrap_or(0) };
    let body = &content[from..];
    let sent = match manner {
        Manner::CutAfter(n) | Manner::StallAfter(n) | Manner::DripAfter(n) => n.min(body.len()),
        Manner::Status(_) | Manner::Redirect | Manner::CutBeforeAnswer => 0,
        _ => body.len(),
    };
    // Noted before it is sent: a client that is done must find its request here.
    seen.lock().unwrap().push(Request { range, sent });
    let last = content.len().saturating_sub(1);
    let range_header = match manner {
        Manner::WrongRange => format!("Content-Range: bytes 0-{last}/{}\r\n", content.len()),
        _ if from > 0 => format!("Content-Range: bytes {from}-{last}/{}\r\n", content.len()),
        _ => String::new(),
    };
    let head = match manner {
        Manner::CutBeforeAnswer => return,
        Manner::Status(status) => format!("HTTP/1.1 {status} Because\r\nContent-Length: 0\r\n"),
        Manner::Redirect => "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n".to_owned(),
        Manner::WithoutLength => "HTTP/1.1 200 OK\r\n".to_owned(),
        _ => {
            let status = if range_header.is_empty() { "200 OK" } else { "206 Partial Content" };
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{range_header}", body.len())
        }
    };
    // Clients may hang up at any time, so errors are none of ours.
    let _ = write!(stream, "{head}Connection: close\r\n\r\n");
    let _ = stream.write_all(&body[..sent]);
    if matches!(manner, Manner::DripAfter(_)) {
        let (mut held, rest) = (stream.try_clone().unwrap(), body[sent..].to_vec());
        thread::spawn(move || {
            for byte in rest {
                thread::sleep(Duration::from_millis(50));
                if held.write_all(&[byte]).is_err() {
                    break;
                }
            }
        });
    }
    if matches!(manner, Manner::StallAfter(_)) {
        let held = stream.try_clone().unwrap();
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(5));
            drop(held);
        });
    }
}

/// Reads the head of a request and returns where its range starts.
fn read_range(stream: &mut TcpStream) -> Option<usize> {
    let mut range = None;
    for line in BufReader::new(stream).lines() {
        let line = line.ok()?.to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("range: bytes=") {
            range = value.strip_suffix('-')?.parse().ok();
        }
    }
    range
}
