//! Decides which ticks fire now, without a database and without a clock.

mod preview;

pub use preview::{Preview, preview};

use crate::{
    Micros, Name, Rules,
    exclude::{Piece, piece_around, run_around},
    rules::{Excluded, SkipReason},
};

/// Most skips in one decision. If exclusions begin and end more often than that, the next pass continues.
pub const SKIPS_MAX: usize = 1000;

/// A tick that fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The tick itself, which with its manifest is its identity.
    pub tick_at: Micros,
    /// When its job is due: the tick, or the end of the excluded time it was deferred to, plus jitter.
    pub due_at: Micros,
}

/// Ticks that do not fire: all ticks of the manifest in this range, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The first skipped tick.
    pub from_tick_at: Micros,
    /// The last skipped tick.
    pub until_tick_at: Micros,
    /// Why.
    pub reason: SkipReason,
}

/// The decision that a planner writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Ticks that fire, oldest first.
    pub fire: Vec<Tick>,
    /// Ticks that do not, oldest first.
    pub skips: Vec<Skip>,
    /// Every tick up to and including this moment has been decided. Never earlier than before.
    pub planned_through: Micros,
    /// When to ask again: the next tick; with deferred exclusions the end of the excluded time. In the past
    /// if more was due than could be decided at once. `None` if nothing will ever be due again.
    pub next_due_at: Option<Micros>,
}

/// Where a new manifest starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanStart {
    /// The first value of `planned_through`.
    pub planned_through: Micros,
    /// When to ask [`decide`] for the first time.
    pub next_due_at: Option<Micros>,
}

/// Where a manifest starts that is made at `created_at`: ticks after that moment count. One that fires `once`
/// counts even if its moment has passed, so that "once, at nine" declared at ten is a late tick under the
/// misfire policy and not lost.
pub fn plan_start(rules: &Rules, created_at: Micros) -> PlanStart {
    let planned_through = match rules.schedule.once_at() {
        Some(at) => created_at.min(at.offset(-1)),
        None => created_at,
    };
    PlanStart { planned_through, next_due_at: Planner { rules }.next_due_after(planned_through) }
}

/// Decides every tick after `planned_through` up to `now`, firing at most `most` of them.
///
/// Ticks older than the misfire threshold are missed, and the policy treats them as one set. The cost depends
/// on what fires and on how often exclusions begin and end, not on how many ticks were missed.
pub fn decide(rules: &Rules, key: &Name, planned_through: Micros, now: Micros, most: usize) -> Decision {
    let planner = Planner { rules };
    let mut through = now.max(planned_through);
    if rules.excluded == Excluded::Defer
        && let Some(run) = planner.excluded_run(through)
    {
        // The newest tick of an excluded time is not known before that time is over.
        through = run.from.offset(-1).max(planned_through);
    }

    let (fire, more) = planner.firing(planned_through, through, now, most);
    if more {
        through = fire.last().copied().unwrap_or(planned_through);
    }
    let mut skips = Vec::new();
    let mut decided = planned_through;
    let between = fire.iter().map(|&tick| (tick.offset(-1), tick));
    for (skipped_through, next) in between.chain((!more).then_some((through, through))) {
        if let Err(stopped_at) = planner.skip(&mut skips, decided, skipped_through) {
            (decided, through) = (stopped_at, stopped_at);
            break;
        }
        decided = next;
    }
    let fire: Vec<Tick> = fire
        .into_iter()
        .filter(|&tick_at| tick_at <= decided)
        .map(|tick_at| planner.tick(key, tick_at))
        .collect();
    Decision { fire, skips, planned_through: through, next_due_at: planner.next_due_after(through) }
}

/// The first `most` ticks in `(after, through]` that fire if a planner always looks in time.
pub fn ticks_between(rules: &Rules, key: &Name, after: Micros, through: Micros, most: usize) -> Vec<Tick> {
    let planner = Planner { rules };
    let next = |&at: &Micros| planner.first_candidate(at, through);
    let ticks = std::iter::successors(next(&after), next).take(most);
    ticks.map(|tick_at| planner.tick(key, tick_at)).collect()
}

struct Planner<'a> {
    rules: &'a Rules,
}

impl Planner<'_> {
    fn piece(&self, at: Micros) -> Piece {
        piece_around(&self.rules.exclude, self.rules.schedule.zone(), at)
    }

    /// The whole excluded time around a moment, if it is excluded.
    fn excluded_run(&self, at: Micros) -> Option<Piece> {
        if !self.piece(at).excluded {
            return None;
        }
        Some(run_around(&self.rules.exclude, self.rules.schedule.zone(), at))
    }

    fn next_due_after(&self, after: Micros) -> Option<Micros> {
        let tick = self.rules.schedule.next_after(after)?;
        match self.rules.excluded {
            Excluded::Skip => Some(tick),
            Excluded::Defer => Some(self.excluded_run(tick).map_or(tick, |run| run.until)),
        }
    }

    fn tick(&self, key: &Name, tick_at: Micros) -> Tick {
        let due_at = self.rules.due_at(key, tick_at);
        let run = if self.rules.excluded == Excluded::Defer { self.excluded_run(tick_at) } else { None };
        let wait = run.map_or(0, |run| run.until.get() - tick_at.get());
        Tick { tick_at, due_at: due_at.offset(wait) }
    }

    /// The ticks in `(after, through]` that fire, and whether there are more than `most`.
    fn firing(&self, after: Micros, through: Micros, now: Micros, most: usize) -> (Vec<Micros>, bool) {
        // Ticks at or before `old` are missed, later ones are at most late.
        let mut old = now.offset(-crate::duration::micros(self.rules.misfire.threshold) - 1).min(through);
        if self.rules.excluded == Excluded::Defer
            && let Some(run) = self.excluded_run(old)
        {
            // A deferred tick counts from the end of its excluded time, which is not old yet.
            old = run.from.offset(-1);
        }
        let old = old.max(after);

        let mut fire = Vec::new();
        let mut at = old;
        while fire.len() < self.rules.misfire.missed_that_fire() {
            let Some(tick) = self.last_candidate(after, at) else { break };
            fire.push(tick);
            at = self.before(tick);
        }
        fire.reverse();
        let mut at = old;
        while fire.len() <= most {
            let Some(tick) = self.first_candidate(at, through) else { break };
            fire.push(tick);
            at = tick;
        }
        let more = fire.len() > most;
        fire.truncate(most);
        (fire, more)
    }

    /// The first tick in `(after, through]` that may fire.
    fn first_candidate(&self, after: Micros, through: Micros) -> Option<Micros> {
        self.search(after, through, &mut { usize::MAX }).ok().flatten()
    }

    /// Like `first_candidate`, over a limited number of excluded pieces; `Err` says how far it came.
    fn search(
        &self,
        mut after: Micros,
        through: Micros,
        steps: &mut usize,
    ) -> Result<Option<Micros>, Micros> {
        loop {
            let Some(tick) = self.rules.schedule.next_after(after).filter(|&tick| tick <= through) else {
                return Ok(None);
            };
            let piece = self.piece(tick);
            if !piece.excluded {
                return Ok(Some(tick));
            }
            if self.rules.excluded == Excluded::Defer {
                let run = self.excluded_run(tick);
                let until = |run: Piece| run.until.offset(-1).min(through);
                return Ok(run.and_then(|run| self.rules.schedule.last_through(until(run))));
            }
            *steps = steps.checked_sub(1).ok_or(tick)?;
            after = piece.until.offset(-1).max(tick);
        }
    }

    /// The last tick in `(after, through]` that may fire.
    fn last_candidate(&self, after: Micros, mut through: Micros) -> Option<Micros> {
        loop {
            let tick = self.rules.schedule.last_through(through).filter(|&tick| tick > after)?;
            let piece = self.piece(tick);
            if !piece.excluded || self.rules.excluded == Excluded::Defer {
                return Some(tick);
            }
            through = piece.from.offset(-1);
        }
    }

    /// Where to look for the candidate before this one: an excluded time has only one.
    fn before(&self, tick: Micros) -> Micros {
        let run = if self.rules.excluded == Excluded::Defer { self.excluded_run(tick) } else { None };
        run.map_or(tick, |run| run.from).offset(-1)
    }

    /// Records all ticks in `(after, through]` as skipped; `Err` says how far it came when there were too
    /// many ranges.
    fn skip(&self, skips: &mut Vec<Skip>, mut after: Micros, through: Micros) -> Result<(), Micros> {
        let first_of_range = skips.len();
        while let Some(from) = self.rules.schedule.next_after(after).filter(|&tick| tick <= through) {
            let piece = self.piece(from);
            let reason = if piece.excluded { SkipReason::Excluded } else { SkipReason::Missed };
            let limit = piece.until.offset(-1).min(through);
            let until = self.rules.schedule.last_through(limit).unwrap_or(from).max(from);
            let full = skips.len() == SKIPS_MAX;
            match skips[first_of_range..].last_mut() {
                Some(last) if last.reason == reason => last.until_tick_at = until,
                _ if full => return Err(after),
                _ => skips.push(Skip { from_tick_at: from, until_tick_at: until, reason }),
            }
            after = until;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
