//! The access log: one line of JSON per request. Off by default.
//!
//! A worker collects lines in a buffer of its own and passes it on when it is full, or at the next
//! sweep; one thread writes to the file. If the disk cannot keep up, lines are dropped and counted:
//! requests never wait for the log.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd as _;
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

/// State shared by the writing thread and the workers.
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
            AccessLog::Stdout => Sink::stdout()?,
            AccessLog::File(path) => Sink::to(path)?,
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
    /// Waits a limited time for the remaining lines to be written: the output may be blocked.
    fn drop(&mut self) {
        self.sender = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(Duration::from_millis(u64::from(LOG_FLUSH_MS_MAX)));
    }
}

/// Where whole lines are written.
struct Sink<W> {
    /// `None`: standard output, which is not opened again.
    path: Option<PathBuf>,
    file: W,
    /// The rest of a line whose beginning was written before the disk was full. It comes before the next line.
    rest: Vec<u8>,
}

impl Sink<File> {
    /// # Errors
    /// The file cannot be opened for appending.
    fn to(path: &Path) -> io::Result<Self> {
        Ok(Self { path: Some(path.to_owned()), file: append_to(path)?, rest: Vec::new() })
    }

    /// # Errors
    /// The process has too many files open.
    fn stdout() -> io::Result<Self> {
        // Not that of the standard library, which keeps bytes of its own after an error.
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Self { path: None, file, rest: Vec::new() })
    }

    fn reopen(&mut self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let file = append_to(path)?;
        // The line ends in the file in which it begins, if that has room.
        let _ = self.write(&[]);
        self.rest.clear();
        self.file = file;
        Ok(())
    }
}

impl<W: Write> Sink<W> {
    /// Writes `lines`. Returns the number of those that are lost, and why.
    fn write(&mut self, lines: &[u8]) -> Result<(), (u64, io::Error)> {
        let count = write_some(&mut self.file, &self.rest);
        self.rest.drain(..count.0);
        if let Some(error) = count.1 {
            return Err((count_lines(lines), error));
        }
        let (written, error) = write_some(&mut self.file, lines);
        let Some(error) = error else { return Ok(()) };
        let (before, after) = lines.split_at_checked(written).unwrap_or((lines, &[]));
        let is_torn = before.last().is_some_and(|byte| *byte != b'\n');
        let end = after.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (torn, lost) = after.split_at_checked(end).unwrap_or((&[], after));
        if !is_torn {
            return Err((count_lines(after), error));
        }
        self.rest = torn.to_vec();
        Err((count_lines(lost), error))
    }
}

/// Writes `bytes` until an error. Returns how many were written, and the error.
fn write_some(to: &mut impl Write, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut written = 0;
    while let Some(left) = bytes.get(written..).filter(|left| !left.is_empty()) {
        match to.write(left) {
            Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => written = written.saturating_add(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn write_all(mut sink: Sink<File>, receiver: &Receiver<Vec<u8>>, shared: &Shared) {
    let mut failing = false;
    while let Ok(lines) = receiver.recv() {
        let reopened =
            if shared.reopen.swap(false, Ordering::AcqRel) { sink.reopen() } else { Ok(()) };
        let written = sink.write(&lines).map_err(|(lost, error)| {
            shared.lost.fetch_add(lost, Ordering::Relaxed);
            error
        });
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

    /// A disk with room for some bytes.
    struct Disk {
        written: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room).min(3);
            self.room -= count;
            self.written.extend_from_slice(&bytes[..count]);
            if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Writes `ab`, `cd` and `ef` with room for some bytes, then, when there is room, `gh`.
    #[track_caller]
    fn check_full_disk(room: usize, expect: &str, expect_lost: u64) {
        let mut sink =
            Sink { path: None, file: Disk { written: Vec::new(), room }, rest: Vec::new() };
        let lost = sink.write(b"ab\ncd\nef\n").err().map_or(0, |(lost, _)| lost);
        assert_eq!(lost, expect_lost, "with room for {room} bytes");
        sink.file.room = 100;
        assert!(sink.write(b"gh\n").is_ok());
        let written = String::from_utf8(sink.file.written).unwrap();
        assert_eq!(written.replace('\n', " "), expect, "with room for {room} bytes");
    }

    #[test]
    fn no_line_is_torn_by_a_full_disk() {
        check_full_disk(0, "gh ", 3);
        check_full_disk(1, "ab gh ", 2);
        check_full_disk(3, "ab gh ", 2);
        check_full_disk(4, "ab cd gh ", 1);
        check_full_disk(8, "ab cd ef gh ", 0);
        check_full_disk(9, "ab cd ef gh ", 0);
    }

    #[test]
    fn a_disk_that_stays_full_keeps_the_rest_of_a_line_and_no_other() {
        let mut sink =
            Sink { path: None, file: Disk { written: Vec::new(), room: 1 }, rest: Vec::new() };
        assert_eq!(sink.write(b"ab\ncd\n").unwrap_err().0, 1);
        assert_eq!(sink.write(b"ef\n").unwrap_err().0, 1);
        sink.file.room = 100;
        assert!(sink.write(b"gh\n").is_ok());
        assert_eq!(sink.file.written, b"ab\ngh\n");
    }
}
