//! The access log: one line of JSON per request. Off by default.
//!
//! A worker collects lines in a buffer of its own and passes it on when it is full, or at the next
//! sweep; one thread writes to the file. If the disk cannot keep up, lines are dropped and counted:
//! requests never wait for the log.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::limits::{ACCESS_LOG_BLOCK_BYTES, ACCESS_LOG_BLOCKS_MAX, LOG_FLUSH_MS_MAX};
use model::AccessLog;
use wire::http1::Known;

use super::{Record, Tally};
use crate::message::Request;

/// The writing thread. It ends when the last sender is gone.
#[derive(Debug)]
pub(crate) struct AccessLogger {
    /// Whole lines.
    sender: Option<SyncSender<Vec<u8>>>,
    shared: Arc<Shared>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

/// What the thread and others write.
#[derive(Debug, Default)]
struct Shared {
    /// The file is to be opened again, after it was renamed.
    reopen: AtomicBool,
    /// Lines that could not be written, such as on a full disk, until a worker counts them.
    lost: AtomicU64,
}

/// A worker's buffer of lines.
#[derive(Debug, Default)]
pub(crate) struct AccessLines {
    lines: RefCell<Vec<u8>>,
    sender: Option<SyncSender<Vec<u8>>>,
    shared: Arc<Shared>,
}

impl AccessLogger {
    /// Opens the file, so that a path that cannot be written is reported at startup. `None`: off.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub(crate) fn start(to: &AccessLog) -> io::Result<Option<Self>> {
        let sink = match to {
            AccessLog::Off => return Ok(None),
            AccessLog::Stdout => Sink::Stdout,
            AccessLog::File(path) => Sink::File(path.clone(), append_to(path)?),
        };
        let (sender, receiver) = sync_channel(ACCESS_LOG_BLOCKS_MAX);
        let (alive, ended) = sync_channel::<()>(0);
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            let _alive = alive;
            write_all(sink, &receiver, &its);
        })?;
        Ok(Some(Self { sender: Some(sender), shared, ended: Mutex::new(ended) }))
    }

    pub(crate) fn lines(&self) -> AccessLines {
        let shared = Arc::clone(&self.shared);
        AccessLines { lines: RefCell::default(), sender: self.sender.clone(), shared }
    }

    /// Opens the file again before the next block is written: on SIGHUP, after log rotation.
    pub(crate) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
    }
}

impl Drop for AccessLogger {
    /// Waits for the rest to be written, unless nobody reads it.
    fn drop(&mut self) {
        self.sender = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(Duration::from_millis(u64::from(LOG_FLUSH_MS_MAX)));
    }
}

enum Sink {
    Stdout,
    File(PathBuf, File),
}

impl Sink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().write_all(lines),
            Self::File(_, file) => file.write_all(lines),
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let Self::File(path, file) = self {
            *file = append_to(path)?;
        }
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn write_all(mut sink: Sink, receiver: &Receiver<Vec<u8>>, shared: &Shared) {
    let mut failing = false;
    while let Ok(lines) = receiver.recv() {
        let reopened =
            if shared.reopen.swap(false, Ordering::AcqRel) { sink.reopen() } else { Ok(()) };
        let written = sink.write(&lines);
        if written.is_err() {
            shared.lost.fetch_add(count_lines(&lines), Ordering::Relaxed);
        }
        match reopened.and(written) {
            Ok(()) => failing = false,
            Err(error) if !failing => {
                failing = true;
                tracing::error!(%error, "cannot write the access log; dropping lines");
            }
            Err(_) => {}
        }
    }
}

impl AccessLines {
    pub(crate) fn is_on(&self) -> bool {
        self.sender.is_some()
    }

    /// Adds the line of a finished request. The query is omitted: it may hold secrets.
    pub(crate) fn write(&self, tally: &Tally, record: &Record, request: &Request, us: u64) {
        let mut lines = self.lines.borrow_mut();
        write_line(&mut lines, record, request, us);
        if lines.len() >= ACCESS_LOG_BLOCK_BYTES {
            drop(lines);
            self.flush(tally);
        }
    }

    /// Passes the buffer on to the writing thread.
    pub(crate) fn flush(&self, tally: &Tally) {
        let Some(sender) = &self.sender else { return };
        if self.shared.lost.load(Ordering::Relaxed) > 0 {
            let lost = self.shared.lost.swap(0, Ordering::Relaxed);
            tally.log_lines_lost.set(tally.log_lines_lost.get().saturating_add(lost));
        }
        let lines = std::mem::take(&mut *self.lines.borrow_mut());
        if lines.is_empty() {
            return;
        }
        let count = count_lines(&lines);
        if sender.try_send(lines).is_err() {
            tally.log_lines_lost.set(tally.log_lines_lost.get().saturating_add(count));
        }
    }
}

fn count_lines(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn write_line(out: &mut Vec<u8>, record: &Record, request: &Request, us: u64) {
    let head = &request.head;
    let api = record.api.as_ref().map(|account| &account.routes.api);
    let operation = api.zip(record.operation).and_then(|(api, index)| api.operations.get(index));
    let text = |known| head.find(known).map_or(&b""[..], |field| field.value.of(&request.bytes));
    out.extend_from_slice(b"{\"time_ms\":");
    number(out, record.started_unix_us / 1_000);
    member(out, "request", record.id().as_bytes());
    member(out, "client", request.peer.address.to_string().as_bytes());
    member(out, "method", head.method_bytes(&request.bytes));
    member(out, "host", head.host(&request.bytes));
    member(out, "path", head.path(&request.bytes));
    member(out, "api", api.map_or("", |api| api.name.as_str()).as_bytes());
    member(out, "version", api.map_or("", |api| api.version.as_str()).as_bytes());
    member(out, "operation", operation.map_or("", |found| found.template.as_str()).as_bytes());
    out.extend_from_slice(b",\"status\":");
    number(out, u64::from(record.status));
    if let Some(code) = record.code {
        out.extend_from_slice(b",\"code\":");
        number(out, u64::from(code));
    }
    if let Some(failure) = record.auth_failure {
        member(out, "auth_failure", failure.as_str().as_bytes());
    }
    out.extend_from_slice(b",\"duration_us\":");
    number(out, us);
    if let Some(upstream_us) = record.upstream_us {
        out.extend_from_slice(b",\"upstream_us\":");
        number(out, upstream_us);
    }
    out.extend_from_slice(b",\"received_bytes\":");
    number(out, record.received);
    out.extend_from_slice(b",\"sent_bytes\":");
    number(out, record.sent);
    if record.truncated {
        out.extend_from_slice(b",\"truncated\":true");
    }
    member(out, "user_agent", text(Known::UserAgent));
    member(out, "traceparent", text(Known::TraceParent));
    out.extend_from_slice(b"}\n");
}

fn number(out: &mut Vec<u8>, number: u64) {
    wire::http1::write::decimal(out, number);
}

/// Appends `,"name":"value"`; nothing for an empty value. Bytes that are not printable ASCII are escaped,
/// so that no client can inject lines or terminal sequences.
fn member(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":\"");
    for byte in value {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0x20..=0x7e => out.push(*byte),
            _ => {
                const DIGITS: [char; 16] = [
                    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
                ];
                out.extend_from_slice(b"\\u00");
                for half in [byte >> 4, byte & 15] {
                    let digit = DIGITS.get(usize::from(half)).copied().unwrap_or('0');
                    out.push(u8::try_from(digit).unwrap_or(b'0'));
                }
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_from_a_client_are_escaped() {
        let mut out = Vec::new();
        member(&mut out, "path", b"/a\"b\\c\n\xff");
        assert_eq!(out, br#","path":"/a\"b\\c\u000a\u00ff""#);
    }
}
