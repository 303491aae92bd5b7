//! Tests of the codec by rule, and of the properties with generated input.

mod body;
mod framing;
mod generated;
mod path;
mod request;
mod response;
mod writing;

use super::{Parsed, Rejection, RequestHead};

/// A valid request head, with `more` field lines.
fn with_fields(more: &str) -> String {
    format!("POST /menu HTTP/1.1\r\nHost: api.example.org\r\n{more}\r\n")
}

/// Parses `head` as a whole and cut at every position. Returns the rejection's status, `partial` or `ok`.
#[track_caller]
fn verdict(head: &[u8]) -> String {
    super::properties::request_head(head);
    match RequestHead::default().parse(head) {
        Ok(Parsed::Complete) => "ok".to_owned(),
        Ok(Parsed::Partial) => "partial".to_owned(),
        Err(Rejection { status, .. }) => status.to_string(),
    }
}

#[track_caller]
fn check(head: &(impl AsRef<[u8]> + ?Sized), expect: &str) {
    let head = head.as_ref();
    assert_eq!(verdict(head), expect, "{}", head.escape_ascii());
}

/// The result for every head of `heads` is `expect`.
#[track_caller]
fn check_all(heads: &[&str], expect: &str) {
    for head in heads {
        check(*head, expect);
    }
}

/// The result for every set of field lines, in an otherwise valid head, is `expect`.
#[track_caller]
fn check_fields(lines: &[&str], expect: &str) {
    for more in lines {
        check(&with_fields(more), expect);
    }
}
