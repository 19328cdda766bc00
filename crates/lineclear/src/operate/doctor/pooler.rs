//! What is between us and PostgreSQL. A transaction pooler gives its sessions to whoever has a transaction: two connections of ours meet
//! in one session, or one sees several. Nothing is set or left behind to find that out.

use std::time::Duration;

use lineclear_model::doctor::database::{self, Pooler};
use lineclear_model::doctor::{Check, CheckName};

use crate::db::statements::Statement;
use crate::db::{Db, Postgres, Session, Value};
use crate::error::no_answer;
use crate::store::{Store, StoreError, StoreResult};

/// A pooler with many sessions at hand may give the same one again by chance.
const TRIES: u32 = 3;
/// All of them, with the wait for connections.
const WITHIN: Duration = Duration::from_secs(3);

impl Store {
    pub(crate) async fn pooler_check(&self) -> StoreResult<Check> {
        let Db::Postgres(db) = &self.db else { return Err(no_answer("pooler")) };
        if self.options.connections_max() < 2 {
            let why = "not looked for: that takes two connections, and the store may have one";
            return Ok(Check::skipped(CheckName::Pooler, why));
        }
        let looked = tokio::time::timeout(WITHIN, async {
            // One at a time: others who hold a connection want no second one, and give theirs back.
            let _turn = self.looks_for_pooler.lock().await;
            self.sessions_moved(db).await
        });
        let Ok(seen) = looked.await else {
            return Ok(Check::not_checked(CheckName::Pooler, "connections of the store are all in use"));
        };
        let (said, seen) = (self.options.behind_pooler(), seen?);
        let settings_arrive = self.plan_cache_mode().await? == "force_custom_plan";
        Ok(database::pooler(Pooler { said, seen, settings_arrive }))
    }

    async fn sessions_moved(&self, db: &Postgres) -> StoreResult<bool> {
        for _ in 0..TRIES {
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
        // It was prepared in one session, and is unknown in the next.
        _ => Ok(true),
    }
}

async fn session_of(session: &mut Session) -> StoreResult<i64> {
    let rows = session.rows(Statement::ServerSession, Vec::<Value>::new()).await?;
    rows.first().ok_or_else(|| no_answer("server_session"))?.get("session")
}
