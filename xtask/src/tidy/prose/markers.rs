//! Wordings that make prose hard to read. Code between backticks and text between quotation marks is not examined.

use super::Hit;
use super::paragraphs::Paragraph;

/// Most characters of a sentence that a marker shows.
const EXCERPT_CHARS: usize = 60;

const OPENING: &str = "begin with the subject, named by a noun";
const CLAUSE: &str = "use the noun that the clause stands for";
const SPEECH: &str = "use a verb for what the program or document does: is, has, sets, requires";
const PERSON: &str = "name the person: the client, the user, the operator";
const NEGATION: &str = "use `is not`, or a verb";

/// A word of a paragraph, and the byte that it begins at.
#[derive(Debug, Clone, Copy)]
struct Word<'a> {
    at: usize,
    text: &'a str,
    /// The first word of a sentence.
    opens: bool,
}

/// The markers of `paragraphs`, in order.
pub(super) fn of(paragraphs: &[Paragraph]) -> Vec<Hit> {
    paragraphs.iter().flat_map(of_paragraph).collect()
}

fn of_paragraph(paragraph: &Paragraph) -> Vec<Hit> {
    let text = masked(&paragraph.text);
    let words = words(&text);
    let mut hits = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).map_or("", |word| word.text);
        if let Some(instead) = remedy(word, next, &text) {
            let what = format!("`{}`", excerpt(paragraph.text.get(word.at..).unwrap_or_default()));
            hits.push(Hit { line: paragraph.line(word.at), what, instead });
        }
    }
    hits
}

/// The remedy, if a marker begins with `word`.
fn remedy(word: &Word<'_>, next: &str, text: &str) -> Option<&'static str> {
    let lower = word.text.to_ascii_lowercase();
    match (lower.as_str(), next) {
        ("of" | "those" | "its", _) | ("that" | "one", "of") if word.opens => Some(OPENING),
        ("what", "to" | "if") => None,
        ("what" | "whatever", _) if !is_question(text, word.at) => Some(CLAUSE),
        ("says" | "said", _) => Some(SPEECH),
        ("whoever" | "nobody" | "somebody", _) => Some(PERSON),
        ("is", "no") if !no_longer(text, word.at) => Some(NEGATION),
        _ => None,
    }
}

/// `is no` at `at` goes on as `is no longer` or `is no more`.
fn no_longer(text: &str, at: usize) -> bool {
    let rest = text.get(at..).unwrap_or_default();
    let third = rest.split_whitespace().nth(2).unwrap_or_default();
    third.starts_with("longer") || third.starts_with("more")
}

/// The sentence around `at` ends with a question mark.
fn is_question(text: &str, at: usize) -> bool {
    let rest = text.get(at..).unwrap_or_default();
    let mut ends = rest.match_indices(['.', '?', '!']).filter(|(end, mark)| {
        let after = rest.get(end + mark.len()..).unwrap_or_default();
        after.trim_start_matches(CLOSING).chars().next().is_none_or(char::is_whitespace)
    });
    ends.next().is_some_and(|(_, mark)| mark == "?")
}

/// Characters that may follow the end of a sentence before the space.
const CLOSING: [char; 5] = [')', ']', '"', '*', '_'];

/// `text` with inline code and quotations replaced, each byte by one `x`. A mark without its partner becomes a space.
fn masked(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['`', '"']) {
        let (before, tail) = rest.split_at(at);
        let mark = if tail.starts_with('"') { "\"" } else { backticks(tail) };
        masked.push_str(before);
        let inside = tail.get(mark.len()..).unwrap_or_default();
        let closing = inside.find(mark);
        let length = closing.map_or(mark.len(), |end| end + 2 * mark.len());
        masked.extend(std::iter::repeat_n(if closing.is_some() { 'x' } else { ' ' }, length));
        rest = tail.get(length..).unwrap_or_default();
    }
    masked + rest
}

/// The backticks that `text` begins with.
fn backticks(text: &str) -> &str {
    text.get(..text.len() - text.trim_start_matches('`').len()).unwrap_or_default()
}

fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut ended = true;
    for (at, part) in parts(text) {
        let bare = part.trim_matches(|letter: char| !letter.is_alphanumeric());
        if bare.is_empty() {
            continue;
        }
        let at = at + part.find(bare).unwrap_or_default();
        let opens = ended && bare.starts_with(char::is_uppercase);
        words.push(Word { at, text: bare.strip_suffix("'s").unwrap_or(bare), opens });
        ended = part.trim_end_matches(CLOSING).ends_with(['.', '?', '!']);
    }
    words
}

/// The parts between the spaces of `text`, and where each begins.
fn parts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split(' ').map(move |part| {
        let start = at;
        at += part.len() + 1;
        (start, part)
    })
}

fn excerpt(text: &str) -> String {
    let mut excerpt: String = text.chars().take(EXCERPT_CHARS).collect();
    if excerpt.len() < text.len() {
        excerpt.push_str("..");
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::super::paragraphs;
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found: Vec<_> =
            of(&paragraphs::of_markdown(text)).iter().map(|hit| hit.instead).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn sentences_without_their_noun_are_marked() {
        check("Of those, two. Its size. (Those stay.)", &[OPENING; 3]);
        check("That of a map. One of them. One stays. That is all.", &[OPENING; 2]);
        check("The size of its keys, e.g. of those that stay.", &[]);
    }

    #[test]
    fn clauses_with_what_are_marked_except_in_questions() {
        check("What is stored uses what is taken.", &[CLAUSE; 2]);
        check("Keeps whatever\narrives.", &[CLAUSE]);
        check("What does it cost? It reports what to do, and what if.", &[]);
        check("# What it does", &[]);
    }

    #[test]
    fn speech_persons_and_negations_are_marked() {
        check("The file says so, as was said.", &[SPEECH; 2]);
        check("Nobody reads it, whoever asks.", &[PERSON; 2]);
        check("It is no number; that is no longer so, and is no\nmore.", &[NEGATION]);
    }

    #[test]
    fn code_and_quotations_are_not_examined() {
        check("The key `what` and ``a ` what`` in \"what is it\" is here.", &[]);
        check("An open `what is here.", &[CLAUSE]);
    }

    #[test]
    fn a_marker_has_the_line_and_the_words_from_there() {
        let hits = of(&paragraphs::of_markdown("One\ntwo what is three"));
        assert_eq!(hits, [Hit { line: 2, what: "`what is three`".into(), instead: CLAUSE }]);
    }
}
