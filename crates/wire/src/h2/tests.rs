mod connections;
mod heads;

use base::Method;

use crate::h2::response_head;
use crate::http1::{Parsed, Rejection, ResponseHead};

/// `text`: lines ended by LF.
fn parsed(text: &str) -> (ResponseHead, Vec<u8>) {
    let bytes = text.replace('\n', "\r\n").into_bytes();
    let mut head = ResponseHead::default();
    assert_eq!(head.parse(&bytes, Method::Get), Ok(Parsed::Complete), "{text}");
    (head, bytes)
}

/// The end-to-end fields of `head`, in HTTP/2.
fn converted(head: &ResponseHead, bytes: &[u8]) -> Result<http::Response<()>, Rejection> {
    let fields = head.fields().iter().filter(|field| !field.hop);
    let fields = fields.map(|field| (field.name.of(bytes), field.value.of(bytes)));
    response_head(head.status(), fields, None)
}
