//! Detects a transaction pooler in front of PostgreSQL. A pooler assigns a server session to each transaction: two connections
//! of the pool then share one session, or one connection sees several. The check sets nothing and leaves nothing behind.

use std::time::Duration;

use lineclear_model::doctor::database::{self, Pooler};
use lineclear_model::doctor::{Check, CheckName};

use crate::db::statements::Statement;
use crate::db::{Db, Postgres, Session, values};
use crate::error::no_answer;
use crate::store::{Store, StoreError, StoreResult};

/// Attempts: a pooler with many free sessions may assign the same one again by chance.
const ATTEMPTS: u32 = 3;
/// The time for all attempts, including the wait for connections.
const TIMEOUT: Duration = Duration::from_secs(3);

impl Store {
    pub(crate) async fn pooler_check(&self) -> StoreResult<Check> {
        let Db::Postgres(db) = &self.db else { return Err(no_answer("pooler")) };
        if self.options.connections_max() < 2 {
            let why = "skipped: the check needs two connections, and the store is limited to one";
            return Ok(Check::skipped(CheckName::Pooler, why));
        }
        let check = tokio::time::timeout(TIMEOUT, async {
            // One check at a time: all other users of the pool hold one connection each, and return it.
            let _guard = self.pooler_check.lock().await;
            self.sessions_moved(db).await
        });
        let Ok(detected) = check.await else {
            return Ok(Check::not_checked(CheckName::Pooler, "all connections of the store are in use"));
        };
        let (said, seen) = (self.options.behind_pooler(), detected?);
        let settings_arrive = self.plan_cache_mode().await? == "force_custom_plan";
        Ok(database::pooler(Pooler { said, seen, settings_arrive }))
    }

    async fn sessions_moved(&self, db: &Postgres) -> StoreResult<bool> {
        for _ in 0..ATTEMPTS {
            if sessions_move(db).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a connection changes its session while another one has a transaction.
async fn sessions_move(db: &Postgres) -> StoreResult<bool> {
    let mut ours = Session::Postgres(db.session(false).await?);
    let first = session_of(&mut ours).await;
    let mut other = Session::Postgres(db.session(true).await?);
    let theirs = session_of(&mut other).await;
    let second = session_of(&mut ours).await;
    if let Session::Postgres(other) = &mut other {
        other.roll_back().await;
    }
    match (first, theirs, second) {
        (Ok(first), Ok(theirs), Ok(second)) => Ok(first == theirs || first != second),
        (Err(error @ StoreError::Unavailable { .. }), ..)
        | (_, Err(error @ StoreError::Unavailable { .. }), _)
        | (.., Err(error @ StoreError::Unavailable { .. })) => Err(error),
        // A statement that was prepared in one session is unknown in the next.
        _ => Ok(true),
    }
}

async fn session_of(session: &mut Session) -> StoreResult<i64> {
    let rows = session.rows(Statement::ServerSession, values![]).await?;
    rows.first().ok_or_else(|| no_answer("server_session"))?.get("session")
}
