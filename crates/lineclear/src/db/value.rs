//! Parameters and rows, in one form for both databases.

use lineclear_model::{Micros, Name};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::store::StoreError;

/// One parameter.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Int(Option<i64>),
    Bool(bool),
    Text(Option<String>),
    Time(Option<Micros>),
    Ints(Vec<i64>),
    Texts(Vec<String>),
    /// A list that may be absent, as a filter.
    MaybeTexts(Option<Vec<String>>),
}

macro_rules! value_from {
    ($($ty:ty => $make:expr,)+) => { $(impl From<$ty> for Value {
        fn from(value: $ty) -> Value {
            ($make)(value)
        }
    })+ };
}
value_from! {
    i64 => |v| Value::Int(Some(v)),
    Option<i64> => Value::Int,
    u32 => |v| Value::Int(Some(i64::from(v))),
    u64 => |v| Value::Int(Some(i64::try_from(v).unwrap_or(i64::MAX))),
    Option<u32> => |v: Option<u32>| Value::Int(v.map(i64::from)),
    bool => Value::Bool,
    &str => |v: &str| Value::Text(Some(v.to_owned())),
    Option<&str> => |v: Option<&str>| Value::Text(v.map(str::to_owned)),
    &String => |v: &String| Value::Text(Some(v.clone())),
    String => |v| Value::Text(Some(v)),
    Option<String> => Value::Text,
    &Name => |v: &Name| Value::Text(Some(v.to_string())),
    Micros => |v| Value::Time(Some(v)),
    Option<Micros> => Value::Time,
    Vec<i64> => Value::Ints,
    Vec<String> => Value::Texts,
}

/// The parameters of a statement, each as the value it is.
macro_rules! values {
    () => { Vec::<$crate::db::Value>::new() };
    ($($value:expr),* $(,)?) => { vec![$($crate::db::Value::from($value)),*] };
}
pub(crate) use values;

/// One column of a batch. PostgreSQL gets an array per column and unnests them; SQLite gets one JSON text of rows.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    Ints(Vec<Option<i64>>),
    Bools(Vec<bool>),
    Texts(Vec<Option<String>>),
    Times(Vec<Option<Micros>>),
}

/// The parameters of a statement: single values first, then the columns of a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params {
    pub(crate) values: Vec<Value>,
    pub(crate) batch: Vec<Column>,
}

impl From<Vec<Value>> for Params {
    fn from(values: Vec<Value>) -> Params {
        Params { values, batch: Vec::new() }
    }
}

impl From<Vec<Column>> for Params {
    fn from(batch: Vec<Column>) -> Params {
        Params { values: Vec::new(), batch }
    }
}

fn timestamp(at: &Option<Micros>) -> Option<jiff::Timestamp> {
    at.map(Micros::timestamp)
}

impl Value {
    pub(crate) fn pg_type(&self) -> Type {
        match self {
            Value::Int(_) => Type::INT8,
            Value::Bool(_) => Type::BOOL,
            Value::Text(_) => Type::TEXT,
            Value::Time(_) => Type::TIMESTAMPTZ,
            Value::Ints(_) => Type::INT8_ARRAY,
            Value::Texts(_) | Value::MaybeTexts(_) => Type::TEXT_ARRAY,
        }
    }
}

impl Column {
    pub(crate) fn pg_type(&self) -> Type {
        match self {
            Column::Ints(_) => Type::INT8_ARRAY,
            Column::Bools(_) => Type::BOOL_ARRAY,
            Column::Texts(_) => Type::TEXT_ARRAY,
            Column::Times(_) => Type::TIMESTAMPTZ_ARRAY,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Column::Ints(v) => v.len(),
            Column::Bools(v) => v.len(),
            Column::Texts(v) => v.len(),
            Column::Times(v) => v.len(),
        }
    }

    /// The cell of row `at`, as SQLite's JSON functions read it.
    pub(crate) fn json(&self, at: usize) -> serde_json::Value {
        match self {
            Column::Ints(v) => v[at].into(),
            Column::Bools(v) => i64::from(v[at]).into(),
            Column::Texts(v) => v[at].clone().into(),
            Column::Times(v) => v[at].map(Micros::get).into(),
        }
    }
}

type SqlError = Box<dyn std::error::Error + Sync + Send>;

impl ToSql for Value {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut tokio_postgres::types::private::BytesMut,
    ) -> Result<IsNull, SqlError> {
        match self {
            Value::Int(v) => v.to_sql(ty, out),
            Value::Bool(v) => v.to_sql(ty, out),
            Value::Text(v) => v.to_sql(ty, out),
            Value::Time(v) => timestamp(v).to_sql(ty, out),
            Value::Ints(v) => v.to_sql(ty, out),
            Value::Texts(v) => v.to_sql(ty, out),
            Value::MaybeTexts(v) => v.to_sql(ty, out),
        }
    }
    fn accepts(_: &Type) -> bool {
        true
    }
    to_sql_checked!();
}

impl ToSql for Column {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut tokio_postgres::types::private::BytesMut,
    ) -> Result<IsNull, SqlError> {
        match self {
            Column::Ints(v) => v.to_sql(ty, out),
            Column::Bools(v) => v.to_sql(ty, out),
            Column::Texts(v) => v.to_sql(ty, out),
            Column::Times(v) => v.iter().map(timestamp).collect::<Vec<_>>().to_sql(ty, out),
        }
    }
    fn accepts(_: &Type) -> bool {
        true
    }
    to_sql_checked!();
}

/// A value of a row. Times are microseconds, booleans 0 and 1, on both databases.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
}

/// One row of a result.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) names: std::sync::Arc<[String]>,
    pub(crate) cells: Vec<Cell>,
}

impl Row {
    /// The value of a column as the expected type; anything else is corrupt.
    pub(crate) fn get<T: FromCell>(&self, column: &'static str) -> Result<T, StoreError> {
        let at = self.names.iter().position(|name| name == column);
        let cell = at.map(|at| &self.cells[at]);
        cell.and_then(T::from_cell).ok_or_else(|| StoreError::Corrupt {
            what: format!("column {column} holds {}, which is not what was written", shape(cell)),
        })
    }

    /// A column that holds one of a set of words.
    pub(crate) fn word<T>(
        &self,
        column: &'static str,
        parse: fn(&str) -> Option<T>,
    ) -> Result<T, StoreError> {
        let word: String = self.get(column)?;
        parse(&word).ok_or_else(|| {
            let what =
                format!("column {column} holds {} that cannot be read", shape(Some(&Cell::Text(word))));
            StoreError::Corrupt { what }
        })
    }
}

/// The type of a cell's value. The value itself may be an input, and must not appear in errors and logs.
fn shape(cell: Option<&Cell>) -> String {
    match cell {
        None => "nothing".to_owned(),
        Some(Cell::Null) => "null".to_owned(),
        Some(Cell::Int(_)) => "a number".to_owned(),
        Some(Cell::Text(text)) => format!("a text of {} bytes", text.len()),
    }
}

/// A Rust type that a cell can become.
pub(crate) trait FromCell: Sized {
    fn from_cell(cell: &Cell) -> Option<Self>;
}

macro_rules! from_int {
    ($($ty:ty)+) => { $(impl FromCell for $ty {
        fn from_cell(cell: &Cell) -> Option<Self> {
            match cell { Cell::Int(v) => <$ty>::try_from(*v).ok(), _ => None }
        }
    })+ };
}
from_int!(i64 u64 u32 u16 u8 usize);

impl FromCell for bool {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Int(0) => Some(false),
            Cell::Int(1) => Some(true),
            _ => None,
        }
    }
}

impl FromCell for Micros {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).and_then(Micros::new)
    }
}

impl FromCell for String {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Text(v) => Some(v.clone()),
            _ => None,
        }
    }
}

/// A JSON list of numbers.
impl FromCell for Vec<i64> {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Text(v) => serde_json::from_str(v).ok(),
            _ => None,
        }
    }
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            other => T::from_cell(other).map(Some),
        }
    }
}
