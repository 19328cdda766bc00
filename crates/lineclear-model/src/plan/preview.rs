//! The next ticks, as far as a bounded search finds them: a schedule may exclude every one of its ticks.

use super::{Planner, Tick};
use crate::{Exclusion, Micros, Name, Rules};

/// Excluded pieces of time that a search steps over; if each is a day, 27 years.
const STEPS_MAX: usize = 10_000;
/// Comparing with this many dates takes about as long as one step without dates.
const DATES_OF_A_STEP: usize = 5_000;

/// The next ticks that fire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// Oldest first.
    pub ticks: Vec<Tick>,
    /// The search ended here: after the last of the ticks, all up to this one are excluded.
    pub excluded_through: Option<Micros>,
}

/// The first `most` ticks after a moment that fire if a planner always looks in time.
pub fn preview(rules: &Rules, key: &Name, after: Micros, most: usize) -> Preview {
    let (planner, for_ever) = (Planner { rules }, Micros::EPOCH.offset(i64::MAX));
    let dates: usize = rules.exclude.iter().map(dates).sum();
    let mut steps = STEPS_MAX * DATES_OF_A_STEP / (DATES_OF_A_STEP + dates);
    let (mut at, mut ticks, mut excluded_through) = (after, Vec::new(), None);
    while ticks.len() < most {
        match planner.search(at, for_ever, &mut steps) {
            Ok(Some(tick)) => {
                ticks.push(planner.tick(key, tick));
                at = tick;
            }
            Ok(None) => break,
            Err(given_up) => {
                excluded_through = Some(given_up);
                break;
            }
        }
    }
    Preview { ticks, excluded_through }
}

fn dates(exclusion: &Exclusion) -> usize {
    match exclusion {
        Exclusion::Dates(dates) => dates.len(),
        _ => 1,
    }
}
