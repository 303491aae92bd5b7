//! Messages whose every byte shows to which exchange it belongs, and a plain reader of HTTP/1.1 for both ends. It
//! shares nothing with the codec under test.

use std::future::poll_fn;
use std::io;

use tokio::io::ReadBuf;

use super::network::End;

/// The payload of a message: blocks of 16 bytes with its name and their number.
pub(super) fn payload(name: &str, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 16);
    for block in 0..len.div_ceil(16) {
        bytes.extend_from_slice(format!("{name:>9}.{block:05x}|").as_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    None,
    Length(usize),
    Chunked,
    UntilClose,
}

/// A head: its first line and its fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub(super) line: String,
    pub(super) fields: Vec<(String, String)>,
}

impl Head {
    /// The status of a response.
    pub(super) fn status(&self) -> u16 {
        let status = self.line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        status.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{:?}", self.line))
    }

    fn parse(text: &str) -> Self {
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap().to_owned();
        let fields = lines.filter(|line| !line.is_empty()).map(|line| {
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("field {line:?}"));
            (name.to_ascii_lowercase(), value.to_owned())
        });
        Self { line, fields: fields.collect() }
    }

    /// The field's value; it must not be repeated.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "two fields {name}: {self:?}");
        value
    }

    /// The framing that the fields declare; `otherwise` without any.
    pub(super) fn framing(&self, otherwise: Framing) -> Framing {
        match (self.field("content-length"), self.field("transfer-encoding")) {
            (None, None) => otherwise,
            (Some(length), None) => Framing::Length(length.parse().unwrap()),
            (None, Some("chunked")) => Framing::Chunked,
            both => panic!("framing {both:?}"),
        }
    }
}

/// Reads messages from one side of a connection.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    end: &'a End,
    buffer: Vec<u8>,
    /// The other side sends no more; it did not reset the connection.
    ended: bool,
    /// It waits for so long before each read.
    pub(super) pause_us: u64,
}

/// A message ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut;

impl<'a> Reader<'a> {
    pub(super) fn new(end: &'a End) -> Self {
        Self { end, buffer: Vec::new(), ended: false, pause_us: 0 }
    }

    /// Whether all bytes read are used.
    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// One read.
    async fn more(&mut self) -> Result<(), Cut> {
        self.end.network.sleep(self.pause_us).await;
        let mut bytes = [0; 4_096];
        let mut buf = ReadBuf::new(&mut bytes);
        let read: io::Result<()> = poll_fn(|cx| self.end.poll_read(cx, &mut buf)).await;
        match read {
            Ok(()) if buf.filled().is_empty() => {
                self.ended = true;
                Err(Cut)
            }
            Ok(()) => {
                self.buffer.extend_from_slice(buf.filled());
                Ok(())
            }
            Err(_) => Err(Cut),
        }
    }

    /// Up to the first `end`, which is dropped.
    async fn until(&mut self, end: &[u8]) -> Result<String, Cut> {
        let mut looked_at = 0_usize;
        loop {
            let from = looked_at.saturating_sub(end.len());
            let found = self.buffer[from..].windows(end.len()).position(|bytes| bytes == end);
            if let Some(at) = found {
                let bytes: Vec<u8> = self.buffer.drain(..from + at + end.len()).collect();
                let bytes = &bytes[..bytes.len() - end.len()];
                return Ok(String::from_utf8(bytes.to_vec()).expect("only ASCII was sent"));
            }
            looked_at = self.buffer.len();
            self.more().await?;
        }
    }

    /// Everything until the connection ends.
    pub(super) async fn rest(&mut self) -> String {
        while self.more().await.is_ok() {}
        String::from_utf8_lossy(&self.buffer).into_owned()
    }

    pub(super) async fn head(&mut self) -> Result<Head, Cut> {
        Ok(Head::parse(&self.until(b"\r\n\r\n").await?))
    }

    /// Reads a body into `body`. Returns the trailers.
    pub(super) async fn body(
        &mut self,
        framing: Framing,
        body: &mut Body,
    ) -> Result<Vec<String>, Cut> {
        match framing {
            Framing::None => {}
            Framing::Length(len) => self.payload(len, body).await?,
            Framing::UntilClose => loop {
                let count = self.buffer.len();
                self.payload(count, body).await?;
                match self.more().await {
                    Err(Cut) if self.ended => break,
                    more => more?,
                }
            },
            Framing::Chunked => loop {
                let size = self.until(b"\r\n").await?;
                let size = size.split(';').next().unwrap();
                let size =
                    usize::from_str_radix(size, 16).unwrap_or_else(|_| panic!("size {size:?}"));
                if size == 0 {
                    let mut trailers = Vec::new();
                    loop {
                        match self.until(b"\r\n").await? {
                            line if line.is_empty() => break,
                            line => trailers.push(line),
                        }
                    }
                    return Ok(trailers);
                }
                self.payload(size, body).await?;
                assert_eq!(self.until(b"\r\n").await?, "", "the end of a chunk");
            },
        }
        Ok(Vec::new())
    }

    /// The next `count` bytes.
    pub(super) async fn take(&mut self, count: usize) -> Result<Vec<u8>, Cut> {
        while self.buffer.len() < count {
            self.more().await?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    async fn payload(&mut self, mut left: usize, body: &mut Body) -> Result<(), Cut> {
        while left > 0 {
            if self.buffer.is_empty() {
                self.more().await?;
            }
            let count = self.buffer.len().min(left);
            body.feed(&self.buffer[..count]);
            self.buffer.drain(..count);
            left -= count;
        }
        Ok(())
    }
}

/// A body as it arrives, compared with the expected one.
#[derive(Debug)]
pub(super) struct Body {
    /// `None`: anything.
    expected: Option<Vec<u8>>,
    pub(super) bytes: Vec<u8>,
}

impl Body {
    /// A body whose bytes must be a part of `expected`, from its start.
    pub(super) fn of(expected: Vec<u8>) -> Self {
        Self { expected: Some(expected), bytes: Vec::new() }
    }

    pub(super) fn any() -> Self {
        Self { expected: None, bytes: Vec::new() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        if let Some(expected) = &self.expected {
            let expected = expected.get(at..self.bytes.len()).unwrap_or_else(|| {
                panic!("more than {} bytes: {:?}", expected.len(), lossy(bytes))
            });
            assert!(bytes == expected, "expected {:?}, got {:?}", lossy(expected), lossy(bytes));
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(200)];
    String::from_utf8_lossy(shown).into_owned()
}

/// Writes all of `bytes`.
pub(super) async fn write(end: &End, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = poll_fn(|cx| end.poll_write(cx, bytes)).await?;
        bytes = &bytes[count..];
    }
    Ok(())
}
