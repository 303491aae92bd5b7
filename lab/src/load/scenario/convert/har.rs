//! A HAR file, as browsers export it: the requests to the host of the first one, as a sequence.

use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Draft, plain, split_url};

/// Shorter pauses between two requests are those of a browser, not of a person.
const SHORTEST_PAUSE_MS: f64 = 100.0;

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    started_date_time: String,
    /// Milliseconds.
    #[serde(default)]
    time: f64,
    request: HarRequest,
    #[serde(default)]
    response: HarResponse,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarRequest {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Pair>,
    post_data: Option<PostData>,
}

#[derive(Default, Deserialize)]
struct HarResponse {
    #[serde(default)]
    status: u16,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostData {
    #[serde(default)]
    mime_type: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    params: Vec<Param>,
}

/// A field of a form, which some tools write instead of the text.
#[derive(Deserialize)]
struct Param {
    name: String,
    #[serde(default)]
    value: String,
}

impl PostData {
    /// # Errors
    /// A form of several parts without its text: the boundary and the content of files are not in the fields.
    fn body(&self) -> Result<String, String> {
        if !self.text.is_empty() || self.params.is_empty() {
            return Ok(self.text.clone());
        }
        if self.mime_type.starts_with("multipart/") {
            let what = "has a form of several parts without its text";
            return Err(format!("{what}; record it with a tool that exports `postData.text`"));
        }
        let pairs: Vec<String> = self
            .params
            .iter()
            .map(|param| format!("{}={}", form_encoded(&param.name), form_encoded(&param.value)))
            .collect();
        Ok(pairs.join("&"))
    }
}

/// Source: WHATWG URL Standard, section 5.2, `application/x-www-form-urlencoded`.
fn form_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b' ' => "+".to_owned(),
        b'*' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

impl Entry {
    /// Start and end, in milliseconds of Unix time.
    fn span_ms(&self) -> Option<(f64, f64)> {
        let start = OffsetDateTime::parse(&self.started_date_time, &Rfc3339).ok()?;
        let start_ms = start.unix_timestamp_nanos() as f64 / 1_000_000.0;
        Some((start_ms, start_ms + self.time.max(0.0)))
    }
}

/// The text of a scenario file.
///
/// # Errors
/// Not a HAR file, one without requests, or one with a request whose body is missing.
pub fn from_har(text: &[u8]) -> Result<String, String> {
    let har: Har = serde_json::from_slice(text).map_err(|error| {
        format!("{}:{}: error: not a HAR file: {error}", error.line(), error.column())
    })?;
    let first = har.log.entries.first().and_then(|entry| split_url(&entry.request.url));
    let (base, _) = first.ok_or("no requests with an http or https URL")?;
    let mut draft = Draft::default();
    draft.usage(base);
    let mut others = 0;
    let mut ended_ms = None;
    for entry in &har.log.entries {
        let HarRequest { method, url, headers, post_data } = &entry.request;
        let Some((_, path)) = split_url(url).filter(|(own, _)| *own == base) else {
            others += 1;
            continue;
        };
        let span_ms = entry.span_ms();
        let pause_ms = span_ms.zip(ended_ms).map(|((start_ms, _), ended_ms)| start_ms - ended_ms);
        if let (Some(pause_ms), Some(before)) = (pause_ms, draft.requests.last_mut())
            && pause_ms >= SHORTEST_PAUSE_MS
        {
            before.think_time = Some(plain(format!("{pause_ms:.0}ms")));
        }
        ended_ms = span_ms.map(|(_, end_ms)| end_ms);
        let headers = headers.iter().map(|pair| (pair.name.clone(), pair.value.clone()));
        let body = post_data.as_ref().map(PostData::body).transpose();
        let body = body.map_err(|why| format!("{method} {path} {why}"))?;
        let request = draft.request(method, &path, headers, body);
        let status = entry.response.status;
        request.status = (300..600).contains(&status).then(|| plain(status));
    }
    if others > 0 {
        draft.comment(format!("{others} requests to other hosts are left out."));
    }
    draft.text(true)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::load::Scenario;
    use crate::suite::Source;

    const RECORDED: &str = r##"{"log": {"version": "1.2", "entries": [
        {"startedDateTime": "2026-01-01T10:00:00.000+01:00", "time": 50,
         "request": {"method": "GET", "url": "https://shop.example/a b?x=1#top",
                     "headers": [{"name": ":method", "value": "GET"}, {"name": "Host", "value": "shop.example"},
                                 {"name": "Accept", "value": "*/*"}]},
         "response": {"status": 302}},
        {"startedDateTime": "2026-01-01T10:00:00.100+01:00", "time": 1, "request":
         {"method": "GET", "url": "https://cdn.example/x.js", "headers": []}},
        {"startedDateTime": "2026-01-01T10:00:02.050+01:00", "time": 7,
         "request": {"method": "POST", "url": "https://shop.example/cart", "headers": [],
                     "postData": {"mimeType": "application/json", "text": "{\"id\": 1}"}},
         "response": {"status": 201}}]}}"##;

    #[test]
    fn a_recording_becomes_a_sequence_with_its_pauses() {
        let text = from_har(RECORDED.as_bytes()).unwrap();
        assert!(
            text.starts_with("# penstock lab load https://shop.example --scenario THIS-FILE\n")
        );
        assert!(text.contains("# 1 requests to other hosts are left out.\n"), "{text}");
        for line in
            ["path = \"/a%20b?x=1\"", "think_time = \"2000ms\"", "status = 302", "Accept = \"*/*\""]
        {
            assert!(text.lines().any(|own| own == line), "{line} in {text}");
        }
        assert!(!text.contains("Host") && !text.contains(":method"), "{text}");
        let scenario = Scenario::from_source(&Source { name: "har.toml".into(), text }).unwrap();
        assert_eq!(scenario.names(), ["GET /a%20b", "POST /cart"]);
    }

    #[test]
    fn the_fields_of_a_form_without_its_text_are_encoded_or_an_error() {
        let recorded = |mime_type: &str| {
            let params = r#""params": [{"name": "q", "value": "a b&c"}, {"name": "é"}]"#;
            RECORDED
                .replace("application/json", mime_type)
                .replace(r#""text": "{\"id\": 1}""#, params)
        };
        let text = from_har(recorded("application/x-www-form-urlencoded").as_bytes()).unwrap();
        assert!(text.contains("body = \"q=a+b%26c&%C3%A9=\""), "{text}");
        let error = from_har(recorded("multipart/form-data; boundary=x").as_bytes()).unwrap_err();
        assert!(error.starts_with("POST /cart has a form of several parts without"), "{error}");
    }

    #[test]
    fn what_a_scenario_would_take_for_a_value_is_an_error() {
        let text = RECORDED.replace("x=1", "x={{1}}").replace("\\\"id\\\": 1", "{{id}}");
        let error = from_har(text.as_bytes()).unwrap_err();
        assert!(
            error.starts_with("cannot be written as a scenario: unknown value `id`"),
            "{error}"
        );
    }

    #[test]
    fn other_files_are_rejected() {
        assert!(from_har(b"{\"log\":\n7}").unwrap_err().starts_with("2:1: error: not a HAR file"));
        let empty = from_har(b"{\"log\": {\"entries\": []}}").unwrap_err();
        assert_eq!(empty, "no requests with an http or https URL");
    }
}
