//! What must hold for any bytes. Unit tests, proptest and the fuzz targets call the same functions,
//! which panic when it does not.

use base::Method;

use super::{Parsed, RequestHead};

/// The same answer however `bytes` are cut.
pub fn request_head(bytes: &[u8]) {
    let mut head = RequestHead::default();
    let whole = head.parse(bytes);
    let first = (0..=bytes.len()).find_map(|cut| match head.parse(bytes.get(..cut)?) {
        Ok(Parsed::Partial) => None,
        other => Some(other),
    });
    assert_eq!(first.unwrap_or(Ok(Parsed::Partial)), whole);
    let _ = Method::Get;
}
