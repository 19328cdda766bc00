//! Rows of statements: cells by the names of their columns.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A value of a row.
#[derive(Clone, Debug, Default)]
pub(crate) enum Cell {
    #[default]
    Null,
    Int(i64),
    Text(String),
    #[cfg(feature = "postgres")]
    Texts(Vec<String>),
}

/// A row. What a statement does not return reads as null.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    columns: Arc<[String]>,
    cells: Vec<Cell>,
}

impl Row {
    pub(crate) fn new(columns: Arc<[String]>, cells: Vec<Cell>) -> Row {
        Row { columns, cells }
    }

    fn cell(&mut self, name: &str) -> Cell {
        let at = self.columns.iter().position(|column| column == name);
        at.and_then(|at| self.cells.get_mut(at)).map(std::mem::take).unwrap_or_default()
    }

    /// A number. Cells are taken out of the row: each can be read once.
    pub(crate) fn int(&mut self, name: &str) -> Option<i64> {
        match self.cell(name) {
            Cell::Int(number) => Some(number),
            _ => None,
        }
    }

    /// A number that is not null.
    pub(crate) fn number(&mut self, name: &str) -> i64 {
        self.int(name).unwrap_or(0)
    }

    /// A number that is not negative.
    pub(crate) fn count(&mut self, name: &str) -> u64 {
        u64::try_from(self.number(name)).unwrap_or(0)
    }

    pub(crate) fn flag(&mut self, name: &str) -> bool {
        self.number(name) != 0
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        match self.cell(name) {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A list: an array, or JSON.
    pub(crate) fn texts(&mut self, name: &str) -> Vec<String> {
        match self.cell(name) {
            #[cfg(feature = "postgres")]
            Cell::Texts(texts) => texts,
            Cell::Text(json) => serde_json::from_str(&json).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// A duration in microseconds.
    pub(crate) fn duration(&mut self, name: &str) -> Duration {
        Duration::from_micros(self.count(name))
    }

    /// A time in microseconds since 1970.
    pub(crate) fn time(&mut self, name: &str) -> Option<SystemTime> {
        let micros = self.int(name)?;
        Some(SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
    }
}
