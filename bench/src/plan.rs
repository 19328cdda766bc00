//! Plan cost: a pass depends on the due manifests, not on all of them.

use anyhow::{Result, ensure};
use lineclear::store::{PlanRules, Planned};

use crate::load::Manifests;
use crate::measure::{compare, grouped, progress};
use crate::{Database, Figure, Purpose, Scale, ScratchDb};

const SMALL: u32 = 10_000;
const LARGE: u32 = 1_000_000;
const DUE: u32 = 1_000;
/// Overdue but held: they come first in time and must not slow down the others.
const HELD: u32 = 5_000;
const BOUND: f64 = 3.0;
const REPETITIONS: u32 = 11;

struct Side {
    db: ScratchDb,
    manifests: Manifests,
}

impl Side {
    async fn load(database: Database, manifests: u32) -> Result<Side> {
        progress(&format!("{}: loading {} manifests", database.label(), grouped(manifests)));
        let db = ScratchDb::new(database, Purpose::Growth).await?;
        let manifests = Manifests::load(&db, manifests).await?;
        Ok(Side { db, manifests })
    }
}

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let due = scale.of(DUE);
    let small = Side::load(database, scale.of(SMALL).max(due)).await?;
    let large = Side::load(database, scale.of(LARGE)).await?;
    large.manifests.add_held(&large.db, scale.of(HELD)).await?;
    for side in [&small, &large] {
        side.db.settle_down().await?;
    }
    progress(&format!("{}: planning {} due manifests alternately", database.label(), grouped(due)));
    let make_due =
        async |side: &Side, round| side.manifests.make_due(&side.db, side.manifests.all / due, round).await;
    let plan = async |side: &Side| {
        let rules = PlanRules { manifests_max: due.saturating_mul(2), ..PlanRules::default() };
        let planned = side.db.store.plan(rules).await?;
        let expected = u64::from(due);
        let Planned::Led { due, queued, .. } = planned else { anyhow::bail!("another node plans") };
        ensure!(due == expected && queued == expected, "{planned:?} where {expected} manifests were due");
        Ok(())
    };
    let medians = compare([&small, &large], scale.repetitions(REPETITIONS), make_due, plan).await?;
    let [from, to] = [&small, &large].map(|side| grouped(side.manifests.all));
    let name = format!("plan {} due of {from} → of {to} manifests", grouped(due));
    Ok(vec![Figure::growth(database, name, medians, Some(BOUND))])
}
