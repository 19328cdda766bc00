//! Beside the journey: what happened, in events and in figures by the minute.

use lineclear_model::Micros;
use lineclear_model::doctor::HealthFacts;

use crate::store::verbs::{condition, events, stats, totals};
use crate::store::{By, EVENTS_MAX, Events, StatNow, Stats, Store, StoreError, StoreResult, Total};

impl Store {
    /// What happened since a moment, oldest first, and up to where it is complete. Reading on from there misses nothing; what lies
    /// behind the horizon comes again.
    pub async fn events(&self, since: Micros) -> StoreResult<Events> {
        self.db.read(events::ReadEvents { since, most: EVENTS_MAX }).await
    }

    /// The moment up to which everything that happened can be seen, and the database's clock.
    pub async fn event_horizon(&self) -> StoreResult<(Micros, Micros)> {
        self.db.read(events::EventHorizon).await
    }

    /// Rolls up what ended in minutes that are closed, into figures. Any number of nodes may do so, and doing it again changes
    /// nothing; where nothing has ended, nothing is written.
    pub async fn roll_up(&self) -> StoreResult<()> {
        let advisory_key = self.options.advisory_key("stats");
        let mut last = None;
        while let Some((from, to)) = self.db.read(stats::Due).await?.filter(|due| last != Some(*due)) {
            self.run(stats::Roll { from, to, advisory_key }).await?;
            last = Some((from, to));
        }
        Ok(())
    }

    /// Figures of `from..to` in steps of so many seconds.
    pub async fn stats(&self, from: Micros, to: Micros, step_secs: i64, by: By) -> StoreResult<Stats> {
        if step_secs < 60 || step_secs % 60 != 0 {
            return Err(StoreError::refused("step", "a step is so many whole minutes"));
        }
        self.db.read(stats::ReadStats { from, to, step_secs, by }).await
    }

    /// Figures of everything in `from..to`, in steps of so many seconds, with how long claims ran.
    pub async fn totals(&self, from: Micros, to: Micros, step_secs: i64) -> StoreResult<Vec<Total>> {
        if step_secs < 60 || step_secs % 60 != 0 {
            return Err(StoreError::refused("step", "a step is so many whole minutes"));
        }
        self.db.read(totals::ReadTotals { from, to, step_secs }).await
    }

    /// How much waits, runs and needs a person.
    pub async fn stat_now(&self) -> StoreResult<StatNow> {
        self.db.read(stats::ReadNow).await
    }

    /// How nodes, jobs and manifests stand, with so many late jobs explained: what tells whether they are well. Each part has its own
    /// time, and what was not seen in it is said.
    pub async fn condition(&self, explained: u32) -> StoreResult<HealthFacts> {
        let condition::Standing { condition: mut facts, nodes } =
            self.db.read(condition::ReadStanding).await?;
        let trouble = self.db.read(condition::ReadTrouble(nodes.clone())).await;
        facts.trouble = condition::or_unseen(trouble, &mut facts.not_checked.trouble)?;
        let overdue = self.db.read(condition::ReadOverdue { explained, nodes }).await;
        facts.overdue = condition::or_unseen(overdue, &mut facts.not_checked.overdue)?;
        Ok(facts)
    }
}
