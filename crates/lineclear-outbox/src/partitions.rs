//! Partitions: an outbox whose messages are spread over several outboxes by their keys, each with a runner of its own. On PostgreSQL.
//!
//! The partitions of `orders` are the outboxes `orders/0`, `orders/1` and so on. How many there are stands in the database, and the database
//! finds the partition of a message as it is written: programs in any language agree.

use std::sync::Arc;

use crate::error::OutboxError;
use crate::outbox::{Outbox, check_name};
use crate::store::{self, StoreFuture};

/// Most partitions of an outbox.
pub const PARTITIONS_MAX: u32 = 64;

/// The answer of a database that has no partitions.
pub(crate) fn unsupported<'a, T: Send + 'a>() -> StoreFuture<'a, T> {
    let why = "need PostgreSQL: on SQLite and MySQL an outbox has one runner; use several outboxes with names of their own there, and choose \
               one by the key of the message";
    Box::pin(async move { Err(OutboxError::refused("partitions", why.to_owned())) })
}

/// The name of a partition.
pub(crate) fn partition_name(outbox: &str, number: u32) -> String {
    format!("{outbox}/{number}")
}

/// Whether this is the name of a partition of an outbox.
pub(crate) fn is_partition(name: &str) -> bool {
    let Some((outbox, number)) = name.split_once('/') else { return false };
    let is_number = |number: &u32| *number < PARTITIONS_MAX && number.to_string() == name[outbox.len() + 1..];
    check_name(outbox).is_ok() && number.parse::<u32>().is_ok_and(|number| is_number(&number))
}

impl Outbox {
    /// Spreads the messages of this outbox over so many partitions, 1 to 64; with 1 it has none. On PostgreSQL only.
    ///
    /// Each partition has a runner and a lock of its own, and the nodes that run the outbox share them. A message goes to a partition by its key, so
    /// that the order of a key is kept; one without a key goes to any. A program calls this before it starts its runner, as often as it likes: if the
    /// number stays, nothing happens.
    ///
    /// Another number moves keys to other partitions. It is refused while messages of the outbox are ready, waiting or dead. Runners follow it within
    /// seconds. It waits up to five seconds for open transactions that have written messages, and those that begin to write wait behind it.
    pub async fn partitioned(&self, partitions: u32) -> Result<(), OutboxError> {
        self.check_is_whole()?;
        if !(1..=PARTITIONS_MAX).contains(&partitions) {
            let why = format!("must be 1 to {PARTITIONS_MAX}, not {partitions}");
            return Err(OutboxError::refused("partitions", why));
        }
        self.store.set_partitions(&self.name, partitions).await
    }

    /// Its partitions, for people: their messages are counted, listed, replayed and discarded there. Empty if it has none.
    pub async fn partitions(&self) -> Result<Vec<Outbox>, OutboxError> {
        let partitions = self.store.partitions(&self.name).await?;
        Ok((0..partitions).map(|number| Outbox { name: self.partition(number), ..self.clone() }).collect())
    }

    fn partition(&self, number: u32) -> Arc<str> {
        Arc::from(partition_name(&self.name, number))
    }

    /// A partition, with a connection of its own: its runner waits for no other one.
    pub(crate) fn partition_to_run(&self, number: u32) -> Result<Outbox, OutboxError> {
        Ok(Outbox { url: self.url.clone(), name: self.partition(number), store: store::open(&self.url)? })
    }

    /// Programs write to an outbox and run it, and not one of its partitions.
    pub(crate) fn check_is_whole(&self) -> Result<(), OutboxError> {
        check_name(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_partitions_are_those_that_the_database_makes() {
        for name in ["orders/0", "orders/63", "a.b-c_d/7"] {
            assert!(is_partition(name), "{name}");
        }
        for name in [
            "orders",
            "orders/",
            "orders/64",
            "orders/01",
            "orders/+1",
            "orders/1/2",
            "/1",
            "a b/1",
            "orders/x",
        ] {
            assert!(!is_partition(name), "{name}");
        }
        assert!(check_name("orders/0").is_err(), "no outbox can be opened under such a name");
    }
}
