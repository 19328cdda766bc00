//! The baseline: the SQL statements of the engine, without the engine.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use lineclear::Store;
use lineclear::store::NodeId;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use crate::scratch_db::connect;

/// Connections of the baseline.
pub(crate) const CONNECTIONS: usize = 4;
/// Jobs per statement.
const BATCH: i64 = 500;
const LEASE_MS: i64 = 30_000;

/// A connection with the settings of the store.
pub(crate) struct BareConnection {
    pub(crate) client: Client,
    enqueue: Statement,
    dispatch: Statement,
    settle: Statement,
}

impl BareConnection {
    pub(crate) async fn connect(store: &Store, url: &str) -> Result<BareConnection> {
        let client = connect(url).await?;
        client.batch_execute("set plan_cache_mode = force_custom_plan").await?;
        let prepare = async |name: &str| -> Result<Statement> {
            let text = store.statement_text(name).with_context(|| format!("no statement {name}"))?;
            client.prepare(text).await.with_context(|| format!("preparing {name}"))
        };
        let (enqueue, dispatch) = (prepare("enqueue").await?, prepare("dispatch_open").await?);
        let settle = prepare("settle").await?;
        Ok(BareConnection { client, enqueue, dispatch, settle })
    }

    /// Opens [`CONNECTIONS`] connections.
    pub(crate) async fn connect_all(store: &Store, url: &str) -> Result<Vec<Arc<BareConnection>>> {
        let mut all = Vec::new();
        for _ in 0..CONNECTIONS {
            all.push(Arc::new(BareConnection::connect(store, url).await?));
        }
        Ok(all)
    }

    /// Dispatches and completes jobs until there are none; returns how many.
    pub(crate) async fn drain(&self, node: NodeId) -> Result<u64> {
        let (mut drained, mut from) = (0, i64::MIN);
        loop {
            // As a dispatcher that reads all groups of the gated lane, of which there are none.
            let (all_groups, groups, groups_max) = (true, Vec::<i64>::new(), 100_i64);
            let leased_ahead = false;
            let asked: [&(dyn ToSql + Sync); 11] = [
                &"main",
                &BATCH,
                &node.0,
                &LEASE_MS,
                &false,
                &true,
                &from,
                &all_groups,
                &groups,
                &groups_max,
                &leased_ahead,
            ];
            let rows = self.client.query(&self.dispatch, &asked).await?;
            // A row without an id means that there was no job.
            let taken =
                |name| rows.iter().filter_map(|row| row.get::<_, Option<i64>>(name)).collect::<Vec<_>>();
            let (ids, claims) = (taken("id"), taken_claims(&rows));
            if ids.is_empty() {
                return Ok(drained);
            }
            // Continues after the last rank, as the engine does.
            from = rows.last().and_then(|row| row.get("rank")).unwrap_or(from);
            let jobs = ids.len();
            let word = |word: &'static str| vec![word; jobs];
            let (none, delays) = (vec![None::<&str>; jobs], vec![0_i64; jobs]);
            let (verdicts, outcomes, ran_us) = (word("complete"), word("completed"), vec![None::<i64>; jobs]);
            let columns: [&(dyn ToSql + Sync); 12] = [
                &node.0, &ids, &claims, &verdicts, &outcomes, &none, &none, &none, &none, &delays, &none,
                &ran_us,
            ];
            let settled = self.client.query(&self.settle, &columns).await?.len();
            ensure!(settled == jobs, "{settled} of {jobs} jobs were settled");
            drained += jobs as u64;
        }
    }

    /// Enqueues jobs by one statement.
    pub(crate) async fn enqueue(&self, jobs: usize, route: &str) -> Result<()> {
        let ints = vec![None::<i64>; jobs];
        let times = vec![None::<std::time::SystemTime>; jobs];
        let texts = vec![None::<&str>; jobs];
        let words = |word: &'static str| vec![word; jobs];
        let (origins, kinds, routes) = (words("adhoc"), words(super::KIND), vec![route; jobs]);
        let (inputs, fresh, priorities) =
            (words(lineclear_measure::INPUT), vec![false; jobs], vec![0_i64; jobs]);
        let columns: [&(dyn ToSql + Sync); 18] = [
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
            &ints,
        ];
        let queued = self.client.query(&self.enqueue, &columns).await?.len();
        ensure!(queued == jobs, "{queued} of {jobs} jobs were queued");
        Ok(())
    }
}

fn taken_claims(rows: &[tokio_postgres::Row]) -> Vec<i64> {
    rows.iter().filter_map(|row| row.get::<_, Option<i32>>("claim_no").map(i64::from)).collect()
}
