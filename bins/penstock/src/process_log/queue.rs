//! The queue of lines for the writer thread.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between the parts of a line that has line ends.
const INDENT: &[u8] = b"\n\t";

/// A bounded queue of lines. Adding a line never waits for the writer: a line that does not fit is dropped and counted.
#[derive(Debug)]
pub(super) struct Queue {
    bytes_max: usize,
    waiting: Mutex<Waiting>,
    change: Condvar,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    batch: Batch,
    /// Whether the writer has a batch that is not written yet.
    writing: bool,
    /// Whether the writer should wake up even without a line.
    woken: bool,
}

/// Lines that are written together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: u64,
}

impl Queue {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            waiting: Mutex::default(),
            change: Condvar::new(),
            lost: AtomicU64::new(0),
        }
    }

    /// Adds a line, or counts it as lost. Texts in it may come from a client: text after a line end inside of it is
    /// indented, and blank lines are left out, so that nothing in it looks like another line.
    pub(super) fn push(&self, line: &[u8]) {
        let parts = line.split(|byte| matches!(byte, b'\n' | b'\r'));
        let parts = || parts.clone().filter(|part| !part.is_empty());
        // The first part has no indent, and the last one a line end.
        let bytes: usize = parts().map(|part| part.len() + INDENT.len()).sum();
        let bytes = bytes.saturating_sub(INDENT.len() - b"\n".len());
        let mut waiting = self.lock();
        if bytes > self.bytes_max.saturating_sub(waiting.batch.bytes.len()) {
            self.lose(1);
            return;
        }
        for (at, part) in parts().enumerate() {
            waiting.batch.bytes.extend_from_slice(if at == 0 { b"" } else { INDENT });
            waiting.batch.bytes.extend_from_slice(part);
        }
        waiting.batch.bytes.push(b'\n');
        waiting.batch.lines += 1;
        drop(waiting);
        self.change.notify_all();
    }

    /// Ends the writer's wait.
    pub(super) fn wake(&self) {
        self.lock().woken = true;
        self.change.notify_all();
    }

    /// For the writer: waits for lines, for [`Self::wake`] or for the end of `within`, and takes all lines. Once they
    /// are written, [`Self::written`] must be called.
    pub(super) fn take(&self, within: Option<Duration>) -> Batch {
        let waiting = self.lock();
        let idle = |waiting: &mut Waiting| waiting.batch.lines == 0 && !waiting.woken;
        let mut waiting = match within {
            Some(within) => {
                let waited = self.change.wait_timeout_while(waiting, within, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.change.wait_while(waiting, idle).unwrap_or_else(PoisonError::into_inner),
        };
        waiting.woken = false;
        waiting.writing = true;
        // The memory of a burst is released with its batch.
        std::mem::take(&mut waiting.batch)
    }

    /// For the writer: the batch is written, or lost.
    pub(super) fn written(&self) {
        self.lock().writing = false;
        self.change.notify_all();
    }

    /// Waits until all lines are written, at most `within`.
    pub(super) fn flush(&self, within: Duration) {
        let busy = |waiting: &mut Waiting| waiting.batch.lines > 0 || waiting.writing;
        drop(self.change.wait_timeout_while(self.lock(), within, busy));
    }

    pub(super) fn lose(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
    }

    /// Lines lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `tracing_subscriber` writes each line in one piece.
impl Write for &Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_do_not_fit_are_counted_and_the_others_kept_in_order() {
        let queue = Queue::new(10);
        for line in ["one\n", "two\n", "three\n", "4\n", "5\n"] {
            queue.push(line.as_bytes());
        }
        assert_eq!(queue.take(None), Batch { bytes: b"one\ntwo\n4\n".to_vec(), lines: 3 });
        assert_eq!(queue.lost(), 2);
        queue.push(b"larger than the queue\n");
        assert_eq!(queue.lost(), 3);
        queue.push(b"012345678\n");
        assert_eq!(queue.take(None).lines, 1, "the room is free again");
    }

    #[test]
    fn nothing_inside_a_line_looks_like_another_line() {
        let queue = Queue::new(100);
        queue.push(b"INFO a = 1\nERROR forged\r\n\r\nERROR again\rERROR last\n");
        let expect = b"INFO a = 1\n\tERROR forged\n\tERROR again\n\tERROR last\n";
        assert_eq!(queue.take(None), Batch { bytes: expect.to_vec(), lines: 1 });
        let queue = Queue::new(6);
        queue.push(b"a\nbc\n");
        assert_eq!((queue.take(Some(Duration::ZERO)).bytes.len(), queue.lost()), (6, 0));
        queue.push(b"a\nbcd\n");
        assert_eq!(queue.lost(), 1, "it needs seven bytes");
    }

    #[test]
    fn a_writer_that_hangs_blocks_neither_lines_nor_the_flush_for_long() {
        let queue = Queue::new(4);
        queue.push(b"one\n");
        assert_eq!(queue.take(None).lines, 1);
        // The writer never reports it as written.
        queue.push(b"two\n");
        queue.push(b"lost");
        queue.flush(Duration::ZERO);
        assert_eq!(queue.lost(), 1);
        assert_eq!(queue.take(None).bytes, b"two\n");
        queue.written();
        queue.flush(Duration::MAX);
    }

    #[test]
    fn the_writer_can_be_woken_without_a_line() {
        let queue = Queue::new(4);
        queue.wake();
        assert_eq!(queue.take(None), Batch::default());
        assert_eq!(queue.take(Some(Duration::ZERO)), Batch::default());
    }
}
