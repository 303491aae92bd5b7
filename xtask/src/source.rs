//! Rust source as the rules of tidy read it: code without comments, texts and tests, and every path
//! (`a::b::c`) in it with its line, `use` groups spelt out.

/// One path as written, with the line (from 1) it begins on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
    /// It stands in a `use` item.
    pub(crate) imported: bool,
}

impl Mention {
    /// The path begins with `pattern`, or with `*::`, ends with what follows.
    pub(crate) fn matches(&self, pattern: &str) -> bool {
        if let Some(tail) = pattern.strip_prefix("*::") {
            let tail: Vec<&str> = tail.split("::").collect();
            return self.segments.len() >= tail.len()
                && self
                    .segments
                    .iter()
                    .rev()
                    .zip(tail.iter().rev())
                    .all(|(ours, want)| ours == want);
        }
        let head: Vec<&str> = pattern.split("::").collect();
        self.segments.len() >= head.len()
            && self.segments.iter().zip(&head).all(|(ours, want)| ours == want)
    }

    pub(crate) fn text(&self) -> String {
        self.segments.join("::")
    }
}

/// Every path in the code of `source`; comments, texts and `#[cfg(test)]` items don't count.
pub(crate) fn mentions(source: &str) -> Vec<Mention> {
    let code = without_tests(&without_prose(source));
    let tokens = tokens(&code);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((line, token)) = tokens.get(at) {
        match token {
            Token::Name(name) if name == "use" => {
                at = use_tree(&tokens, at + 1, *line, &[], &mut found);
            }
            Token::Name(_) => at = plain_path(&tokens, at, &mut found),
            Token::Mark(_) => at += 1,
        }
    }
    found
}

#[derive(Debug)]
enum Token {
    Name(String),
    /// `:` stands for `::`; a lone colon is dropped.
    Mark(char),
}

fn tokens(code: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut chars = code.chars().peekable();
    while let Some(current) = chars.next() {
        if current == '\n' {
            line += 1;
        } else if current.is_alphabetic() || current == '_' {
            let mut name = String::from(current);
            while let Some(next) = chars.next_if(|next| next.is_alphanumeric() || *next == '_') {
                name.push(next);
            }
            tokens.push((line, Token::Name(name)));
        } else if current == ':' {
            if chars.next_if_eq(&':').is_some() {
                tokens.push((line, Token::Mark(':')));
            }
        } else if !current.is_whitespace() {
            tokens.push((line, Token::Mark(current)));
        }
    }
    tokens
}

fn plain_path(tokens: &[(usize, Token)], start: usize, found: &mut Vec<Mention>) -> usize {
    let mut segments = Vec::new();
    let mut at = start;
    while let Some((_, Token::Name(name))) = tokens.get(at) {
        segments.push(name.clone());
        let joined = matches!(tokens.get(at + 1), Some((_, Token::Mark(':'))))
            && matches!(tokens.get(at + 2), Some((_, Token::Name(_))));
        at += if joined { 2 } else { 1 };
        if !joined {
            break;
        }
    }
    let line = tokens.get(start).map_or(1, |(line, _)| *line);
    found.push(Mention { line, segments, imported: false });
    at
}

/// Reads the tree after `use`, or one branch of it; answers where the next token is.
fn use_tree(
    tokens: &[(usize, Token)],
    start: usize,
    line: usize,
    prefix: &[String],
    found: &mut Vec<Mention>,
) -> usize {
    let mut segments = prefix.to_vec();
    let mut line = line;
    let mut at = start;
    loop {
        match tokens.get(at) {
            Some((_, Token::Name(name))) if name == "as" => {
                at += 1 + usize::from(at + 1 < tokens.len())
            }
            Some((here, Token::Name(name))) => {
                line = *here;
                segments.push(name.clone());
                at += 1;
            }
            Some((_, Token::Mark(':' | '*'))) => at += 1,
            Some((_, Token::Mark('{'))) => {
                return use_group(tokens, at + 1, line, &segments, found);
            }
            _ => {
                if segments.len() > prefix.len() {
                    found.push(Mention { line, segments, imported: true });
                }
                return at;
            }
        }
    }
}

fn use_group(
    tokens: &[(usize, Token)],
    start: usize,
    line: usize,
    prefix: &[String],
    found: &mut Vec<Mention>,
) -> usize {
    let mut at = start;
    loop {
        at = use_tree(tokens, at, line, prefix, found);
        match tokens.get(at) {
            Some((_, Token::Mark(','))) => at += 1,
            Some((_, Token::Mark('}'))) => return at + 1,
            _ => return at,
        }
    }
}

/// `source` with comments and the insides of texts and characters blanked; lines stay where they are.
pub(crate) fn without_prose(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while let Some(&current) = chars.get(at) {
        let end = match (current, chars.get(at + 1)) {
            ('/', Some('/')) => line_end(&chars, at),
            ('/', Some('*')) => block_comment_end(&chars, at),
            ('r' | 'b' | 'c', _) if !follows_name(&chars, at) => raw_or_byte_end(&chars, at),
            ('"', _) => text_end(&chars, at + 1),
            ('\'', _) => character_end(&chars, at),
            _ => at,
        };
        if end == at {
            code.push(current);
            at += 1;
        } else {
            code.extend(
                chars.iter().take(end).skip(at).map(|c| if *c == '\n' { '\n' } else { ' ' }),
            );
            at = end;
        }
    }
    code
}

fn follows_name(chars: &[char], at: usize) -> bool {
    at.checked_sub(1)
        .and_then(|before| chars.get(before))
        .is_some_and(|before| before.is_alphanumeric() || *before == '_')
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars.iter().skip(at).position(|c| *c == '\n').map_or(chars.len(), |offset| at + offset)
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while let Some(current) = chars.get(at) {
        match (current, chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth.saturating_sub(1), at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

/// The end of `r"..."`, `r#"..."#`, `b"..."`, `br#"..."#` or `b'x'` at `start`; `start` if it's a plain name.
fn raw_or_byte_end(chars: &[char], start: usize) -> usize {
    let mut at = start;
    let mut raw = false;
    while let Some(letter) = chars.get(at).filter(|c| matches!(c, 'r' | 'b' | 'c')) {
        raw |= *letter == 'r';
        at += 1;
    }
    let hashes = chars.iter().skip(at).take_while(|c| **c == '#').count();
    match chars.get(at + hashes) {
        Some('"') if raw => {
            let closing: Vec<char> =
                std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            let body = at + hashes + 1;
            let rest = chars.get(body..).unwrap_or_default();
            rest.windows(closing.len())
                .position(|window| window == closing)
                .map_or(chars.len(), |offset| body + offset + closing.len())
        }
        Some('"') if hashes == 0 => text_end(chars, at + 1),
        Some('\'') if hashes == 0 && at == start + 1 && !raw => character_end(chars, at),
        _ => start,
    }
}

fn text_end(chars: &[char], body: usize) -> usize {
    let mut at = body;
    while let Some(current) = chars.get(at) {
        match current {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The end of a character at `start`, or `start` for a lifetime.
fn character_end(chars: &[char], start: usize) -> usize {
    match (chars.get(start + 1), chars.get(start + 2)) {
        (Some('\\'), _) => {
            let rest = chars.get(start + 3..).unwrap_or_default();
            rest.iter().position(|c| *c == '\'').map_or(chars.len(), |offset| start + 4 + offset)
        }
        (Some(_), Some('\'')) => start + 3,
        _ => start,
    }
}

/// `code` with every item under `#[cfg(test)]` blanked: to its closing brace, or to its semicolon.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut left = code;
    let mut kept = String::with_capacity(code.len());
    while let Some(start) = left.find(MARK) {
        let (before, item) = left.split_at(start);
        kept.push_str(before);
        let (tested, after) = item.split_at(item_end(item));
        kept.extend(tested.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        left = after;
    }
    kept.push_str(left);
    kept
}

fn item_end(item: &str) -> usize {
    let mut depth = 0_usize;
    for (at, current) in item.char_indices() {
        match current {
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &[(usize, &str)]) {
        let found: Vec<(usize, String)> =
            mentions(source).iter().map(|mention| (mention.line, mention.text())).collect();
        let found: Vec<(usize, &str)> =
            found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn use_groups_are_spelt_out() {
        check(
            "use std::{fs,\n net::{TcpStream, self as n}};",
            &[(1, "std::fs"), (2, "std::net::TcpStream"), (2, "std::net::self")],
        );
        check("use a::b as c;\nuse d::*;", &[(1, "a::b"), (2, "d")]);
    }

    #[test]
    fn comments_texts_and_characters_are_not_code() {
        check(
            "// std::fs\n/* a /* b */ c::d */ 'x' \"e::f\" b\"g\" r#\"h\"i\"# b'\\'' j::k",
            &[(2, "j::k")],
        );
    }

    #[test]
    fn lifetimes_are_not_characters() {
        check("'a: b::c", &[(1, "a"), (1, "b::c")]);
    }

    #[test]
    fn what_stands_under_cfg_test_is_left_out() {
        check("#[cfg(test)]\nmod t { fn f() { std::fs::read(x) } }\nlast", &[(3, "last")]);
        check("#[cfg(test)]\nmod t;\nlast", &[(3, "last")]);
    }

    #[test]
    fn a_pattern_matches_from_the_head_or_with_a_star_from_the_tail() {
        let now = mentions("std::time::Instant::now").remove(0);
        assert!(now.matches("std::time"));
        assert!(now.matches("*::Instant::now"));
        assert!(!now.matches("std::net"));
        assert!(!now.matches("*::SystemTime::now"));
    }
}
