//! Watches the held locks from a connection of its own, with one query for all of them: if the connection of a lock was killed, its holder learns
//! it long before the next renewal. The locks' own connections are not used, since a query on them would reset the idle timer that ends the
//! lock of a holder that does not renew.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};

use super::Inner;
use super::session::Session;
use super::slot::Slot;
use crate::error::LockError;
use crate::timely::timely;

/// The pause between two checks.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long to wait for an answer; a missing answer proves nothing.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Locks per query.
const CHUNK: usize = 200;

pub(super) async fn watch(inner: Weak<Inner>) {
    let mut connection = None;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(inner) = inner.upgrade() else { return };
        // Close idle connections before the server does so and logs a warning.
        inner.idle().retain(Session::is_fresh);
        let held: Vec<_> =
            inner.held().values().filter(|slot| slot.granted_to().is_some()).cloned().collect();
        if held.is_empty() {
            connection = None;
            continue;
        }
        let was_well = connection.is_some();
        let check = async { read(&inner, &mut connection, &held).await.map_err(LockError::unavailable) };
        if let Err(error) = timely(REQUEST_TIMEOUT, check).await {
            connection = None;
            if was_well {
                tracing::debug!(%error, "the connection that watches the locks has ended");
                // What ended it may have ended the locks' connections.
                held.into_iter().for_each(|slot| drop(tokio::spawn(confirm(slot))));
            }
        }
    }
}

/// Checks who holds our locks, and signals the loss of those that we do not hold.
async fn read(inner: &Inner, connection: &mut Option<Conn>, held: &[Arc<Slot>]) -> Result<(), Error> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(Conn::new(inner.opts.clone()).await?),
    };
    for some in held.chunks(CHUNK) {
        let asks: Vec<_> = some.iter().map(|slot| format!("select is_used_lock('{}')", slot.key())).collect();
        let holders: Vec<Option<u64>> = connection.query(asks.join(" union all ")).await?;
        for (slot, holder) in some.iter().zip(holders) {
            if holder != slot.granted_to() {
                slot.signal_loss();
            }
        }
    }
    Ok(())
}

async fn confirm(slot: Arc<Slot>) {
    // A request on its connection is already running, and will notice.
    if let Ok(mut session) = slot.session().try_lock_owned() {
        drop(slot.confirm(&mut session).await);
    }
}
