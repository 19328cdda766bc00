//! Which events a subscription wants.

use crate::database::Value;
use crate::error::OutboxError;

use super::event::check_name;

/// Names of each kind in a filter.
pub const FILTER_MAX: usize = 1_000;

/// Which events: of these types and these streams. The database applies it. Empty: all.
///
/// ```
/// use lineclear_outbox::Filter;
///
/// let filter = Filter::all().kinds(["order.placed", "refund.*"]).streams(["order-*"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Filter {
    kinds: Vec<String>,
    streams: Vec<String>,
}

impl Filter {
    /// All events.
    pub fn all() -> Filter {
        Filter::default()
    }

    /// Only events of these types; `order.*` stands for all types that begin with `order.`.
    #[must_use]
    pub fn kinds<S: Into<String>>(mut self, kinds: impl IntoIterator<Item = S>) -> Filter {
        self.kinds.extend(kinds.into_iter().map(Into::into));
        self
    }

    /// Only events of these streams; `order-*` stands for all streams that begin with `order-`.
    #[must_use]
    pub fn streams<S: Into<String>>(mut self, streams: impl IntoIterator<Item = S>) -> Filter {
        self.streams.extend(streams.into_iter().map(Into::into));
        self
    }

    /// Checks it; the error names the invalid part.
    pub(crate) fn check(&self) -> Result<(), OutboxError> {
        for (what, names) in [("filter.kinds", &self.kinds), ("filter.streams", &self.streams)] {
            if names.len() > FILTER_MAX {
                return Err(OutboxError::refused(what, format!("must be at most {FILTER_MAX} names")));
            }
            names.iter().try_for_each(|name| check_name(what, name))?;
        }
        Ok(())
    }

    /// Parameters of a statement: types, beginnings of types, streams, beginnings of streams.
    pub(crate) fn values(&self) -> [Value; 4] {
        let split = |names: &[String]| {
            let (begin, whole): (Vec<&String>, Vec<&String>) =
                names.iter().partition(|name| name.ends_with('*'));
            let begin = begin.into_iter().map(|name| name.trim_end_matches('*').to_owned()).collect();
            (Value::Texts(whole.into_iter().cloned().collect()), Value::Texts(begin))
        };
        let ((kinds, kinds_begin), (streams, streams_begin)) = (split(&self.kinds), split(&self.streams));
        [kinds, kinds_begin, streams, streams_begin]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_beginnings_are_told_apart_and_bad_ones_are_refused() {
        let filter = Filter::all().kinds(["a", "b.*"]).streams(["*"]);
        filter.check().unwrap();
        let shown = format!("{:?}", filter.values());
        assert_eq!(shown, r#"[Texts(["a"]), Texts(["b."]), Texts([]), Texts([""])]"#);
        for bad in [Filter::all().kinds([""]), Filter::all().streams(["a\0"])] {
            assert!(bad.check().unwrap_err().to_string().starts_with("refused by filter."));
        }
        let many = Filter::all().kinds((0..=FILTER_MAX).map(|n| n.to_string()));
        assert!(many.check().is_err());
    }
}
