//! Moving bytes between two sockets within the kernel: `splice(2)` through a pipe.
//!
//! Used by **forward** and **deliver** for the parts of long bodies that need neither framing nor
//! encryption. It avoids two copies, which are most of the cost of a long body.
//!
//! Architecture invariant: a pipe holds bytes of one message only. If the message breaks off, a pipe that
//! is not empty is closed.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use base::limits::PIPE_BYTES;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::unistd::pipe2;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// A pipe between two sockets.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    held: usize,
}

impl Pipe {
    /// An empty pipe of `PIPE_BYTES`, or of the system's default size if that is not permitted.
    ///
    /// # Errors
    /// An error of the system, such as a lack of file descriptors.
    pub fn new() -> io::Result<Self> {
        let (read, write) = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        // A smaller pipe only needs more system calls.
        let _ = fcntl(&write, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        Ok(Self { read, write, held: 0 })
    }

    /// The number of bytes in the pipe.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// If the pipe is empty, moves up to `most` bytes, at most `PIPE_BYTES`, from `from` into it. Ready with the number
    /// of bytes in the pipe; 0 if the peer sends no more.
    ///
    /// # Errors
    /// An error of the socket; nothing was moved. [`is_unsupported`] recognises systems that cannot splice.
    pub fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        from: &TcpStream,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let most = most.min(PIPE_BYTES.unsigned_abs() as usize);
        while self.held == 0 {
            ready!(from.poll_read_ready(cx))?;
            // The pipe is empty, so only the socket can block.
            match from.try_io(Interest::READABLE, || step(from, &self.write, most)) {
                Ok(0) => break,
                Ok(count) => self.held = count,
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(self.held))
    }

    /// Moves bytes from the pipe to `to`. Ready with the number of bytes moved.
    ///
    /// # Errors
    /// An error of the socket.
    pub fn poll_drain(&mut self, cx: &mut Context<'_>, to: &TcpStream) -> Poll<io::Result<usize>> {
        loop {
            ready!(to.poll_write_ready(cx))?;
            match to.try_io(Interest::WRITABLE, || step(&self.read, to, self.held)) {
                Ok(count) => {
                    self.held = self.held.saturating_sub(count);
                    return Poll::Ready(Ok(count));
                }
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// Whether the operation can be repeated.
fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Whether the system cannot splice these sockets, or does not permit it, as in a sandbox.
#[must_use]
pub fn is_unsupported(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}

fn step(
    from: impl std::os::fd::AsFd,
    to: impl std::os::fd::AsFd,
    most: usize,
) -> io::Result<usize> {
    let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
    Ok(splice(from, None, to, None, most, flags)?)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dialled = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (dialled, listener.accept().await.unwrap().0)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn bytes_are_moved_in_order_and_no_more_than_requested() {
        let (mut sender, from) = pair().await;
        let (to, mut receiver) = pair().await;
        let sent: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        let (head, rest) = sent.split_at(90_000);
        let (mut pipe, mut left) = (Pipe::new().unwrap(), head.len());
        let pass = async {
            while left > 0 {
                left -= poll_fn(|cx| pipe.poll_fill(cx, &from, left)).await.unwrap();
                while pipe.held() > 0 {
                    poll_fn(|cx| pipe.poll_drain(cx, &to)).await.unwrap();
                }
            }
        };
        let mut passed = vec![0; head.len()];
        let send = async { sender.write_all(&sent).await.unwrap() };
        let receive = async { receiver.read_exact(&mut passed).await.map(drop).unwrap() };
        tokio::join!(send, pass, receive);
        assert_eq!(passed, head);
        let mut behind = vec![0; rest.len()];
        let mut from = from;
        from.read_exact(&mut behind).await.unwrap();
        assert_eq!(behind, rest, "the rest is still in the socket");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_end_of_the_stream_is_zero_bytes() {
        let (sender, from) = pair().await;
        drop(sender);
        let mut pipe = Pipe::new().unwrap();
        assert_eq!(poll_fn(|cx| pipe.poll_fill(cx, &from, 10)).await.unwrap(), 0);
    }
}
