mod connections;
mod heads;

use base::Method;

use crate::http1::{Parsed, ResponseHead};

/// `text`: lines ended by LF.
fn response_head(text: &str) -> (ResponseHead, Vec<u8>) {
    let bytes = text.replace('\n', "\r\n").into_bytes();
    let mut head = ResponseHead::default();
    assert_eq!(head.parse(&bytes, Method::Get), Ok(Parsed::Complete), "{text}");
    (head, bytes)
}
