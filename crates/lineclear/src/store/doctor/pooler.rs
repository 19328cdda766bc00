//! What is between us and PostgreSQL. A transaction pooler gives its sessions to whoever has a transaction: two connections of ours meet
//! in one session, or one sees several. Nothing is set or left behind to find that out.

use lineclear_model::doctor::Check;
use lineclear_model::doctor::database::{self, Pooler};

use crate::store::db::{Db, Postgres, Session, Value};
use crate::store::sql::Statement;
use crate::store::verbs::no_answer;
use crate::store::{Store, StoreError, StoreResult};

/// A pooler with many sessions at hand may give the same one again by chance.
const TRIES: u32 = 3;

impl Store {
    pub(super) async fn pooler_check(&self) -> StoreResult<Check> {
        let Db::Postgres(db) = &self.db else { return Err(no_answer("pooler")) };
        let (said, mut seen) = (self.options.behind_pooler(), false);
        for _ in 0..TRIES {
            seen = seen || sessions_move(db).await?;
        }
        let settings_arrive = self.plan_cache_mode().await? == "force_custom_plan";
        Ok(database::pooler(Pooler { said, seen, settings_arrive }))
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
