//! Parameters and columns, the same for all databases.

use crate::error::LockError;

/// A parameter or a column; `None` is null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
    /// The name of a lock or of its store. It is kept as bytes where the database compares text without regard to case.
    Name(Option<String>),
}

impl Value {
    pub(super) fn name(name: impl Into<String>) -> Value {
        Value::Name(Some(name.into()))
    }

    pub(super) fn text(text: impl Into<String>) -> Value {
        Value::Text(Some(text.into()))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(Some(number))
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Value {
        Value::Int(number)
    }
}

impl From<Option<&str>> for Value {
    fn from(text: Option<&str>) -> Value {
        Value::Text(text.map(str::to_owned))
    }
}

/// The parameters of a statement, by name and in the order of their numbers.
pub(super) type Params = Vec<(&'static str, Value)>;

/// A row that was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Row(Vec<(String, Value)>);

impl FromIterator<(String, Value)> for Row {
    fn from_iter<T: IntoIterator<Item = (String, Value)>>(columns: T) -> Row {
        Row(columns.into_iter().collect())
    }
}

impl Row {
    /// A number that may be null.
    pub(super) fn maybe_int(&self, column: &str) -> Result<Option<i64>, LockError> {
        match self.column(column)? {
            Value::Int(number) => Ok(*number),
            other => Err(LockError::failed(format!("column {column} must be a number, not {other:?}"))),
        }
    }

    pub(super) fn int(&self, column: &str) -> Result<i64, LockError> {
        self.maybe_int(column)?.ok_or_else(|| null(column))
    }

    /// Text that may be null.
    pub(super) fn maybe_text(&self, column: &str) -> Result<Option<String>, LockError> {
        match self.column(column)? {
            Value::Text(text) | Value::Name(text) => Ok(text.clone()),
            // Some drivers do not say of which type a null is.
            Value::Int(None) => Ok(None),
            other => Err(LockError::failed(format!("column {column} must be text, not {other:?}"))),
        }
    }

    pub(super) fn text(&self, column: &str) -> Result<String, LockError> {
        self.maybe_text(column)?.ok_or_else(|| null(column))
    }

    fn column(&self, column: &str) -> Result<&Value, LockError> {
        let found = self.0.iter().find(|(name, _)| name == column);
        found
            .map(|(_, value)| value)
            .ok_or_else(|| LockError::failed(format!("the server's answer has no column {column}")))
    }
}

fn null(column: &str) -> LockError {
    LockError::failed(format!("column {column} must not be null"))
}
