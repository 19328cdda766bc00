//! Whether every sequence is past the ids that are in use.

use lineclear_model::doctor::Check;
use lineclear_model::doctor::schema::{self, Sequence};

use crate::db::statements::Statement;
use crate::db::values;
use crate::store::{Store, StoreResult};

impl Store {
    pub(crate) async fn sequences_check(&self) -> StoreResult<Check> {
        let rows = self.bounded(Statement::Sequences, values![]).await?;
        let sequence = |row: &crate::db::Row| {
            Ok(Sequence { name: row.get("name")?, last: row.get("last")?, highest: row.get("highest")? })
        };
        let sequences: Vec<Sequence> = rows.iter().map(sequence).collect::<StoreResult<_>>()?;
        Ok(schema::sequences(&sequences, self.options.is_postgres()))
    }
}
