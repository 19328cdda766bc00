//! For receivers: each delivery takes effect once.
//!
//! A receiver calls `once` in the transaction of its effects. If it returns `false`, the message was handled before, and there is nothing to do.
//! The table `lineclear_inbox` is created by [`SCHEMA_SQLITE`] and its siblings. Keep its rows for longer than the sender may try again.

use uuid::Uuid;

use crate::error::OutboxError;

/// Creates the table in SQLite.
pub const SCHEMA_SQLITE: &str = "create table if not exists lineclear_inbox (\
     consumer text not null, delivery_id text not null, \
     received_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)), \
     primary key (consumer, delivery_id)) strict, without rowid";
/// Creates the table in PostgreSQL, in the schema that the search path names first.
pub const SCHEMA_POSTGRES: &str = "create table if not exists lineclear_inbox (\
     consumer text collate \"C\" not null, delivery_id uuid not null, received_at timestamptz not null default now(), \
     primary key (consumer, delivery_id))";
/// Creates the table in MySQL or MariaDB.
pub const SCHEMA_MYSQL: &str = "create table if not exists lineclear_inbox (\
     consumer varbinary(255) not null, delivery_id varbinary(36) not null, received_at datetime(6) not null default current_timestamp(6), \
     primary key (consumer, delivery_id)) engine = InnoDB";

/// `true`: this consumer sees the delivery for the first time. The same delivery in another transaction waits for the end of this one.
#[cfg(feature = "sqlite")]
pub fn once_sqlite(
    transaction: &rusqlite::Transaction<'_>,
    consumer: &str,
    delivery_id: Uuid,
) -> Result<bool, OutboxError> {
    let sql = "insert into lineclear_inbox (consumer, delivery_id) values (?1, ?2) on conflict do nothing";
    let mut insert = transaction.prepare_cached(sql).map_err(OutboxError::failed)?;
    let count =
        insert.execute(rusqlite::params![consumer, delivery_id.to_string()]).map_err(OutboxError::failed)?;
    Ok(count == 1)
}

/// `true`: this consumer sees the delivery for the first time. The same delivery in another transaction waits for the end of this one.
#[cfg(feature = "postgres")]
pub async fn once_postgres(
    transaction: &impl tokio_postgres::GenericClient,
    consumer: &str,
    delivery_id: Uuid,
) -> Result<bool, OutboxError> {
    use tokio_postgres::types::Type;
    let sql = "insert into lineclear_inbox (consumer, delivery_id) values ($1, $2::text::uuid) on conflict do nothing";
    let id = delivery_id.to_string();
    let inserted = transaction.execute_typed(sql, &[(&consumer, Type::TEXT), (&id, Type::TEXT)]).await;
    Ok(inserted.map_err(OutboxError::failed)? == 1)
}

/// `true`: this consumer sees the delivery for the first time. The same delivery in another transaction waits for the end of this one.
#[cfg(feature = "mysql")]
pub async fn once_mysql(
    transaction: &mut mysql_async::Transaction<'_>,
    consumer: &str,
    delivery_id: Uuid,
) -> Result<bool, OutboxError> {
    use mysql_async::prelude::Queryable;
    let sql = "insert ignore into lineclear_inbox (consumer, delivery_id) values (?, ?)";
    let params = (consumer.as_bytes(), delivery_id.to_string().into_bytes());
    transaction.exec_drop(sql, params).await.map_err(OutboxError::failed)?;
    Ok(transaction.affected_rows() == 1)
}
