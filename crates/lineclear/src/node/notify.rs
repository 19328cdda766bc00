//! Notifications to other nodes. They only save time: a node that misses one finds the work by polling.

use tokio::sync::watch;

use crate::db::statements::Statement;
use crate::db::{Db, Query, values};
use crate::store::{Listening, Store, StoreResult};

/// What a notification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// There may be work.
    Work,
    /// Manifests have changed: one may be due earlier than the planners expect.
    Manifests,
    /// A node was told to drain or to resume.
    Nodes,
}

impl Hint {
    const fn as_str(self) -> &'static str {
        match self {
            Hint::Work => "",
            Hint::Manifests => "manifests",
            Hint::Nodes => "nodes",
        }
    }

    pub(crate) fn of(payload: &str) -> Hint {
        let known = [Hint::Manifests, Hint::Nodes].into_iter().find(|hint| hint.as_str() == payload);
        known.unwrap_or(Hint::Work)
    }
}

impl Store {
    /// Notifies other nodes that there may be work.
    pub async fn notify(&self) -> StoreResult<()> {
        self.send_hint(Hint::Work).await
    }

    pub(crate) async fn send_hint(&self, hint: Hint) -> StoreResult<()> {
        let params = values![self.options.channel(), hint.as_str()];
        self.run(Query::execute(Statement::Notify, params)).await
    }

    /// Notifies planners, here and on other nodes, that a manifest may be due earlier than they expect. Only a hint: a planner
    /// that misses it finds the change by polling.
    pub(crate) async fn notify_manifests_changed(&self) {
        self.manifests_changed.send_replace(());
        if matches!(self.db, Db::Postgres(_))
            && let Err(error) = self.send_hint(Hint::Manifests).await
        {
            tracing::debug!(%error, "cannot notify other planners; they find the change by polling");
        }
    }

    /// Changes whenever manifests do.
    pub(crate) fn manifests_changed(&self) -> watch::Receiver<()> {
        self.manifests_changed.subscribe()
    }

    /// Calls `work` whenever another node notifies of work, until the connection ends. Returns at once where there are no
    /// notifications: on SQLite, and behind a transaction pooler.
    pub(crate) async fn listen(&self, work: impl Fn()) -> StoreResult<Listening> {
        let wake = |hint| match hint {
            Hint::Work => work(),
            Hint::Manifests => self.manifests_changed.send_replace(()),
            Hint::Nodes => self.drains_changed.send_replace(()),
        };
        match &self.db {
            Db::Postgres(db) if !self.options.behind_pooler() => {
                db.listen(&self.options.channel(), wake).await.map(|()| Listening::Ended)
            }
            _ => Ok(Listening::Impossible),
        }
    }
}
