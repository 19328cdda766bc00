//! Plans cached on an empty queue: an idle node must not be slow when a burst comes.

use std::time::Duration;

use anyhow::{Result, ensure};
use lineclear::Store;
use lineclear::store::{ClaimRef, Dispatch, JobId, Lease, PlanRules, main_route};

use crate::load::Waiting;
use crate::measure::{compare, grouped, progress};
use crate::{Database, Figure, Purpose, Scale, ScratchDb};

const BURST: u32 = 300_000;
const TAKEN: u32 = 500;
/// A stale plan costs a hundred times as much; between two fresh ones there is only noise.
const BOUND: f64 = 2.0;
const REPETITIONS: u32 = 51;

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let (burst, taken) = (scale.of(BURST), scale.of(TAKEN));
    progress(&format!("{}: preparing on an empty store, then loading {}", database.label(), grouped(burst)));
    let db = ScratchDb::new(database, Purpose::Growth).await?;
    db.analyze().await?;
    idle(&db.store, db.lease).await?;
    // Without statistics: a burst comes before autovacuum does.
    Waiting { first_id: 1, rows: burst, route: "main", priority: 0, due_in: 0, group: None }
        .load(&db)
        .await?;

    let fresh = db.another_store().await?;
    let take = async |store: &Store| {
        let claims = store.dispatch_into_lease(Dispatch::new(main_route(), taken), db.lease).await?;
        ensure!(claims.len() == taken as usize, "{} jobs of {taken} were taken", claims.len());
        Ok(())
    };
    let nothing = async |_: &Store, _| Ok(());
    let medians = compare([&fresh, &db.store], scale.repetitions(REPETITIONS), nothing, take).await?;
    let name = format!(
        "dispatch_into_lease {} of {}: opened after → before the burst",
        grouped(taken),
        grouped(burst)
    );
    let stale_plans = Figure::growth(database, name, medians, Some(BOUND));

    if database == Database::Sqlite {
        return Ok(vec![stale_plans]); // It has no statistics, before or after.
    }
    // Both sides above could be slow for want of statistics. Not interleaved: statistics cannot be undone.
    let [_, unanalyzed] = medians;
    db.settle_down().await?;
    let [analyzed, _] = compare([&fresh, &db.store], scale.repetitions(REPETITIONS), nothing, take).await?;
    let name = "… with statistics of the burst → of an empty queue".to_owned();
    Ok(vec![stale_plans, Figure::growth(database, name, [analyzed, unanalyzed], None)])
}

/// The calls of an idle node.
async fn idle(store: &Store, lease: Lease) -> Result<()> {
    let unknown = ClaimRef { job: JobId(0), no: 1 };
    store.plan(PlanRules::default()).await?;
    store.promote(100).await?;
    store.dispatch(Dispatch::new(main_route(), 100)).await?;
    store.claim(main_route(), 100, lease).await?;
    store.dispatch_into_lease(Dispatch::new(main_route(), 100), lease).await?;
    store.renew(Lease { length: Duration::from_secs(30), ..lease }, vec![unknown]).await?;
    store.reclaim(100, 3).await?;
    Ok(())
}
