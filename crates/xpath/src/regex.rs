//! Regular expressions whose work is charged to the budget, for the languages on top of this crate. A lazy DFA finds
//! the end of each match and is charged for the bytes that it reads; the start and the groups are then searched for
//! only in that part of the text.

use std::convert::Infallible;
use std::ops::{Range, RangeInclusive};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::meta;
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::util::captures::Captures;
use regex_automata::util::pool::Pool;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use crate::{Budget, BudgetExceeded};

/// A compiled regular expression. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Regex {
    source: Arc<str>,
    bytes: usize,
    regex: meta::Regex,
    ends: Arc<DFA>,
    /// The states of `ends` reached so far; each thread has its own.
    states: Arc<Pool<Cache, NewCache>>,
}

type NewCache = Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>;

/// The result of reading a text from some place on.
enum Read {
    /// A match that ends here.
    End(usize),
    Nothing,
    /// Text that the DFA does not support: a word boundary next to non-ASCII characters.
    Unsupported,
}

/// Memory limit of the first attempt to compile a pattern at run time; each further attempt has four times as much.
const FIRST_BYTES: usize = 16 * 1024;
/// Steps of parsing a byte of a pattern, and of parsing a character class, which may add other letter cases to 100,000
/// characters.
const PARSE_STEPS: u64 = 100;
const CLASS_STEPS: u64 = 1_000;
const FOLDED_CLASS_STEPS: u64 = 20_000;
/// Factor by which an automaton that reads backwards may be larger.
const REVERSE_GROWTH: usize = 4;
/// Steps of finding a match, besides reading the text.
const FIND_STEPS: u64 = 8;
/// Bytes that are read between two charges.
const PIECE_BYTES: usize = 64;
/// States that a search for the price of a step visits where the DFA cannot be used, and in a text that is known to
/// match.
const STATES_PER_STEP: usize = 8;
const MATCHED_STATES_PER_STEP: usize = 64;
/// Memory of the states of a DFA.
const STATES_BYTES: usize = 128 * 1024;

impl Regex {
    /// Compiles `source` at load. `flags`: any of `i`, `m`, `s` and `x`; `u`, `U` and `d` are ignored. `bytes_max`: the
    /// memory that its automaton may take.
    ///
    /// # Errors
    /// A message without position, if the pattern is malformed, uses look-around or back-references, or is too large.
    pub fn compile(source: &str, flags: &str, bytes_max: usize) -> Result<Self, String> {
        match build(source, flags, bytes_max..=bytes_max, |_| Ok::<_, Infallible>(())) {
            Ok(built) => built,
        }
    }

    /// As [`Self::compile`] for a pattern that a message may supply: compiling is charged to `budget`. The memory is
    /// charged only while the pattern compiles; a caller that keeps the result charges [`Self::bytes`].
    ///
    /// # Errors
    /// [`BudgetExceeded`]; inside, as [`Self::compile`].
    pub fn compile_within(
        source: &str,
        flags: &str,
        bytes_max: usize,
        budget: &Budget,
    ) -> Result<Result<Self, String>, BudgetExceeded> {
        let is_class = |byte: &u8| matches!(byte, b'\\' | b'[' | b'-' | b'.');
        let classes = source.bytes().filter(is_class).count() as u64;
        let folds = flags.contains('i') || source.contains("(?");
        let each = if folds { FOLDED_CLASS_STEPS } else { CLASS_STEPS };
        let parsing = PARSE_STEPS.saturating_mul(source.len() as u64);
        budget.charge_steps(parsing.saturating_add(each.saturating_mul(classes)))?;
        build(source, flags, FIRST_BYTES.min(bytes_max)..=bytes_max, |bytes| {
            // An automaton takes about a step for each of its bytes, and there are three.
            budget.charge_steps(bytes as u64)?;
            budget.charge_memory(bytes.saturating_mul(3))?;
            budget.release_memory(bytes.saturating_mul(3));
            Ok(())
        })
    }

    /// Maximum memory of the automata, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the pattern occurs in `text`.
    ///
    /// # Errors
    /// [`BudgetExceeded`], as of all searches.
    pub fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, BudgetExceeded> {
        Ok(match self.first_end(text, 0, budget)? {
            Read::Nothing => false,
            Read::End(_) => true,
            Read::Unsupported => self.regex.is_match(text),
        })
    }

    /// The byte range of the first match from the byte `at` on.
    ///
    /// # Errors
    /// [`BudgetExceeded`].
    pub fn find(
        &self,
        text: &str,
        at: usize,
        budget: &Budget,
    ) -> Result<Option<Range<usize>>, BudgetExceeded> {
        let end = match self.first_end(text, at, budget)? {
            Read::Nothing => return Ok(None),
            Read::End(end) => end,
            Read::Unsupported => text.len(),
        };
        let found = self.regex.search(&Input::new(text).range(at..end));
        Ok(found.map(|found| found.range()))
    }

    /// The matches one after another, an empty one not directly after another.
    pub fn matches<'p>(
        &'p self,
        text: &'p str,
        budget: &'p Budget,
    ) -> impl Iterator<Item = Result<Range<usize>, BudgetExceeded>> + 'p {
        let mut at = Some(0);
        let mut last_end = None;
        std::iter::from_fn(move || {
            loop {
                let found = match self.find(text, at?, budget) {
                    Ok(found) => found?,
                    Err(exceeded) => {
                        at = None;
                        return Some(Err(exceeded));
                    }
                };
                let after = text.get(found.end..).and_then(|rest| rest.chars().next());
                if !found.is_empty() {
                    at = Some(found.end);
                } else {
                    at = after.map(|next| found.end.saturating_add(next.len_utf8()));
                    if last_end == Some(found.end) {
                        continue;
                    }
                }
                last_end = Some(found.end);
                return Some(Ok(found));
            }
        })
    }

    /// The parts of the text between the matches.
    pub fn split<'p, 't: 'p>(
        &'p self,
        text: &'t str,
        budget: &'p Budget,
    ) -> impl Iterator<Item = Result<&'t str, BudgetExceeded>> + 'p {
        let mut matches = self.matches(text, budget);
        let mut from = Some(0);
        std::iter::from_fn(move || {
            let start = from?;
            let (end, next) = match matches.next() {
                Some(Ok(found)) => (found.start, Some(found.end)),
                Some(Err(exceeded)) => {
                    from = None;
                    return Some(Err(exceeded));
                }
                None => (text.len(), None),
            };
            from = next;
            Some(Ok(text.get(start..end).unwrap_or_default()))
        })
    }

    /// The groups of a match that one of the searches found; group 0 is the match.
    ///
    /// # Errors
    /// [`BudgetExceeded`].
    pub fn groups(
        &self,
        text: &str,
        found: &Range<usize>,
        budget: &Budget,
    ) -> Result<Captures, BudgetExceeded> {
        self.charge_states(found.len(), MATCHED_STATES_PER_STEP, budget)?;
        let mut groups = self.regex.create_captures();
        let input = Input::new(text).range(found.clone()).anchored(Anchored::Yes);
        self.regex.search_captures(&input, &mut groups);
        Ok(groups)
    }

    fn charge_states(
        &self,
        bytes: usize,
        per_step: usize,
        budget: &Budget,
    ) -> Result<(), BudgetExceeded> {
        let states = self.ends.get_nfa().states().len();
        budget.charge_steps((bytes.saturating_mul(states) / per_step) as u64)
    }

    /// Finds the end of the first match from `at` on. A second search, if one is needed, is charged.
    fn first_end(&self, text: &str, at: usize, budget: &Budget) -> Result<Read, BudgetExceeded> {
        budget.charge_steps(FIND_STEPS)?;
        match self.read(text, at, budget)? {
            Read::Nothing => Ok(Read::Nothing),
            Read::End(end) if text.is_char_boundary(end) => Ok(Read::End(end)),
            Read::End(_) | Read::Unsupported => {
                self.charge_states(text.len().saturating_sub(at), STATES_PER_STEP, budget)?;
                Ok(Read::Unsupported)
            }
        }
    }

    /// Finds the end with the lazy DFA. A byte that leads to a known state takes a few nanoseconds; a state that is
    /// new, about a step for each byte of its memory.
    fn read(&self, text: &str, at: usize, budget: &Budget) -> Result<Read, BudgetExceeded> {
        let mut states = self.states.get();
        let states = &mut *states;
        let mut memory = states.memory_usage();
        let start = self.ends.start_state_forward(states, &Input::new(text).range(at..));
        let Ok(mut state) = start else { return Ok(Read::Unsupported) };
        let (mut place, mut found) = (at, Read::Nothing);
        let rest = text.as_bytes().get(at..).unwrap_or_default();
        for piece in rest.chunks(PIECE_BYTES) {
            budget.charge_scanning(piece.len())?;
            for &byte in piece {
                match self.ends.next_state(states, state, byte) {
                    Ok(next) => state = next,
                    Err(_) => return Ok(Read::Unsupported),
                }
                if state.is_tagged() {
                    if state.is_match() {
                        // The DFA recognises a match one byte late.
                        found = Read::End(place);
                    } else if state.is_quit() {
                        return Ok(Read::Unsupported);
                    } else if state.is_dead() {
                        break;
                    }
                }
                place = place.saturating_add(1);
            }
            let now = states.memory_usage();
            // If it is less, the states were dropped to make place for new ones.
            let grown = now.checked_sub(memory).unwrap_or(STATES_BYTES);
            budget.charge_steps(grown as u64)?;
            memory = now;
            if state.is_dead() {
                return Ok(found);
            }
        }
        match self.ends.next_eoi_state(states, state) {
            Ok(last) if last.is_match() => Ok(Read::End(text.len())),
            Ok(_) => Ok(found),
            Err(_) => Ok(Read::Unsupported),
        }
    }
}

/// Compiles within the first of the sizes that suffices; each is charged before.
fn build<E>(
    source: &str,
    flags: &str,
    bytes: RangeInclusive<usize>,
    charge: impl Fn(usize) -> Result<(), E>,
) -> Result<Result<Regex, String>, E> {
    let mut config = syntax::Config::new().nest_limit(64);
    for flag in flags.chars() {
        config = match flag {
            'i' => config.case_insensitive(true),
            'm' => config.multi_line(true),
            's' => config.dot_matches_new_line(true),
            'x' => config.ignore_whitespace(true),
            'u' | 'U' | 'd' => config,
            _ => return Ok(Err(format!("unknown flag `{flag}` of a pattern"))),
        };
    }
    let hir = match syntax::parse_with(source, &config) {
        Ok(hir) => hir,
        Err(error) => return Ok(Err(invalid(&error.to_string()))),
    };
    let mut size = *bytes.start();
    loop {
        charge(size)?;
        let engines = meta::Config::new()
            .nfa_size_limit(Some(size.saturating_mul(REVERSE_GROWTH)))
            .hybrid_cache_capacity(STATES_BYTES)
            .onepass(false)
            .dfa(false);
        let nfa = NFA::config().nfa_size_limit(Some(size)).which_captures(WhichCaptures::None);
        let built = match NFA::compiler().configure(nfa).build_from_hir(&hir) {
            Ok(nfa) => Some((nfa, meta::Builder::new().configure(engines).build_from_hir(&hir))),
            Err(_) => None,
        };
        let (nfa, regex) = match built {
            Some((nfa, Ok(regex))) => (nfa, regex),
            Some((_, Err(error))) if error.size_limit().is_none() => {
                return Ok(Err(invalid(&error.to_string())));
            }
            Some(_) | None if size < *bytes.end() => {
                size = size.saturating_mul(4).min(*bytes.end());
                continue;
            }
            Some(_) | None => return Ok(Err(format!("the compiled pattern exceeds {size} bytes"))),
        };
        let config = DFA::config()
            .unicode_word_boundary(true)
            .cache_capacity(STATES_BYTES)
            .skip_cache_capacity_check(true);
        let ends = match DFA::builder().configure(config).build_from_nfa(nfa) {
            Ok(ends) => Arc::new(ends),
            Err(error) => return Ok(Err(invalid(&error.to_string()))),
        };
        let of = Arc::clone(&ends);
        let create: NewCache = Box::new(move || of.create_cache());
        let states = Arc::new(Pool::new(create));
        return Ok(Ok(Regex {
            source: source.into(),
            bytes: size.saturating_mul(3),
            regex,
            ends,
            states,
        }));
    }
}

fn invalid(error: &str) -> String {
    let last = error.lines().last().unwrap_or_default().trim();
    format!("invalid pattern: {last}; look-around and back-references are not supported")
}
