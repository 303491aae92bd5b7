//! JMeter's result file (JTL): CSV with the 17 default columns, readable by JMeter and by WSO2's
//! jtl-splitter.
//!
//! One line per request, including the warm-up, not strictly ordered. `timeStamp` is the start (open loop:
//! the due time); `elapsed` and `Latency` count from there; `IdleTime` is 0. As in JMeter, times are
//! truncated to milliseconds of Unix time before they are subtracted.
//!
//! Source: JMeter user manual, "CSV Log format".

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::limits;

use super::panicked;
use crate::load::response::Outcome;
use crate::load::statistics::Sample;

const HEADER: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,\
                      success,failureMessage,bytes,sentBytes,grpThreads,allThreads,URL,Latency,\
                      IdleTime,Connect\n";

/// Writes the file on its own thread.
pub(crate) struct Jtl {
    queue: SyncSender<Vec<Sample>>,
    lost: Arc<AtomicU64>,
    writer: JoinHandle<io::Result<()>>,
}

/// Values that are the same in every line.
pub(crate) struct LineConstants {
    /// Unix time at the clock's zero.
    pub(crate) origin_us: u64,
    pub(crate) url: String,
    /// The name and the URL of each request of a scenario, with the names of its values.
    pub(crate) requests: Vec<(String, String)>,
}

impl Jtl {
    /// # Errors
    /// The file exists or cannot be created, or the thread cannot be started.
    pub(crate) fn create(path: &Path, constants: LineConstants) -> io::Result<Self> {
        let file = files::create(path)?;
        let (queue, chunks) = sync_channel(limits::JTL_CHUNKS_MAX);
        let writer = thread::Builder::new()
            .name("jtl".to_owned())
            .spawn(move || write(file, &constants, &chunks))?;
        Ok(Self { queue, lost: Arc::default(), writer })
    }

    /// A buffer for one generator thread.
    pub(crate) fn chunks(&self) -> Chunks {
        Chunks { chunk: Vec::new(), queue: self.queue.clone(), lost: Arc::clone(&self.lost) }
    }

    /// Waits until everything is written; all [`Chunks`] must be dropped before. Returns the number of
    /// samples lost because the writer was too slow.
    ///
    /// # Errors
    /// The writer's first error; later samples are missing in the file.
    pub(crate) fn finish(self) -> io::Result<u64> {
        drop(self.queue);
        self.writer.join().map_err(|_| panicked())??;
        Ok(self.lost.load(Ordering::Relaxed))
    }
}

/// Buffers the samples of one thread; the rest is handed over on drop.
pub(crate) struct Chunks {
    chunk: Vec<Sample>,
    queue: SyncSender<Vec<Sample>>,
    lost: Arc<AtomicU64>,
}

impl Chunks {
    /// Never blocks.
    pub(crate) fn push(&mut self, sample: Sample) {
        if self.chunk.capacity() == 0 {
            self.chunk.reserve_exact(limits::JTL_CHUNK_SAMPLES);
        }
        self.chunk.push(sample);
        if self.chunk.len() >= limits::JTL_CHUNK_SAMPLES {
            let chunk = std::mem::take(&mut self.chunk);
            let samples = chunk.len() as u64;
            if self.queue.try_send(chunk).is_err() {
                self.lost.fetch_add(samples, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Chunks {
    /// May block: the load is over by then.
    fn drop(&mut self) {
        let samples = self.chunk.len() as u64;
        if self.queue.send(std::mem::take(&mut self.chunk)).is_err() {
            self.lost.fetch_add(samples, Ordering::Relaxed);
        }
    }
}

fn write(file: File, constants: &LineConstants, chunks: &Receiver<Vec<Sample>>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    out.write_all(HEADER.as_bytes())?;
    let single = ("HTTP Request".to_owned(), unseparated(&constants.url));
    let plain = |(label, url): &(String, String)| (unseparated(label), unseparated(url));
    let requests: Vec<(String, String)> = constants.requests.iter().map(plain).collect();
    for sample in chunks.iter().flatten() {
        let request = sample.detail.request.and_then(|request| requests.get(request));
        let (label, url) = request.unwrap_or(&single);
        line(&mut out, &sample, constants.origin_us, (label, url))?;
    }
    out.flush()
}

fn line(
    out: &mut impl Write,
    sample: &Sample,
    origin_us: u64,
    (label, url): (&str, &str),
) -> io::Result<()> {
    let ms = |us: u64| us.saturating_add(origin_us) / 1_000;
    let from_ms = ms(sample.from_us);
    let since_ms = |us: u64| ms(us).saturating_sub(from_ms);
    let detail = &sample.detail;
    let first_byte_ms = match detail.first_byte_us {
        0 => 0,
        us => since_ms(us),
    };
    let (code, (message, failure)) = (Code(sample), messages(sample));
    writeln!(
        out,
        "{from_ms},{},{label},{code},{message},Thread Group 1-{},text,{},{failure},{},{},{},{},{url},{first_byte_ms},0,{}",
        since_ms(sample.end_us),
        detail.user + 1,
        !sample.outcome.is_error(),
        sample.bytes.received,
        sample.bytes.sent,
        detail.users,
        detail.users,
        detail.connect_us / 1_000,
    )
}

/// The status, or JMeter's phrase for its absence.
struct Code<'a>(&'a Sample);

impl fmt::Display for Code<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.outcome {
            Outcome::Good
            | Outcome::Status(_)
            | Outcome::Grpc(_)
            | Outcome::BodyMismatch
            | Outcome::Extract => {
                write!(out, "{}", self.0.detail.status)
            }
            kind @ (Outcome::Connect
            | Outcome::Write
            | Outcome::Closed
            | Outcome::Timeout
            | Outcome::Unsent
            | Outcome::Protocol
            | Outcome::Reset) => write!(out, "Non HTTP response code: {kind}"),
        }
    }
}

/// Response message and failure message. They contain no comma: WSO2's jtl-splitter drops lines with more
/// than 17 fields even if they are quoted.
fn messages(sample: &Sample) -> (&'static str, &'static str) {
    let reason = reason(sample.detail.status);
    match sample.outcome {
        Outcome::Good => (reason, ""),
        Outcome::Status(_) => (reason, "the status is not 2xx"),
        Outcome::BodyMismatch => (reason, "the expected text is not in the body"),
        Outcome::Grpc(_) => (reason, "the gRPC status is not 0"),
        Outcome::Extract => (reason, "a value of the scenario is missing or invalid"),
        Outcome::Connect => ("no connection", ""),
        Outcome::Write => ("connection failed while writing the request", ""),
        Outcome::Closed => ("connection ended before the response was complete", ""),
        Outcome::Timeout => ("timeout", ""),
        Outcome::Reset => ("the server reset the stream", ""),
        Outcome::Unsent => ("no free connection within the timeout", ""),
        Outcome::Protocol => ("the response is not valid HTTP", ""),
    }
}

/// Source: RFC 9110 section 15. Empty for statuses that gateways rarely send.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}

/// The URL without characters that separate fields or lines: WSO2's jtl-splitter drops lines with more than 17
/// fields even if they are quoted. The escapes are equivalent in a query and in most paths.
fn unseparated(url: &str) -> String {
    url.replace(',', "%2C").replace('"', "%22").replace('\n', "%0A").replace('\r', "%0D")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::load::statistics::{Detail, Traffic};

    const SAMPLE: Sample = Sample {
        from_us: 1_999,
        start_us: 2_000,
        end_us: 14_001,
        outcome: Outcome::Good,
        bytes: Traffic { sent: 1_200, received: 1_100 },
        queued: false,
        detail: Detail {
            status: 200,
            connect_us: 1_500,
            first_byte_us: 13_000,
            request: None,
            messages: 0,
            user: 4,
            users: 9,
        },
    };

    #[test]
    fn a_line_has_jmeters_columns_in_milliseconds() {
        check(
            SAMPLE,
            "1700000000001,13,HTTP Request,200,OK,Thread Group 1-5,text,true,,1100,1200,9,9,URL,12,0,1",
        );
    }

    #[test]
    fn failures_have_a_status_or_a_kind() {
        let failed = |outcome, status| {
            let detail = Detail { status, ..SAMPLE.detail };
            Sample { outcome, detail, ..SAMPLE }
        };
        check(
            failed(Outcome::BodyMismatch, 200),
            "1700000000001,13,HTTP Request,200,OK,Thread Group 1-5,text,false,the expected text is not in the body,1100,1200,9,9,URL,12,0,1",
        );
        check(
            failed(Outcome::Status(503), 503),
            "1700000000001,13,HTTP Request,503,Service Unavailable,Thread Group 1-5,text,false,the status is not 2xx,1100,1200,9,9,URL,12,0,1",
        );
        let detail = Detail { status: 0, connect_us: 0, first_byte_us: 0, ..SAMPLE.detail };
        check(
            Sample { outcome: Outcome::Connect, bytes: Traffic::default(), detail, ..SAMPLE },
            "1700000000001,13,HTTP Request,Non HTTP response code: connect,no connection,Thread Group 1-5,text,false,,0,0,9,9,URL,0,0,0",
        );
    }

    #[test]
    fn every_outcome_gives_17_fields() {
        // Each leads to another one, so that the compiler finds missing outcomes.
        let next = |outcome: &Outcome| {
            Some(match outcome {
                Outcome::Good => Outcome::Connect,
                Outcome::Connect => Outcome::Write,
                Outcome::Write => Outcome::Closed,
                Outcome::Closed => Outcome::Timeout,
                Outcome::Timeout => Outcome::Unsent,
                Outcome::Unsent => Outcome::Protocol,
                Outcome::Protocol => Outcome::Reset,
                Outcome::Reset => Outcome::BodyMismatch,
                Outcome::BodyMismatch => Outcome::Extract,
                Outcome::Extract => Outcome::Status(404),
                Outcome::Status(_) => Outcome::Grpc(14),
                Outcome::Grpc(_) => return None,
            })
        };
        let all = || std::iter::successors(Some(Outcome::Good), next);
        assert_eq!(all().count(), 12);
        for outcome in all() {
            assert_eq!(text(Sample { outcome, ..SAMPLE }).split(',').count(), 17, "{outcome}");
        }
        assert_eq!(HEADER.split(',').count(), 17);
    }

    #[test]
    fn a_url_with_a_comma_keeps_its_line_in_wso2s_splitter() {
        assert_eq!(unseparated("http://a/?x=1,2"), "http://a/?x=1%2C2");
        assert_eq!(unseparated("http://a/?x=\"1\""), "http://a/?x=%221%22");
        assert_eq!(unseparated("http://a/?x=1"), "http://a/?x=1");
    }

    #[test]
    fn a_finished_file_contains_all_chunks_of_all_threads() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("results.jtl");
        let constants = || LineConstants { origin_us: 0, url: "URL".to_owned(), requests: vec![] };
        let jtl = Jtl::create(&path, constants()).unwrap();
        let threads: Vec<_> = [0, 1, limits::JTL_CHUNK_SAMPLES, 3 * limits::JTL_CHUNK_SAMPLES + 7]
            .map(|samples| {
                let mut chunks = jtl.chunks();
                thread::spawn(move || (0..samples).for_each(|_| chunks.push(SAMPLE)))
            })
            .into();
        for thread in threads {
            thread.join().unwrap();
        }
        let lost = jtl.finish().unwrap();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count() as u64;
        assert_eq!(lines + lost, 1 + 8 + 4 * limits::JTL_CHUNK_SAMPLES as u64);
        let error = Jtl::create(&path, constants()).err().map(|error| error.kind());
        assert_eq!(error, Some(io::ErrorKind::AlreadyExists));
    }

    #[test]
    fn lost_samples_are_counted() {
        let (queue, chunks) = sync_channel(1);
        let mut all = Chunks { chunk: Vec::new(), queue, lost: Arc::default() };
        let lost = Arc::clone(&all.lost);
        (0..3 * limits::JTL_CHUNK_SAMPLES).for_each(|_| all.push(SAMPLE));
        assert_eq!(lost.load(Ordering::Relaxed), 2 * limits::JTL_CHUNK_SAMPLES as u64);
        assert_eq!(chunks.recv().map(|chunk| chunk.len()), Ok(limits::JTL_CHUNK_SAMPLES));
    }

    #[track_caller]
    fn check(sample: Sample, expect: &str) {
        assert_eq!(text(sample), format!("{expect}\n"));
    }

    fn text(sample: Sample) -> String {
        let mut out = Vec::new();
        line(&mut out, &sample, 1_700_000_000_000_000, ("HTTP Request", "URL")).unwrap();
        String::from_utf8(out).unwrap()
    }
}
