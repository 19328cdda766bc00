//! Writes a query as text: equal queries have equal texts.

use std::fmt;

use super::{Field, Moment, Names, Query, Span};
use crate::duration;

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms: Vec<String> = Vec::new();
        if let Some(states) = &self.states {
            terms.extend(words(Field::State, states));
        }
        for (field, names) in [
            (Field::Kind, &self.kind),
            (Field::Group, &self.group),
            (Field::Manifest, &self.manifest),
            (Field::Tag, &self.tag),
            (Field::Route, &self.route),
            (Field::Node, &self.node),
            (Field::Fingerprint, &self.fingerprint),
            (Field::Reason, &self.reason),
        ] {
            both(&mut terms, field, names, false);
        }
        if let Some(origins) = &self.origins {
            terms.extend(words(Field::Origin, origins));
        }
        both(&mut terms, Field::Error, &self.error, true);
        let numbers = |ids: &[i64]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        if !self.ids.is_empty() {
            terms.push(format!("id:{}", numbers(&self.ids)));
        }
        if !self.not_ids.is_empty() {
            terms.push(format!("-id:{}", numbers(&self.not_ids)));
        }
        span(&mut terms, Field::Id, self.id_span, &|n| n.to_string());
        span(&mut terms, Field::Claims, self.claims, &|n| n.to_string());
        if let Some(said) = self.duration {
            let length =
                |n: i64| duration::format(std::time::Duration::from_micros(n.max(0).cast_unsigned()));
            span(&mut terms, Field::Duration, said, &length);
        }
        for (field, said) in [(Field::Since, self.since), (Field::Until, self.until)] {
            match said {
                Some(Moment::At(at)) => terms.push(format!("{field}:{at}")),
                Some(Moment::Ago(length)) => terms.push(format!("{field}:{}", duration::format(length))),
                None => {}
            }
        }
        f.write_str(&terms.join(" "))
    }
}

/// An empty set has no word: it is written as two that exclude each other.
fn words<T: Copy + fmt::Display + AllWords>(field: Field, values: &[T]) -> Vec<String> {
    let list = |values: &[T]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    match values {
        [] => vec![format!("-{field}:{}", list(T::all()))],
        values => vec![format!("{field}:{}", list(values))],
    }
}

trait AllWords: Sized + 'static {
    fn all() -> &'static [Self];
}

impl AllWords for crate::JobState {
    fn all() -> &'static [Self] {
        crate::JobState::ALL
    }
}

impl AllWords for crate::Origin {
    fn all() -> &'static [Self] {
        crate::Origin::ALL
    }
}

fn both(terms: &mut Vec<String>, field: Field, names: &Names, always_quoted: bool) {
    for (sign, values) in [("", &names.any_of), ("-", &names.none_of)] {
        if !values.is_empty() {
            let values: Vec<String> = values.iter().map(|value| quoted(value, always_quoted)).collect();
            terms.push(format!("{sign}{field}:{}", values.join(",")));
        }
    }
}

fn quoted(value: &str, always: bool) -> String {
    let plain = !value.contains(|c: char| c.is_whitespace() || matches!(c, ',' | '"' | '\\'));
    match plain && !always {
        true => value.to_owned(),
        false => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

fn span(terms: &mut Vec<String>, field: Field, span: Span, shown: &dyn Fn(i64) -> String) {
    if span.min == span.max && !matches!(field, Field::Id) {
        terms.push(format!("{field}:{}", shown(span.min)));
        return;
    }
    if span.min > i64::MIN && !(field == Field::Duration && span.min == 0) {
        // Lengths are told to the millisecond: `>30s` is what was written, and 30.000001 s is not.
        match field == Field::Duration && span.min % 1_000 == 1 {
            true => terms.push(format!("{field}:>{}", shown(span.min - 1))),
            false => terms.push(format!("{field}:>={}", shown(span.min))),
        }
    }
    if span.max < i64::MAX {
        match field == Field::Duration && span.max % 1_000 == 999 {
            true => terms.push(format!("{field}:<{}", shown(span.max + 1))),
            false => terms.push(format!("{field}:<={}", shown(span.max))),
        }
    }
    if span.min <= 0 && span.max == i64::MAX && field == Field::Duration {
        terms.push(format!("{field}:>=0s"));
    }
}
