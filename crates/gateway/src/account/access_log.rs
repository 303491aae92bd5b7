//! The access log: one line of JSON per request. Off by default.
//!
//! A worker collects lines in a buffer of its own and passes it on when it is full, or at the next
//! sweep; one thread writes to the file. If the disk cannot keep up, lines are dropped and counted:
//! requests never wait for the log.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use base::limits::{ACCESS_LOG_BLOCK_BYTES, ACCESS_LOG_BLOCKS_MAX};
use model::AccessLog;
use wire::http1::Known;

use super::{Record, Tally};
use crate::message::Request;

enum LogCommand {
    Lines(Vec<u8>),
    /// Open the file again, after it was renamed.
    Reopen,
    Stop,
}

/// The writing thread.
#[derive(Debug)]
pub(crate) struct AccessLogger {
    sender: SyncSender<LogCommand>,
    thread: Option<JoinHandle<()>>,
}

/// A worker's buffer of lines.
#[derive(Debug, Default)]
pub(crate) struct AccessLines {
    lines: RefCell<Vec<u8>>,
    sender: Option<SyncSender<LogCommand>>,
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
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write_all(sink, &receiver))?;
        Ok(Some(Self { sender, thread: Some(thread) }))
    }

    pub(crate) fn lines(&self) -> AccessLines {
        AccessLines { lines: RefCell::default(), sender: Some(self.sender.clone()) }
    }

    /// Opens the file again: on SIGHUP, after log rotation.
    pub(crate) fn reopen(&self) {
        // Fails if the writer has ended, or if the queue is full: the file is then not reopened.
        let _ = self.sender.try_send(LogCommand::Reopen);
    }
}

impl Drop for AccessLogger {
    fn drop(&mut self) {
        let _ = self.sender.send(LogCommand::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

enum Sink {
    Stdout,
    File(PathBuf, File),
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn write_all(mut sink: Sink, receiver: &Receiver<LogCommand>) {
    let mut failing = false;
    while let Ok(message) = receiver.recv() {
        let result = match (message, &mut sink) {
            (LogCommand::Stop, _) => return,
            (LogCommand::Lines(lines), Sink::Stdout) => io::stdout().write_all(&lines),
            (LogCommand::Lines(lines), Sink::File(_, file)) => file.write_all(&lines),
            (LogCommand::Reopen, Sink::Stdout) => Ok(()),
            (LogCommand::Reopen, Sink::File(path, file)) => append_to(path).map(|new| *file = new),
        };
        match result {
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
        let lines = std::mem::take(&mut *self.lines.borrow_mut());
        if lines.is_empty() {
            return;
        }
        let count = count_lines(&lines);
        if sender.try_send(LogCommand::Lines(lines)).is_err() {
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
