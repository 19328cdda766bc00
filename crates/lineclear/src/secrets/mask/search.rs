//! Finds many forms in a text at once: the cost grows with the text, and not with the number of secrets.

use std::collections::BTreeMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

/// Shortest part of a form that is masked at the edges of a text, unless half of the form is shorter.
const PART_BYTES_MIN: usize = 6;
/// Bytes that are compared for one text. Only forms that repeat each other need more.
const COMPARED_MAX: usize = 16 * 1024 * 1024;
const ELLIPSIS: &[u8] = "…".as_bytes();

/// The search would take too long.
#[derive(Debug)]
pub(super) struct TooLong;

/// Forms, found by their first bytes.
#[derive(Default)]
pub(super) struct Search {
    forms: Vec<String>,
    heads: Option<Index>,
    /// `None`: parts of forms at the edges of a text are not looked for.
    tails: Option<Index>,
    longest: usize,
}

/// Several forms may begin with equal bytes.
struct Index {
    automaton: AhoCorasick,
    forms: Vec<Vec<usize>>,
}

impl Index {
    fn new<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Option<Index> {
        let mut by_key: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (form, key) in keys.enumerate() {
            by_key.entry(key).or_default().push(form);
        }
        // Fails only for more bytes than secrets can have.
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(by_key.keys()).ok()?;
        Some(Index { automaton, forms: by_key.into_values().collect() })
    }

    /// The forms whose key is in the text, and where.
    fn find<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, Range<usize>)> + 'a {
        self.automaton.find_overlapping_iter(text).flat_map(|found| {
            let forms = self.forms.get(found.pattern().as_usize()).into_iter().flatten();
            forms.map(move |form| (*form, found.range()))
        })
    }
}

/// How many bytes of a form give too much away.
fn least(form: &str) -> usize {
    PART_BYTES_MIN.min(form.len().div_ceil(2))
}

impl Search {
    pub(super) fn new(mut forms: Vec<String>, has_edges: bool) -> Search {
        forms.retain(|form| !form.is_empty());
        forms.sort_unstable();
        forms.dedup();
        let longest = forms.iter().map(String::len).max().unwrap_or(0);
        let heads = Index::new(forms.iter().map(|form| &form.as_bytes()[..least(form)]));
        let tails = has_edges
            .then(|| Index::new(forms.iter().map(|form| &form.as_bytes()[form.len() - least(form)..])));
        let tails = tails.flatten();
        Search { forms, heads, tails, longest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Where forms are in the text, and at its edges parts of them: a text that was cut may begin or end within one.
    pub(super) fn find(&self, text: &[u8]) -> Result<Vec<Range<usize>>, TooLong> {
        let (mut found, mut left) = (Vec::new(), COMPARED_MAX);
        let mut compare = |compared: usize| match left.checked_sub(compared + 1) {
            Some(less) => {
                left = less;
                Ok(())
            }
            None => Err(TooLong),
        };
        let body = trimmed_end(text);
        for (form, at) in self.heads.iter().flat_map(|heads| heads.find(text)) {
            let form = self.forms.get(form).map_or(&[][..], |form| form.as_bytes());
            let rest = text.get(at.start..).unwrap_or_default();
            let same = rest.iter().zip(form).take_while(|(one, other)| one == other).count();
            compare(same)?;
            if same == form.len() {
                found.push(at.start..at.start + same);
            } else if self.tails.is_some() && at.start + same >= body.len() && at.end <= body.len() {
                found.push(at.start..body.len());
            }
        }
        let from = if text.starts_with(ELLIPSIS) { ELLIPSIS.len() } else { 0 };
        let beginning = text.get(from..text.len().min(from + self.longest)).unwrap_or_default();
        for (form, at) in self.tails.iter().flat_map(|tails| tails.find(beginning)) {
            let form = self.forms.get(form).map_or(&[][..], |form| form.as_bytes());
            let before = beginning.get(..at.end).unwrap_or_default();
            let same =
                before.iter().rev().zip(form.iter().rev()).take_while(|(one, other)| one == other).count();
            compare(same)?;
            if same == before.len() {
                found.push(from..from + at.end);
            }
        }
        Ok(found)
    }
}

fn trimmed_end(mut text: &[u8]) -> &[u8] {
    while let Some(shorter) = text.strip_suffix(ELLIPSIS) {
        text = shorter;
    }
    text
}
