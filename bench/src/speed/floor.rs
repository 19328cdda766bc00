//! The statements of the engine, without it.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use lineclear::Store;
use lineclear::store::NodeId;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use crate::bed::connect;

/// Connections over which the floor is measured.
pub(crate) const CONNECTIONS: usize = 4;
/// What one statement takes.
const BATCH: i64 = 500;
const LEASE_MS: i64 = 30_000;

/// One connection, set up as the store sets up its own.
pub(crate) struct Bare {
    pub(crate) client: Client,
    enqueue: Statement,
    dispatch: Statement,
    settle: Statement,
}

impl Bare {
    pub(crate) async fn connect(store: &Store, url: &str) -> Result<Bare> {
        let client = connect(url).await?;
        client.batch_execute("set plan_cache_mode = force_custom_plan").await?;
        let prepare = async |name: &str| -> Result<Statement> {
            let text = store.statement_text(name).with_context(|| format!("no statement {name}"))?;
            client.prepare(text).await.with_context(|| format!("preparing {name}"))
        };
        let (enqueue, dispatch) = (prepare("enqueue").await?, prepare("dispatch_open").await?);
        let settle = prepare("settle").await?;
        Ok(Bare { client, enqueue, dispatch, settle })
    }

    /// Four of them.
    pub(crate) async fn several(store: &Store, url: &str) -> Result<Vec<Arc<Bare>>> {
        let mut all = Vec::new();
        for _ in 0..CONNECTIONS {
            all.push(Arc::new(Bare::connect(store, url).await?));
        }
        Ok(all)
    }

    /// Takes and completes jobs until there are no more; returns how many.
    pub(crate) async fn drain(&self, node: NodeId) -> Result<u64> {
        let (mut drained, mut from) = (0, i64::MIN);
        loop {
            let asked: [&(dyn ToSql + Sync); 7] = [&"main", &BATCH, &node.0, &LEASE_MS, &false, &true, &from];
            let rows = self.client.query(&self.dispatch, &asked).await?;
            // One row without an id says that there was nothing.
            let taken =
                |name| rows.iter().filter_map(|row| row.get::<_, Option<i64>>(name)).collect::<Vec<_>>();
            let (ids, claims) = (taken("id"), taken_claims(&rows));
            if ids.is_empty() {
                return Ok(drained);
            }
            // It begins where it has been, as the engine does.
            from = rows.last().and_then(|row| row.get("rank")).unwrap_or(from);
            let jobs = ids.len();
            let word = |word: &'static str| vec![word; jobs];
            let (none, delays) = (vec![None::<&str>; jobs], vec![0_i64; jobs]);
            let (verdicts, outcomes) = (word("complete"), word("completed"));
            let columns: [&(dyn ToSql + Sync); 10] =
                [&ids, &claims, &verdicts, &outcomes, &none, &none, &none, &none, &delays, &none];
            let settled = self.client.query(&self.settle, &columns).await?.len();
            ensure!(settled == jobs, "{settled} of {jobs} jobs were settled");
            drained += jobs as u64;
        }
    }

    /// Puts jobs into the queue by one statement.
    pub(crate) async fn enqueue(&self, jobs: usize, route: &str) -> Result<()> {
        let ints = vec![None::<i64>; jobs];
        let times = vec![None::<std::time::SystemTime>; jobs];
        let texts = vec![None::<&str>; jobs];
        let words = |word: &'static str| vec![word; jobs];
        let (origins, kinds, routes) = (words("adhoc"), words(super::KIND), vec![route; jobs]);
        let (inputs, fresh, priorities) =
            (words(super::enqueue::INPUT), vec![false; jobs], vec![0_i64; jobs]);
        let columns: [&(dyn ToSql + Sync); 17] = [
            &ints,
            &ints,
            &times,
            &origins,
            &fresh,
            &kinds,
            &routes,
            &inputs,
            &ints,
            &priorities,
            &times,
            &texts,
            &texts,
            &ints,
            &ints,
            &texts,
            &texts,
        ];
        let queued = self.client.query(&self.enqueue, &columns).await?.len();
        ensure!(queued == jobs, "{queued} of {jobs} jobs were queued");
        Ok(())
    }
}

fn taken_claims(rows: &[tokio_postgres::Row]) -> Vec<i64> {
    rows.iter().filter_map(|row| row.get::<_, Option<i32>>("claim_no").map(i64::from)).collect()
}
