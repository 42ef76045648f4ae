//! One request to one address: the missing bytes of a file arrive in its `.part` file.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use ureq::{Agent, Body, http::Response};

use super::get::{GetConfig, disk_error};
use crate::error::Error;

/// Why a request did not bring the file.
#[derive(Debug)]
pub(super) enum Failure {
    /// No server can be reached at the address.
    Unreachable(String),
    /// The server refuses or sends another file: trying again does not help.
    Refused(String),
    /// The transfer stopped, or the server is busy: trying again may help.
    Cut(String),
    /// What was downloaded before is no beginning of the server's file.
    StartAgain,
    /// Our own disk is the problem; no other address will help.
    Disk(Error),
}

impl Failure {
    /// The failure in words, on one line.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Unreachable(reason) | Self::Refused(reason) | Self::Cut(reason) => {
                reason.replace('\n', " ")
            }
            Self::StartAgain => "the server's file is another one".to_owned(),
            Self::Disk(error) => error.to_string(),
        }
    }
}

/// A client that gives up on a connection that does not come about, or brings nothing for too long.
pub(super) fn agent(config: &GetConfig) -> Agent {
    let (connect, stall) = (config.connect_timeout, config.stall_timeout);
    let builder = Agent::config_builder();
    let builder = if config.proxy { builder } else { builder.proxy(None) };
    builder
        .http_status_as_error(false)
        .timeout_resolve(Some(connect))
        .timeout_connect(Some(connect))
        .timeout_recv_response(Some(stall))
        .timeout_per_read(Some(stall))
        .user_agent(concat!("lmc/", env!("CARGO_PKG_VERSION")))
        .build()
        .new_agent()
}

/// Requests from `address` what `part` lacks of its `expected` bytes, and appends it.
/// `received` is called with the length of the part as it grows.
pub(super) fn transfer(
    agent: &Agent,
    address: &str,
    part: &Path,
    expected: u64,
    config: &GetConfig,
    received: &mut dyn FnMut(u64),
) -> Result<(), Failure> {
    let have = length(part).map_err(Failure::Disk)?;
    let mut request = agent.get(address);
    if have > 0 {
        request = request.header("Range", format!("bytes={have}-"));
    }
    let response = request.call().map_err(no_answer)?;
    let from = starts_at(&response, have, expected)?;
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .append(from > 0)
        .truncate(from == 0)
        .open(part)
        .map_err(|error| Failure::Disk(disk_error("write", part)(error)))?;
    let mut pace = Pace::new(config, from);
    let mut received = |reached| {
        received(reached);
        pace.check(reached)
    };
    let reached = append(response.into_body(), &mut file, part, from, expected, &mut received)?;
    if reached < expected {
        return Err(Failure::Cut(format!("the connection ended after {reached} of {expected} bytes")));
    }
    file.sync_all().or_else(not_syncable).map_err(|error| Failure::Disk(disk_error("write", part)(error)))
}

/// Bytes that a file has; 0 when it is not there.
pub(super) fn length(path: &Path) -> Result<u64, Error> {
    match path.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(metadata.len()),
        Ok(_) => Err(Error::bad(path, "this is not a regular file", "move it away")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(disk_error("read", path)(error)),
    }
}

/// The position in the file at which the server's response begins.
fn starts_at(response: &Response<Body>, have: u64, expected: u64) -> Result<u64, Failure> {
    let status = response.status().as_u16();
    let from = match status {
        200 => 0,
        206 if have > 0 && continues(response, have, expected) => have,
        206 | 416 if have > 0 => return Err(Failure::StartAgain),
        429 | 500.. => return Err(Failure::Cut(format!("the server answered {status}"))),
        _ => return Err(Failure::Refused(format!("the server answered {status}"))),
    };
    // A login page or another release shows in its size: no need to fetch it to the end.
    match response.body().content_length() {
        Some(length) if length != expected.saturating_sub(from) => Err(Failure::Refused(format!(
            "the server's file has {} bytes instead of {expected}",
            length.saturating_add(from)
        ))),
        _ => Ok(from),
    }
}

/// `Content-Range: bytes HAVE-LAST/TOTAL` with our numbers; the total may be unknown (`*`).
fn continues(response: &Response<Body>, have: u64, expected: u64) -> bool {
    let header = response.headers().get("Content-Range").and_then(|value| value.to_str().ok());
    let Some((range, total)) = header.and_then(|h| h.trim().strip_prefix("bytes ")?.split_once('/')) else {
        return false;
    };
    let first = range.split('-').next().and_then(|first| first.trim().parse::<u64>().ok());
    first == Some(have) && (total.trim() == "*" || total.trim().parse() == Ok(expected))
}

fn append(
    body: Body,
    file: &mut File,
    part: &Path,
    from: u64,
    expected: u64,
    received: &mut dyn FnMut(u64) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut body = body.into_reader();
    let mut buffer = vec![0; 1 << 16];
    let mut reached = from;
    loop {
        let n = match body.read(&mut buffer) {
            Ok(0) => return Ok(reached),
            Ok(n) => n,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::Cut(format!("the connection broke ({error})"))),
        };
        reached = reached.saturating_add(n as u64);
        if reached > expected {
            // Not the beginning of our file, so nothing to go on from.
            fs::remove_file(part).map_err(|error| Failure::Disk(disk_error("delete", part)(error)))?;
            return Err(Failure::Refused(format!("the server sends more than {expected} bytes")));
        }
        file.write_all(buffer.get(..n).unwrap_or_default())
            .map_err(|error| Failure::Disk(disk_error("write", part)(error)))?;
        received(reached)?;
    }
}

/// How fast a file arrives: a server that sends a byte now and then never stalls, and is never done.
struct Pace {
    window: Duration,
    lowest_rate: u64,
    since: Instant,
    from: u64,
}

impl Pace {
    fn new(config: &GetConfig, from: u64) -> Self {
        Self { window: config.stall_timeout, lowest_rate: config.lowest_rate, since: Instant::now(), from }
    }

    /// Looks at the end of every window whether enough has arrived in it.
    fn check(&mut self, reached: u64) -> Result<(), Failure> {
        let spent = self.since.elapsed();
        if spent < self.window {
            return Ok(());
        }
        if ((reached - self.from) as f64) < self.lowest_rate as f64 * spent.as_secs_f64() {
            return Err(Failure::Cut(format!(
                "the server sends less than {} bytes a second",
                self.lowest_rate
            )));
        }
        (self.since, self.from) = (Instant::now(), reached);
        Ok(())
    }
}

fn no_answer(error: ureq::Error) -> Failure {
    use ureq::{Error as Http, Timeout};
    match error {
        Http::HostNotFound => Failure::Unreachable("host not found".to_owned()),
        Http::ConnectionFailed => Failure::Unreachable("no connection".to_owned()),
        Http::Timeout(Timeout::Resolve | Timeout::Connect) => Failure::Unreachable(error.to_string()),
        Http::Timeout(_) | Http::Protocol(_) => Failure::Cut(error.to_string()),
        // A name that cannot be looked up has no kind of its own, so we name the others: those that need
        // a connection that once was.
        Http::Io(io) => match io.kind() {
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
            | ErrorKind::WouldBlock
            | ErrorKind::InvalidData => Failure::Cut(io.to_string()),
            _ => Failure::Unreachable(io.to_string()),
        },
        _ => Failure::Refused(error.to_string()),
    }
}

/// Some file systems cannot flush on request; the checksum that follows is the real test.
fn not_syncable(error: std::io::Error) -> std::io::Result<()> {
    if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) { Ok(()) } else { Err(error) }
}
