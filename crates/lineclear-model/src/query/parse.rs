//! Parses a query. Every error has a position.

use super::{Field, Moment, Names, QUERY_BYTES_MAX, Query, Span, VALUES_MAX};
use crate::{DeadReason, JobState, Name, Origin, duration, schedule::edits, text::parse_moment};

/// Why a text is no query, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {why}")]
pub struct BadQuery {
    /// The character at which it is wrong, from 1.
    pub at: usize,
    /// What is wrong, and what to write instead.
    pub why: String,
}

fn bad<T>(at: usize, why: impl Into<String>) -> Result<T, BadQuery> {
    Err(BadQuery { at, why: why.into() })
}

/// One value of a term, and where it stands.
struct Word {
    text: String,
    at: usize,
    /// It stood in quotes, so that nothing in it has a meaning.
    quoted: bool,
}

struct Term {
    field: Field,
    not: bool,
    at: usize,
    values: Vec<Word>,
}

pub(super) fn query(text: &str) -> Result<Query, BadQuery> {
    if text.len() > QUERY_BYTES_MAX {
        return bad(1, format!("a query has at most {QUERY_BYTES_MAX} bytes, this one has {}", text.len()));
    }
    let mut query = Query::default();
    let mut seen: Vec<(Field, bool)> = Vec::new();
    for term in terms(text)? {
        let again = seen.contains(&(term.field, term.not));
        if again && !is_span(term.field) {
            let field = term.field;
            let detail = if term.not { "none" } else { "either" };
            return bad(term.at, format!("{field}: occurs twice; write {field}:a,b for {detail} of two"));
        }
        seen.push((term.field, term.not));
        add(&mut query, term)?;
    }
    Ok(query)
}

/// Fields that may occur twice, as both ends of a span: `id:>3 id:<9`.
fn is_span(field: Field) -> bool {
    matches!(field, Field::Id | Field::Claims | Field::Duration)
}

fn terms(text: &str) -> Result<Vec<Term>, BadQuery> {
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    let mut terms = Vec::new();
    loop {
        while chars.get(at).is_some_and(|c| c.is_whitespace()) {
            at += 1;
        }
        if at >= chars.len() {
            return Ok(terms);
        }
        let start = at;
        let not = chars[at] == '-';
        at += usize::from(not);
        let name_at = at;
        while chars.get(at).is_some_and(|c| !c.is_whitespace() && !matches!(c, ':' | '"')) {
            at += 1;
        }
        let name: String = chars[name_at..at].iter().collect();
        if chars.get(at) == Some(&'"') {
            let why = "a quote must follow a field and a colon, such as error:\"connect timeout\"";
            return bad(at + 1, why);
        }
        if name.is_empty() {
            return bad(at + 1, "a field is missing here; write field:value, such as -state:dead");
        }
        if chars.get(at) != Some(&':') {
            let shown: String = name.chars().take(40).collect();
            return bad(
                start + 1,
                format!("{shown:?} is not a term; write field:value, such as error:\"{shown}\""),
            );
        }
        let field = field(&name, name_at + 1)?;
        at += 1;
        let values = values(&chars, &mut at, field)?;
        terms.push(Term { field, not, at: start + 1, values });
    }
}

fn field(name: &str, at: usize) -> Result<Field, BadQuery> {
    if let Some(field) = Field::from_word(name) {
        return Ok(field);
    }
    let shown: String = name.chars().take(40).collect();
    let near = Field::ALL.iter().map(|field| (edits(&shown.to_lowercase(), field.as_str()), *field)).min();
    match near {
        Some((edits, field)) if edits <= 2 => {
            bad(at, format!("unknown field {shown:?}; did you mean {field}?"))
        }
        _ => {
            let all: Vec<&str> = Field::ALL.iter().map(|field| field.as_str()).collect();
            bad(at, format!("unknown field {shown:?}; the fields are {}", all.join(", ")))
        }
    }
}

fn values(chars: &[char], at: &mut usize, field: Field) -> Result<Vec<Word>, BadQuery> {
    let mut values = Vec::new();
    loop {
        let start = *at;
        let quoted = chars.get(*at) == Some(&'"');
        let mut text = String::new();
        if quoted {
            *at += 1;
            loop {
                match chars.get(*at) {
                    None => return bad(start + 1, "this quote is not closed"),
                    Some('"') => break,
                    Some('\\') if matches!(chars.get(*at + 1), Some('"' | '\\')) => {
                        text.push(chars[*at + 1]);
                        *at += 2;
                    }
                    Some(c) => {
                        text.push(*c);
                        *at += 1;
                    }
                }
            }
            *at += 1;
        } else {
            while chars.get(*at).is_some_and(|c| !c.is_whitespace() && !matches!(c, ',' | '"')) {
                text.push(chars[*at]);
                *at += 1;
            }
        }
        if text.is_empty() {
            return bad(start + 1, format!("{field}: needs a value here"));
        }
        if text.contains('\0') {
            return bad(start + 1, "a value must not contain U+0000");
        }
        values.push(Word { text, at: start + 1, quoted });
        if values.len() > VALUES_MAX {
            return bad(start + 1, format!("a term has at most {VALUES_MAX} values"));
        }
        match chars.get(*at) {
            Some(',') => *at += 1,
            Some(c) if !c.is_whitespace() => {
                return bad(*at + 1, "a space or a comma is missing here");
            }
            _ => return Ok(values),
        }
    }
}

fn add(query: &mut Query, term: Term) -> Result<(), BadQuery> {
    let not = term.not;
    match term.field {
        Field::State => query.states = Some(words(query.states.take(), &term, JobState::ALL, states)?),
        Field::Origin => {
            let one = |word: &str| Origin::from_word(word).map(|origin| vec![origin]);
            query.origins = Some(words(query.origins.take(), &term, Origin::ALL, one)?);
        }
        Field::Kind => names(&mut query.kind, term, true)?,
        Field::Group => names(&mut query.group, term, true)?,
        Field::Manifest => names(&mut query.manifest, term, true)?,
        Field::Tag => names(&mut query.tag, term, true)?,
        Field::Route => names(&mut query.route, term, true)?,
        Field::Node => names(&mut query.node, term, false)?,
        Field::Fingerprint => names(&mut query.fingerprint, term, true)?,
        Field::Reason => reasons(&mut query.reason, term)?,
        Field::Error => {
            let place = if not { &mut query.error.none_of } else { &mut query.error.any_of };
            place.extend(term.values.into_iter().map(|word| word.text));
        }
        Field::Id => ids(query, term)?,
        Field::Claims => query.claims = query.claims.and(span(&term, number)?),
        Field::Duration => {
            let said = span(&term, |word| length(word).map(duration::micros))?;
            query.duration = Some(query.duration.unwrap_or(Span { min: 0, max: i64::MAX }).and(said));
        }
        Field::Since => query.since = Some(moment(&term)?),
        Field::Until => query.until = Some(moment(&term)?),
    }
    Ok(())
}

/// States, and words for several of them.
fn states(word: &str) -> Option<Vec<JobState>> {
    use JobState::{Cancelled, Completed, Dead, Held, Parked, Queued, Retrying, Scheduled};
    Some(match word {
        "failed" => vec![Retrying, Dead],
        "waiting" => vec![Scheduled, Queued, Held, Parked, Retrying],
        "over" => vec![Completed, Cancelled],
        word => vec![JobState::from_word(word)?],
    })
}

/// Words of a fixed set: what is left of it.
fn words<T: Copy + PartialEq + std::fmt::Display>(
    before: Option<Vec<T>>,
    term: &Term,
    all: &[T],
    read: impl Fn(&str) -> Option<Vec<T>>,
) -> Result<Vec<T>, BadQuery> {
    let mut said = Vec::new();
    for word in &term.values {
        match read(&word.text) {
            Some(values) => said.extend(values),
            None => return unknown(word, term.field, all),
        }
    }
    let fits =
        |value: &&T| said.contains(value) != term.not && before.as_ref().is_none_or(|b| b.contains(value));
    Ok(all.iter().filter(fits).copied().collect())
}

/// A word that a fixed set does not have: the nearest one, or all of them.
fn unknown<A>(word: &Word, field: Field, all: &[impl std::fmt::Display]) -> Result<A, BadQuery> {
    let known: Vec<String> = all.iter().map(ToString::to_string).collect();
    let near = known.iter().min_by_key(|known| edits(&word.text, known));
    let near = near.filter(|near| edits(&word.text, near) <= 2);
    let hint = near.map_or(known.join(", "), |near| format!("did you mean {near}?"));
    let shown: String = word.text.chars().take(40).collect();
    bad(word.at, format!("{shown:?} is not a {field}: {hint}"))
}

/// Unlike a state or an origin, not every job has a reason: `-reason:permanent` also finds those that have none.
fn reasons(names: &mut Names, term: Term) -> Result<(), BadQuery> {
    if let Some(word) = term.values.iter().find(|word| DeadReason::from_word(&word.text).is_none()) {
        return unknown(word, term.field, DeadReason::ALL);
    }
    let place = if term.not { &mut names.none_of } else { &mut names.any_of };
    place.extend(term.values.into_iter().map(|word| word.text));
    Ok(())
}

fn names(names: &mut Names, term: Term, strict: bool) -> Result<(), BadQuery> {
    for word in &term.values {
        let plain = word.text.strip_suffix('*').unwrap_or(&word.text);
        if plain.contains('*') || (word.quoted && word.text.contains('*')) {
            return bad(word.at, "* may only end a name, for any ending");
        }
        if !strict && plain.contains(['?', '[']) {
            return bad(word.at, "no node has ? or [ in its name");
        }
        // An impossible name is an error, not an empty answer.
        if strict
            && !plain.is_empty()
            && let Err(error) = Name::new(plain)
        {
            return bad(word.at, error.to_string());
        }
    }
    let place = if term.not { &mut names.none_of } else { &mut names.any_of };
    place.extend(term.values.into_iter().map(|word| word.text));
    Ok(())
}

fn number(word: &Word) -> Result<i64, BadQuery> {
    let read = word.text.parse().ok().filter(|number: &i64| *number >= 0);
    read.map_or_else(|| bad(word.at, format!("{:?} is not a number", word.text)), Ok)
}

fn length(word: &Word) -> Result<std::time::Duration, BadQuery> {
    duration::parse(&word.text).or_else(|error| bad(word.at, error.to_string()))
}

fn ids(query: &mut Query, term: Term) -> Result<(), BadQuery> {
    let compares = term.values[0].text.starts_with(['<', '>']);
    if compares {
        query.id_span = query.id_span.and(span(&term, number)?);
        return Ok(());
    }
    let ids = term.values.iter().map(number).collect::<Result<Vec<_>, _>>()?;
    match (term.not, query.ids.is_empty()) {
        (true, _) => query.not_ids.extend(ids),
        (false, true) => query.ids = ids,
        (false, false) => return bad(term.at, "id: occurs twice; write id:1,2 for either"),
    }
    Ok(())
}

/// `>30s`, `>=3`, `<5m`, `<=5`, or one value alone.
fn span(term: &Term, read: impl Fn(&Word) -> Result<i64, BadQuery>) -> Result<Span, BadQuery> {
    let [word] = term.values.as_slice() else {
        return bad(
            term.at,
            format!("{}: takes one comparison; write another one as a separate term", term.field),
        );
    };
    if term.not {
        return bad(term.at, format!("{}: cannot be negated; invert the comparison", term.field));
    }
    let sign: String = word.text.chars().take_while(|c| matches!(c, '<' | '>' | '=')).collect();
    let rest =
        Word { text: word.text[sign.len()..].to_owned(), at: word.at + sign.len(), quoted: word.quoted };
    let value = read(&rest)?;
    if sign == "<" && value == 0 {
        return bad(word.at, "nothing is less than 0");
    }
    Ok(match sign.as_str() {
        ">" => Span { min: value.saturating_add(1), ..Span::ALL },
        ">=" => Span { min: value, ..Span::ALL },
        "<" => Span { max: value.saturating_sub(1), ..Span::ALL },
        "<=" => Span { max: value, ..Span::ALL },
        "" | "=" => Span { min: value, max: value },
        _ => return bad(word.at, format!("{sign:?} is not a comparison; use >, >=, <, <= or =")),
    })
}

fn moment(term: &Term) -> Result<Moment, BadQuery> {
    let [word] = term.values.as_slice() else {
        return bad(term.at, format!("{}: takes one moment", term.field));
    };
    if term.not {
        let other = if term.field == Field::Since { Field::Until } else { Field::Since };
        return bad(term.at, format!("{}: cannot be negated; write {other}:", term.field));
    }
    match (duration::parse(&word.text), parse_moment(&word.text)) {
        (Ok(length), _) => Ok(Moment::Ago(length)),
        (_, Ok(at)) => Ok(Moment::At(at)),
        _ => bad(
            word.at,
            format!(
                "{:?} is neither a length of time such as 24h nor a moment such as 2026-03-29T01:00:00Z",
                word.text
            ),
        ),
    }
}
