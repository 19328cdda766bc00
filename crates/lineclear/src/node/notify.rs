//! Wake-ups: a hint to other nodes, never needed for anything but speed.

use crate::db::statements::Statement;
use crate::db::{Db, Session, Value, Verb};
use crate::store::{Listening, Store, StoreResult};

/// What a hint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// There may be work.
    Work,
    /// Standing orders have changed: something may be due earlier than planners think.
    Orders,
    /// Nodes were told something.
    Nodes,
}

impl Hint {
    const fn as_str(self) -> &'static str {
        match self {
            Hint::Work => "",
            Hint::Orders => "orders",
            Hint::Nodes => "nodes",
        }
    }

    pub(crate) fn of(payload: &str) -> Hint {
        let known = [Hint::Orders, Hint::Nodes].into_iter().find(|hint| hint.as_str() == payload);
        known.unwrap_or(Hint::Work)
    }
}

/// Verb: tell other nodes.
pub(crate) struct Notify {
    pub(crate) channel: String,
    pub(crate) hint: Hint,
}

impl Verb for Notify {
    type Answer = ();

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        let params =
            vec![Value::Text(Some(self.channel.clone())), Value::Text(Some(self.hint.as_str().to_owned()))];
        session.rows(Statement::Notify, params).await.map(drop)
    }
}

impl Store {
    /// Tells other nodes that there may be work.
    pub async fn notify(&self) -> StoreResult<()> {
        self.run(Notify { channel: self.options.channel(), hint: Hint::Work }).await
    }

    /// Calls `work` whenever another node says that there may be work, until the connection ends. Returns at once where
    /// there is nothing to listen to: on SQLite, and behind a transaction pooler.
    pub(crate) async fn listen(&self, work: impl Fn()) -> StoreResult<Listening> {
        let wake = |hint| match hint {
            Hint::Work => work(),
            Hint::Orders => self.orders.send_replace(()),
            Hint::Nodes => self.nodes_told.send_replace(()),
        };
        match &self.db {
            Db::Postgres(db) if !self.options.behind_pooler() => {
                db.listen(&self.options.channel(), wake).await.map(|()| Listening::Ended)
            }
            _ => Ok(Listening::Impossible),
        }
    }
}
