//! From wall seconds to moments: what happens to local times that do not exist or occur twice.
//!
//! A zone's history is a row of *stretches* in which the offset from UTC is constant, so that wall time and
//! real time run alike. Ticks are looked for stretch by stretch; at each border the gap or fold is a plain
//! range of wall seconds. That is exact for every zone (half-hour shifts, a whole skipped day), keeps ticks
//! in order, and never has to ask about single ticks.

use jiff::{Timestamp, tz::TimeZone};

use super::{Fold, Gap, TickNote, cron::Cron};

/// A wall clock is never further from UTC than this, so a jump may leave out what is further away.
const OFFSET_SECS_MAX: i64 = 26 * 3600;

/// Far enough for "no end", and near enough that adding an offset cannot overflow.
const FOREVER: i64 = i64::MAX / 4;

/// Seconds since the epoch in which the offset from UTC does not change: `from..until`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub from: i64,
    pub until: i64,
    /// Wall seconds minus real seconds.
    pub offset: i64,
    offset_before: i64,
    offset_after: i64,
}

impl Stretch {
    /// The stretch around a moment.
    pub(crate) fn around(zone: &TimeZone, second: i64) -> Stretch {
        let at = clamped(second);
        let offset = i64::from(zone.to_offset(at).seconds());
        // jiff looks backwards wrongly where a zone's table ends and its rule begins (0.2.39 finds a
        // transition at 07:00Z instead of 08:00Z on 2007-03-11 in America/Indiana/Winamac). Looking forwards
        // is right: so the way back only says where to begin.
        let earlier = zone.preceding(clamped(second.saturating_add(1))).next();
        let begin = earlier.map_or(at, |earlier| clamped(earlier.timestamp().as_second() - 1));
        let (mut start, mut end) = (None, None);
        for transition in zone.following(begin) {
            if transition.timestamp() > at {
                end = Some(transition);
                break;
            }
            start = Some(transition.timestamp().as_second());
        }
        let before = start.map(|start| zone.to_offset(clamped(start - 1)));
        Stretch {
            from: start.unwrap_or(-FOREVER),
            until: end.as_ref().map_or(FOREVER, |end| end.timestamp().as_second()),
            offset,
            offset_before: before.map_or(offset, |before| before.seconds().into()),
            offset_after: end.map_or(offset, |end| end.offset().seconds().into()),
        }
    }

    /// The wall seconds that count here. A fold belongs to the stretch before it or after it, as the rule
    /// says.
    fn wall(&self, fold: Fold) -> (i64, i64) {
        let (mut from, mut until) = (self.from + self.offset, self.until + self.offset);
        if fold == Fold::First {
            from = from.max(self.from + self.offset_before);
        }
        if fold == Fold::Second {
            until = until.min(self.until + self.offset_after);
        }
        (from, until)
    }

    /// The wall seconds that were skipped when this stretch began.
    fn gap(&self) -> Option<(i64, i64)> {
        (self.offset > self.offset_before).then(|| (self.from + self.offset_before, self.from + self.offset))
    }
}

/// The nearest second that the calendar has.
fn clamped(second: i64) -> Timestamp {
    let (min, max) = (Timestamp::MIN.as_second() + 1, Timestamp::MAX.as_second() - 1);
    Timestamp::from_second(second.clamp(min, max)).expect("clamped into the calendar")
}

/// A cron expression with its zone and rules: whole seconds since the epoch.
#[derive(Clone, Debug)]
pub(super) struct LocalCron {
    pub cron: Cron,
    pub zone: TimeZone,
    pub gap: Gap,
    pub fold: Fold,
}

impl LocalCron {
    /// The rules that hold. A cron for every hour is about elapsed time: both passes of a fold are hours, a
    /// gap is none.
    fn rules(&self) -> (Gap, Fold) {
        if self.cron.every_hour() { (Gap::Skip, Fold::Both) } else { (self.gap, self.fold) }
    }

    /// What the clock did to a tick.
    pub(super) fn note(&self, tick: i64) -> Option<TickNote> {
        let stretch = Stretch::around(&self.zone, tick);
        let wall = tick + stretch.offset;
        if self.cron.first_in(wall, wall + 1).is_none() {
            return Some(TickNote::Moved);
        }
        if wall < stretch.from + stretch.offset_before {
            return Some(TickNote::SecondPass);
        }
        (wall >= stretch.until + stretch.offset_after).then_some(TickNote::FirstPass)
    }

    /// The first tick in `from..to`.
    pub(super) fn first_in(&self, from: i64, to: i64) -> Option<i64> {
        let mut at = from;
        while at < to {
            let stretch = Stretch::around(&self.zone, at);
            if let Some(tick) = self.first_in_stretch(&stretch, at) {
                return Some(tick).filter(|&tick| tick < to);
            }
            // Nothing here. What comes next on any wall clock says how far it is safe to jump.
            let wall = self.cron.first_in(at - OFFSET_SECS_MAX, FOREVER)?;
            at = stretch.until.max(wall - OFFSET_SECS_MAX);
        }
        None
    }

    /// The last tick in `from..to`.
    pub(super) fn last_in(&self, from: i64, to: i64) -> Option<i64> {
        let mut until = to;
        while until > from {
            let stretch = Stretch::around(&self.zone, until - 1);
            if let Some(tick) = self.last_in_stretch(&stretch, until) {
                return Some(tick).filter(|&tick| tick >= from);
            }
            let wall = self.cron.last_in(-FOREVER, until + OFFSET_SECS_MAX)?;
            until = stretch.from.min(wall + OFFSET_SECS_MAX);
        }
        None
    }

    fn first_in_stretch(&self, stretch: &Stretch, from: i64) -> Option<i64> {
        let (gap_rule, fold_rule) = self.rules();
        let (wall_from, wall_until) = stretch.wall(fold_rule);
        let usual =
            self.cron.first_in(wall_from.max(from + stretch.offset), wall_until).map(|w| w - stretch.offset);
        let moved = stretch.gap().and_then(|(gap_from, gap_until)| match gap_rule {
            Gap::Skip => None,
            Gap::NextValid if from > stretch.from => None,
            Gap::NextValid => self.cron.first_in(gap_from, gap_until).map(|_| stretch.from),
            Gap::Shift => {
                let wall_from = gap_from.max(from + stretch.offset_before);
                self.cron.first_in(wall_from, gap_until).map(|wall| wall - stretch.offset_before)
            }
        });
        // A tick moved out of a very long gap could land beyond a very short stretch; the next one would then
        // have it.
        let moved = moved.filter(|&tick| tick < stretch.until);
        [usual, moved].into_iter().flatten().min()
    }

    fn last_in_stretch(&self, stretch: &Stretch, until: i64) -> Option<i64> {
        let (gap_rule, fold_rule) = self.rules();
        let (wall_from, wall_until) = stretch.wall(fold_rule);
        let usual =
            self.cron.last_in(wall_from, wall_until.min(until + stretch.offset)).map(|w| w - stretch.offset);
        let moved = stretch.gap().and_then(|(gap_from, gap_until)| match gap_rule {
            Gap::Skip => None,
            Gap::NextValid => self.cron.first_in(gap_from, gap_until).map(|_| stretch.from),
            Gap::Shift => {
                let until = until.min(stretch.until);
                let wall_until = gap_until.min(until + stretch.offset_before);
                self.cron.last_in(gap_from, wall_until).map(|wall| wall - stretch.offset_before)
            }
        });
        [usual, moved].into_iter().flatten().max()
    }
}
