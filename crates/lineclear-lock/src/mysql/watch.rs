//! Looks after the locks that are held, from a connection of its own: one question for all of them. A lock whose
//! connection was ended by somebody is lost long before its renewal would have told. The locks' own connections are not
//! used for it, since every word on them would make the server wait longer for a holder that does not renew.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};

use super::session::Session;
use super::slot::Slot;
use super::{Inner, slot};
use crate::error::LockError;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(500);
/// How long it waits for an answer; that there is none proves nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How many locks are asked for at once.
const AT_ONCE: usize = 200;

pub(super) async fn watch(inner: Weak<Inner>) {
    let mut connection = None;
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(inner) = inner.upgrade() else { return };
        // Those that nobody used for long are closed by us, before the server does it and complains.
        inner.idle().retain(Session::is_fresh);
        let held: Vec<_> =
            inner.held().values().filter(|slot| slot.granted_to().is_some()).cloned().collect();
        if held.is_empty() {
            connection = None;
            continue;
        }
        let was_well = connection.is_some();
        let look = async { read(&inner, &mut connection, &held).await.map_err(LockError::unavailable) };
        if let Err(error) = slot::within(ANSWER_WITHIN, look).await {
            connection = None;
            if was_well {
                tracing::debug!(%error, "the watch over the locks has lost its connection");
                // What ended it may have ended others.
                held.into_iter().for_each(|slot| drop(tokio::spawn(confirm(slot))));
            }
        }
    }
}

/// Asks who holds our locks, and rings for those that another holds, or nobody.
async fn read(inner: &Inner, connection: &mut Option<Conn>, held: &[Arc<Slot>]) -> Result<(), Error> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(Conn::new(inner.opts.clone()).await?),
    };
    for some in held.chunks(AT_ONCE) {
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
    // One that is being asked already will tell.
    if let Ok(mut session) = slot.session().try_lock_owned() {
        drop(slot.confirm(&mut session).await);
    }
}
