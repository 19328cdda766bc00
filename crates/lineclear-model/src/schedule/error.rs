//! Why a schedule was refused, and where.

use std::fmt;

/// An invalid schedule: the field that is wrong, what is wrong with it, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSchedule {
    /// The field as manifests spell it: `cron`, `every`, `tz`, …
    pub field: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do instead.
    pub hint: Option<String>,
    /// The wrong part of the expression, if one part can be named.
    pub at: Option<Place>,
}

/// A part of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The whole expression.
    pub text: String,
    /// Where the part starts, in characters from 0.
    pub from: usize,
    /// How many characters it has.
    pub len: usize,
}

impl BadSchedule {
    pub(crate) fn new(field: &'static str, message: impl Into<String>) -> BadSchedule {
        BadSchedule { field, message: message.into(), hint: None, at: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> BadSchedule {
        BadSchedule { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn at(self, text: &str, from: usize, len: usize) -> BadSchedule {
        BadSchedule { at: Some(Place { text: text.to_owned(), from, len: len.max(1) }), ..self }
    }

    /// The expression with the wrong part underlined, on two lines.
    pub fn picture(&self) -> Option<String> {
        let Place { text, from, len } = self.at.as_ref()?;
        Some(format!("{text}\n{}{}", " ".repeat(*from), "^".repeat(*len)))
    }
}

impl fmt::Display for BadSchedule {
    /// One line, for logs and answers; [`BadSchedule::picture`] is for people at a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)?;
        if let Some(place) = &self.at {
            write!(f, " (at position {})", place.from + 1)?;
        }
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BadSchedule {}
