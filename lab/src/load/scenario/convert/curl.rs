//! A curl command line, as copied from a manual or a browser.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::{Draft, plain, split_url};
use crate::load::parse_header;

/// The text of a scenario file with the request of a curl command.
///
/// # Errors
/// An option that a scenario cannot express, an unbalanced quote, or no URL.
pub fn from_curl(command: &str) -> Result<String, String> {
    let mut words = VecDeque::from(words(command)?);
    words.pop_front_if(|word| word == "curl");
    let mut call = Call::default();
    while let Some(word) = words.pop_front() {
        match split_option(&word) {
            None => call.url(word)?,
            Some((name, joined)) if takes_value(name) => {
                let value = joined.map(str::to_owned).or_else(|| words.pop_front());
                let value = value.ok_or_else(|| format!("`{name}` has no value"))?;
                call.option(name, value)?;
            }
            Some((name, joined)) => {
                call.flag(name)?;
                // `-sS` is `-s -S`.
                let more = joined.filter(|_| !name.starts_with("--"));
                more.into_iter().for_each(|more| words.push_front(format!("-{more}")));
            }
        }
    }
    call.scenario()
}

/// The name of an option, and the value joined to it: `-XPOST`, `--request=POST`, `-sS`.
fn split_option(word: &str) -> Option<(&str, Option<&str>)> {
    if word.starts_with("--") {
        return Some(
            word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value))),
        );
    }
    let (name, value) = word.strip_prefix('-').and(word.split_at_checked(2))?;
    Some((name, (!value.is_empty()).then_some(value)))
}

fn takes_value(name: &str) -> bool {
    const OPTIONS: [&str; 28] = [
        "-X",
        "--request",
        "-H",
        "--header",
        "-d",
        "--data",
        "--data-raw",
        "--data-binary",
        "--data-ascii",
        "--json",
        "-u",
        "--user",
        "-A",
        "--user-agent",
        "-e",
        "--referer",
        "-b",
        "--cookie",
        "--url",
        "--oauth2-bearer",
        "-o",
        "--output",
        "-w",
        "--write-out",
        "-m",
        "--max-time",
        "--connect-timeout",
        "--cacert",
    ];
    OPTIONS.contains(&name)
}

#[derive(Default)]
struct Call {
    url: Option<String>,
    method: Option<String>,
    headers: Vec<(String, String)>,
    data: Vec<String>,
    body_file: Option<String>,
    is_get: bool,
    advice: Vec<String>,
}

impl Call {
    fn url(&mut self, url: String) -> Result<(), String> {
        match self.url.replace(url) {
            None => Ok(()),
            Some(other) => Err(format!("more than one URL; the first is `{other}`")),
        }
    }

    fn option(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "-X" | "--request" => self.method = Some(value),
            "-H" | "--header" => self.headers.push(parse_header(&value)?),
            "-d" | "--data" | "--data-ascii" | "--data-binary" | "--json" => {
                if name == "--json" {
                    self.default_header("Content-Type", "application/json");
                    self.default_header("Accept", "application/json");
                }
                match value.strip_prefix('@') {
                    Some(file) => self.body_file = Some(file.to_owned()),
                    None => self.data.push(value),
                }
            }
            "--data-raw" => self.data.push(value),
            "-u" | "--user" => {
                self.header("Authorization", &format!("Basic {}", BASE64.encode(value)));
            }
            "--oauth2-bearer" => self.header("Authorization", &format!("Bearer {value}")),
            "-A" | "--user-agent" => self.header("User-Agent", &value),
            "-e" | "--referer" => self.header("Referer", &value),
            "-b" | "--cookie" if value.contains('=') => self.header("Cookie", &value),
            "--url" => self.url(value)?,
            // They concern curl's output only.
            "-o" | "--output" | "-w" | "--write-out" => {}
            "-m" | "--max-time" | "--connect-timeout" => {
                self.advice.push(format!("add --timeout {value}s to the command"));
            }
            "--cacert" => self.advice.push(format!("add --ca {value} to the command")),
            _ => return Err(format!("`{name} {value}` cannot be part of a scenario")),
        }
        Ok(())
    }

    fn flag(&mut self, name: &str) -> Result<(), String> {
        match name {
            "-G" | "--get" => self.is_get = true,
            "-I" | "--head" => self.method = Some("HEAD".to_owned()),
            "-k" | "--insecure" => self.advise("add --insecure to the command"),
            "--http2" | "--http2-prior-knowledge" => self.advise("add --http2 to the command"),
            "-L" | "--location" => {
                self.advise("redirects are not followed; add a request for each")
            }
            // They concern curl's output only, or its use.
            "-s" | "--silent" | "-S" | "--show-error" | "-i" | "--include" | "-v" | "--verbose" => {
            }
            "-f" | "--fail" | "--http1.1" | "-O" | "--remote-name" | "-#" | "--progress-bar" => {}
            "--compressed" => self.header("Accept-Encoding", "gzip, deflate, br"),
            _ => return Err(format!("`{name}` cannot be part of a scenario")),
        }
        Ok(())
    }

    fn advise(&mut self, advice: &str) {
        self.advice.push(advice.to_owned());
    }

    fn header(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    fn default_header(&mut self, name: &str, value: &str) {
        if self.headers.iter().all(|(own, _)| !own.eq_ignore_ascii_case(name)) {
            self.header(name, value);
        }
    }

    fn scenario(mut self) -> Result<String, String> {
        let url = self.url.take().ok_or("the command has no URL")?;
        let url = if url.contains("://") { url } else { format!("http://{url}") };
        let (base, mut path) = split_url(&url).ok_or_else(|| format!("`{url}` is not a URL"))?;
        let data = (!self.data.is_empty()).then(|| self.data.join("&"));
        if data.is_some() && self.body_file.is_some() {
            return Err("data from a file and from the command cannot be combined".to_owned());
        }
        let body = match data {
            Some(data) if self.is_get => {
                let mark = if path.contains('?') { '&' } else { '?' };
                path.push_str(&format!("{mark}{}", super::super::encoded(&data)));
                None
            }
            data => data,
        };
        let has_body = body.is_some() || self.body_file.is_some();
        if has_body {
            self.default_header("Content-Type", "application/x-www-form-urlencoded");
        }
        let method = self.method.as_deref().unwrap_or(if has_body { "POST" } else { "GET" });
        let mut draft = Draft::default();
        draft.usage(base);
        self.advice.iter().for_each(|advice| draft.comment(advice));
        let request = draft.request(method, &path, self.headers, body);
        if self.body_file.is_some() {
            request.method = Some(plain(method.to_owned()));
        }
        request.body_file = self.body_file.map(plain);
        draft.text(false)
    }
}

/// Splits a command as a POSIX shell does, without expansions; `$'...'` as in bash.
fn words(command: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.chars().peekable();
    let unbalanced = |quote: char| format!("a {quote} is not closed");
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some('\r') if chars.peek() == Some(&'\n') => {}
                Some(other) => word.get_or_insert_default().push(other),
            },
            '$' if chars.peek() == Some(&'\'') => {
                chars.next();
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or_else(|| unbalanced('\''))? {
                        '\'' => break,
                        '\\' => word.push(escaped(&mut chars)?),
                        other => word.push(other),
                    }
                }
            }
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or_else(|| unbalanced(c))? {
                        end if end == c => break,
                        '\\' if c == '"' => match chars.next().ok_or_else(|| unbalanced(c))? {
                            '\n' => {}
                            special @ ('"' | '\\' | '$' | '`') => word.push(special),
                            other => word.extend(['\\', other]),
                        },
                        other => word.push(other),
                    }
                }
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// The character of an escape sequence in `$'...'`.
fn escaped(chars: &mut impl Iterator<Item = char>) -> Result<char, String> {
    let escape = chars.next().ok_or("a ' is not closed")?;
    Ok(match escape {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'u' => {
            let digits: String = chars.by_ref().take(4).collect();
            let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
            code.ok_or_else(|| format!("`\\u{digits}` is not a character"))?
        }
        '\'' | '"' | '\\' | '?' => escape,
        other => return Err(format!("`\\{other}` in $'...' is not supported")),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::load::Scenario;
    use crate::suite::Source;

    #[test]
    fn commands_become_requests() {
        check("curl http://h:1/a?b=c", &["path = \"/a?b=c\"", "name = \"GET /a\""]);
        check("curl -sS -XPUT -d '{\"a\": 1}' h/b", &["method = \"PUT\"", "body = '{\"a\": 1}'"]);
        check("curl -d a=1 -d b=2 h", &["body = \"a=1&b=2\"", "path = \"/\""]);
        check("curl -G -d 'a=1 2' h/x?y", &["path = \"/x?y&a=1%202\""]);
        check(
            "curl -k --json {} https://h/",
            &["Accept = \"application/json\"", "# add --insecure to the command"],
        );
        check(
            "curl h -u user:pass -H \"X-A: \\\"b\\\"\"",
            &["Authorization = \"Basic dXNlcjpwYXNz\"", "X-A = '\"b\"'"],
        );
        check("curl 'h/' \\\n  --data-raw $'it\\'s\\u00e9' ", &["body = \"it's\u{e9}\""]);
        check("curl -I h/", &["method = \"HEAD\""]);
        // Flags about curl's output are left out, and the rest of a group of flags is read.
        check("curl -so /dev/null -w '%{time_total}' h/c", &["path = \"/c\""]);
        check("curl -sXDELETE --output=x h/d", &["method = \"DELETE\"", "path = \"/d\""]);
        check("curl -m 2.5 h/", &["# add --timeout 2.5s to the command"]);
    }

    #[test]
    fn what_a_scenario_cannot_express_is_an_error() {
        for (command, expect) in [
            ("curl -F a=b h", "`-F` cannot be part of a scenario"),
            ("curl h i", "more than one URL"),
            ("curl -s", "the command has no URL"),
            ("curl 'h", "a ' is not closed"),
            ("curl h -H", "`-H` has no value"),
            ("curl h -d a -d @b", "data from a file"),
            ("curl h -b cookies.txt", "`-b cookies.txt` cannot"),
            ("curl h -H 'x: {{y}}' -d @b", "cannot be written as a scenario: unknown value `y`"),
        ] {
            let error = from_curl(command).unwrap_err();
            assert!(error.starts_with(expect), "{error}");
        }
    }

    #[track_caller]
    fn check(command: &str, lines: &[&str]) {
        let text = from_curl(command).unwrap();
        for line in lines {
            assert!(text.lines().any(|own| own == *line), "{line} in {text}");
        }
        Scenario::from_source(&Source { name: "curl.toml".into(), text }).unwrap();
    }
}
