//! How many partitions an outbox in PostgreSQL has.
//!
//! Writers take no lock for it beside the one on the table of messages, which each has from its first message to its end. A change has a lock that
//! excludes them: while it looks at the messages, there are no others, and a writer that waited for it sees the new number.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, GenericClient};

use super::{Params, PostgresStore, classify, query, sql};
use crate::error::OutboxError;
use crate::partitions::{PARTITIONS_MAX, partition_name};

/// It is longer than the second after which a vacuum gives way.
const LOCK: &str = "begin isolation level read committed; set local lock_timeout = '5s'; lock table {schema}.outbox_message in share row exclusive mode";

impl PostgresStore {
    /// 1: it has none.
    async fn count_partitions(&self, client: &impl GenericClient, outbox: &str) -> Result<u32, OutboxError> {
        let sql = sql(include_str!("../../sql/postgres/outbox_partitions.sql"), self.target.schema());
        let rows = query(client, &sql, &[(&outbox, Type::TEXT)]).await?;
        Ok(rows.first().and_then(|row| u32::try_from(row.get::<_, i32>("partitions")).ok()).unwrap_or(1))
    }

    pub(super) async fn read_partitions(&self, outbox: &str) -> Result<u32, OutboxError> {
        let partitions = self.on(async |client| self.count_partitions(&*client, outbox).await).await?;
        Ok(if partitions > 1 { partitions } else { 0 })
    }

    pub(super) async fn read_partitions_to_run(&self, outbox: &str) -> Result<Option<Vec<u32>>, OutboxError> {
        let sql = sql(include_str!("../../sql/postgres/outbox_partition_numbers.sql"), self.target.schema());
        let last = i64::from(PARTITIONS_MAX - 1);
        let params: &Params<'_> = &[(&outbox, Type::TEXT), (&last, Type::INT8)];
        let rows = self.on(async |client| query(&*client, &sql, params).await).await?;
        Ok(Some(rows.iter().filter_map(|row| u32::try_from(row.get::<_, i64>("n")).ok()).collect()))
    }

    pub(super) async fn change_partitions(&self, outbox: &str, partitions: u32) -> Result<(), OutboxError> {
        self.on(async |client| {
            // Mostly nothing changes: no lock is needed to see that.
            if self.count_partitions(&*client, outbox).await? == partitions {
                return Ok(Ok(()));
            }
            let locked = client.batch_execute(&sql(LOCK, self.target.schema())).await;
            locked.map_err(|error| match error.code() {
                Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => OutboxError::unavailable(
                    "a transaction that has written messages was open for five seconds, and the number of partitions changes only without one: \
                     try again",
                ),
                _ => classify(error),
            })?;
            let changed = self.change_locked(client, outbox, partitions).await?;
            client.batch_execute(if changed.is_ok() { "commit" } else { "rollback" }).await.map_err(classify)?;
            Ok(changed)
        })
        .await?
    }

    async fn change_locked(
        &self,
        client: &Client,
        outbox: &str,
        partitions: u32,
    ) -> Result<Result<(), OutboxError>, OutboxError> {
        // Another process may have changed it meanwhile.
        let before = self.count_partitions(client, outbox).await?;
        if before == partitions {
            return Ok(Ok(()));
        }
        let names: Vec<String> = (0..PARTITIONS_MAX).map(|number| partition_name(outbox, number)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).chain([outbox]).collect();
        let empty = sql(include_str!("../../sql/postgres/outbox_partition_empty.sql"), self.target.schema());
        let rows = query(client, &empty, &[(&names, Type::TEXT_ARRAY)]).await?;
        if !rows.first().is_some_and(|row| row.get("empty")) {
            let why = format!(
                "cannot change from {before} to {partitions} while messages of {outbox:?} are ready, waiting or dead: the order of their keys \
                 would break; keep its runner running until all are delivered, replay or discard dead ones, and try again"
            );
            return Ok(Err(OutboxError::refused("partitions", why)));
        }
        let count = i64::from(partitions);
        let set = sql(include_str!("../../sql/postgres/outbox_partition_set.sql"), self.target.schema());
        let unset = sql(include_str!("../../sql/postgres/outbox_partition_unset.sql"), self.target.schema());
        match partitions {
            1 => query(client, &unset, &[(&outbox, Type::TEXT)]).await?,
            _ => query(client, &set, &[(&outbox, Type::TEXT), (&count, Type::INT8)]).await?,
        };
        Ok(Ok(()))
    }
}
