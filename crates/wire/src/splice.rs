//! Bytes from one socket to another through the kernel, unseen: `splice(2)` by way of a pipe.
//!
//! Life of a request: **forward** and the way back, for the part of a long body that neither needs
//! framing nor encryption. It saves both copies, which are most of what a long body costs.
//!
//! Architecture invariant: a pipe holds bytes of one message only; one that holds any when its
//! message breaks off is closed, never lent again.

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
    /// An empty pipe of `PIPE_BYTES`, or of the system's default size where that is refused.
    ///
    /// # Errors
    /// The system's: no file descriptors are left.
    pub fn new() -> io::Result<Self> {
        let (read, write) = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        // A smaller pipe only takes more turns.
        let _ = fcntl(&write, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        Ok(Self { read, write, held: 0 })
    }

    /// Bytes on their way.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Takes at most `most` bytes and `PIPE_BYTES` out of `from`, when it holds none yet. Ready with the bytes held;
    /// 0: the peer sends no more.
    ///
    /// # Errors
    /// The socket's; nothing is taken then. [`is_unsupported`] tells a system that cannot splice.
    pub fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        from: &TcpStream,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let most = most.min(PIPE_BYTES.unsigned_abs() as usize);
        while self.held == 0 {
            ready!(from.poll_read_ready(cx))?;
            // The pipe is empty, so only the socket can be what would block.
            match from.try_io(Interest::READABLE, || step(from, &self.write, most)) {
                Ok(0) => break,
                Ok(count) => self.held = count,
                Err(error) if is_passing(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(self.held))
    }

    /// Puts what it holds into `to`, as far as there is room. Ready with the bytes that went.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_drain(&mut self, cx: &mut Context<'_>, to: &TcpStream) -> Poll<io::Result<usize>> {
        loop {
            ready!(to.poll_write_ready(cx))?;
            match to.try_io(Interest::WRITABLE, || step(&self.read, to, self.held)) {
                Ok(count) => {
                    self.held = self.held.saturating_sub(count);
                    return Poll::Ready(Ok(count));
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// Whether the next try may go better.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Whether the system does not splice these sockets at all, or not for us: a sandbox, for one.
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
    async fn bytes_pass_in_order_and_no_more_than_asked_for() {
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
        assert_eq!(behind, rest, "what was not asked for is still in the socket");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_end_of_the_peer_is_no_bytes() {
        let (sender, from) = pair().await;
        drop(sender);
        let mut pipe = Pipe::new().unwrap();
        assert_eq!(poll_fn(|cx| pipe.poll_fill(cx, &from, 10)).await.unwrap(), 0);
    }
}
