//! The parts of a response head that a measuring client needs.

/// Collects the fields of a header block.
#[derive(Debug, Default)]
pub(super) struct HeadReader {
    status: Option<u16>,
    length: Option<u64>,
    has_regular: bool,
    is_malformed: bool,
}

impl HeadReader {
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) {
        if name.first() == Some(&b':') {
            let is_valid = name == b":status" && self.status.is_none() && !self.has_regular;
            self.status = status(value).filter(|_| is_valid);
            self.is_malformed |= self.status.is_none();
            return;
        }
        self.has_regular = true;
        match name {
            b"content-length" => {
                let length = decimal(value).filter(|_| self.length.is_none());
                self.is_malformed |= length.is_none();
                self.length = length;
            }
            // Source: RFC 9113 section 8.2.2.
            b"connection" | b"transfer-encoding" | b"keep-alive" | b"upgrade"
            | b"proxy-connection" => self.is_malformed = true,
            _ => self.is_malformed |= name.is_empty() || name.iter().any(u8::is_ascii_uppercase),
        }
    }

    /// Status and length; `None` if the head is malformed.
    pub(super) fn head(&self) -> Option<(u16, Option<u64>)> {
        self.status.filter(|_| !self.is_malformed).map(|status| (status, self.length))
    }

    pub(super) fn are_trailers(&self) -> bool {
        !self.is_malformed && self.status.is_none()
    }
}

fn status(value: &[u8]) -> Option<u16> {
    let digits: &[u8; 3] = value.try_into().ok()?;
    let status = u16::try_from(decimal(digits)?).ok()?;
    (100..=999).contains(&status).then_some(status)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}
