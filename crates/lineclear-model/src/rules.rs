//! The rules of a manifest that the planner follows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Micros, Name, Schedule, duration,
    exclude::{self, EXCLUSIONS_MAX, Exclusion},
    job::words,
    manifest::BadField,
};

words! {
    /// What to do with ticks that were missed, because nothing was running when they were due.
    MisfirePolicy {
        /// The newest missed tick fires, the others are skipped.
        Once = "once",
        /// All missed ticks are skipped.
        Skip = "skip",
        /// The newest `max` missed ticks fire, oldest first.
        CatchUp = "catch_up",
    }
}

words! {
    /// What to do with a tick that comes while the manifest's last job is not over.
    Overlap {
        /// The tick is skipped.
        Skip = "skip",
        /// One tick waits for the job to end; further ones are skipped.
        QueueOne = "queue_one",
        /// Both run.
        Allow = "allow",
        /// The running job is cancelled for it.
        Cancel = "cancel",
    }
}

words! {
    /// What happens to a tick in an excluded time.
    Excluded {
        /// It is skipped, and recorded as such.
        Skip = "skip",
        /// The newest one fires when the excluded time is over, as in ChainSharp/Trax.
        Defer = "defer",
    }
}

words! {
    /// What a dead letter that awaits a person means for its manifest.
    OnDead {
        /// The manifest is held: no further tick fires before a person resolves the dead letter.
        Hold = "hold",
        /// The manifest goes on.
        GoOn = "go_on",
    }
}

words! {
    /// Why a tick did not become a job.
    SkipReason {
        /// No planner was running when it was due, and the misfire policy drops it.
        Missed = "missed",
        /// It is in an excluded time.
        Excluded = "excluded",
        /// The manifest's last job was not over.
        Overlap = "overlap",
        /// The manifest waits for a person to resolve its dead letter.
        DeadLetter = "dead_letter",
        /// The manifest is switched off.
        Disabled = "disabled",
        /// Its group is switched off.
        GroupDisabled = "group_disabled",
        /// It was due and not yet planned when its manifest got another schedule.
        Rescheduled = "rescheduled",
        /// It was due and not yet planned when its manifest was removed.
        Removed = "removed",
        /// The manifest could not be read at this moment; its ticks wait until it can.
        Unplannable = "unplannable",
    }
}

/// Most ticks that `catch_up` may fire.
pub const CATCH_UP_MAX: u32 = 10_000;

/// Longest jitter.
pub const JITTER_MAX: Duration = Duration::from_secs(86_400);

/// The rule for missed ticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Misfire {
    /// What to do.
    pub policy: MisfirePolicy,
    /// A tick that is older than this is missed; a younger one is merely late, and fires.
    #[serde(with = "duration")]
    pub threshold: Duration,
    /// With `catch_up`: how many fire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}

impl Default for Misfire {
    fn default() -> Misfire {
        Misfire { policy: MisfirePolicy::Once, threshold: Duration::from_secs(60), max: None }
    }
}

impl Misfire {
    /// How many `catch_up` fires by default.
    pub const CATCH_UP_DEFAULT: u32 = 100;

    /// How many missed ticks fire.
    pub fn missed_that_fire(&self) -> usize {
        match self.policy {
            MisfirePolicy::Once => 1,
            MisfirePolicy::Skip => 0,
            MisfirePolicy::CatchUp => self.max.unwrap_or(Self::CATCH_UP_DEFAULT) as usize,
        }
    }

    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), BadField> {
        let bad = |message: String| Err(BadField::new("misfire.max", message));
        match (self.policy, self.max) {
            (MisfirePolicy::CatchUp, Some(0)) => {
                bad("must be at least 1; use policy = \"skip\" to fire no missed tick".into())
            }
            (MisfirePolicy::CatchUp, Some(max)) if max > CATCH_UP_MAX => {
                bad(format!("must be at most {CATCH_UP_MAX}; use a backfill for more"))
            }
            (MisfirePolicy::Once | MisfirePolicy::Skip, Some(_)) => {
                bad("requires policy = \"catch_up\"".into())
            }
            _ => Ok(()),
        }
    }
}

/// The rules that decide which ticks of a manifest fire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// When it is due.
    pub schedule: Schedule,
    /// What happens to missed ticks.
    pub misfire: Misfire,
    /// When it does not fire.
    pub exclude: Vec<Exclusion>,
    /// What becomes of excluded ticks.
    pub excluded: Excluded,
    /// How far ticks are spread; see [`Rules::due_at`].
    pub jitter: Duration,
}

impl Rules {
    /// A schedule with the default rules.
    pub fn new(schedule: Schedule) -> Rules {
        let (misfire, jitter) = (Misfire::default(), Duration::ZERO);
        Rules { schedule, misfire, exclude: Vec::new(), excluded: Excluded::Skip, jitter }
    }

    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), BadField> {
        self.misfire.check()?;
        check_jitter(&self.schedule, self.jitter)?;
        if self.exclude.len() > EXCLUSIONS_MAX {
            return Err(BadField::new("exclude", format!("must have at most {EXCLUSIONS_MAX} entries")));
        }
        if exclude::leave_nothing(&self.exclude) {
            return Err(BadField::new("exclude", "must not exclude all times"));
        }
        if !self.exclude.is_empty() && !self.schedule.is_timed() {
            return Err(BadField::new("exclude", "requires a schedule with ticks; remove it"));
        }
        Ok(())
    }

    /// When the job of a tick is due: the tick plus its share of the jitter, from zero up to, but not
    /// including, the whole. The result never changes and is equal on every node, so that a preview is true.
    pub fn due_at(&self, key: &Name, tick_at: Micros) -> Micros {
        let width = u64::try_from(self.jitter.as_micros()).unwrap_or(u64::MAX);
        let share = (u128::from(spread(key, tick_at)) * u128::from(width)) >> 64;
        tick_at.offset(i64::try_from(share).expect("a share of the jitter, which is a day at most"))
    }
}

fn check_jitter(schedule: &Schedule, jitter: Duration) -> Result<(), BadField> {
    if jitter.is_zero() {
        return Ok(());
    }
    let bad = |message: String| Err(BadField::new("jitter", message));
    if !schedule.is_timed() {
        return bad("requires a schedule with ticks; remove it".into());
    }
    let given = duration::format(jitter);
    if jitter > JITTER_MAX {
        return bad(format!("must be at most 24h, not {given}"));
    }
    match schedule.fields().every {
        Some(every) if jitter > every => {
            let every = duration::format(every);
            bad(format!(
                "must be at most the interval of {every}, not {given}: ticks would overtake each other"
            ))
        }
        _ => Ok(()),
    }
}

/// 64 evenly spread bits from a key and a tick: FNV-1a over both, then the finish of splitmix64, because FNV
/// alone leaves the high bits of near-by ticks alike. Stored jobs depend on it: it must never change.
fn spread(key: &Name, tick_at: Micros) -> u64 {
    let bytes = key.as_str().bytes().chain([0]).chain(tick_at.get().to_le_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_the_same_for_ever() {
        let name = |text: &str| Name::new(text).unwrap();
        let tick = Micros::new(1_767_225_600_000_000).unwrap();
        assert_eq!(spread(&name("nightly"), tick), 4549361712556141505);
        assert_eq!(spread(&name("nightly"), tick.offset(1)), 8882575178837248230);
        assert_eq!(spread(&name("hourly"), Micros::EPOCH), 16107899941081780995);
    }

    #[test]
    fn jitter_stays_below_its_width_and_is_spread_evenly() {
        let mut rules = Rules::new(Schedule::every(Duration::from_secs(60)).unwrap());
        let key = Name::new("etl").unwrap();
        assert_eq!(rules.due_at(&key, Micros::EPOCH), Micros::EPOCH, "no jitter, no move");
        rules.jitter = Duration::from_secs(10);
        let mut per_second = [0; 10];
        for minute in 0..10_000 {
            let tick = Micros::EPOCH.offset(minute * 60_000_000);
            let moved = rules.due_at(&key, tick).get() - tick.get();
            per_second[usize::try_from(moved / 1_000_000).unwrap()] += 1;
        }
        assert!(per_second.iter().all(|n| (850..1150).contains(n)), "{per_second:?}");
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        let minute = Schedule::every(Duration::from_secs(60)).unwrap();
        let bad = |schedule: Schedule, jitter, max| {
            let misfire = Misfire { max, ..Misfire::default() };
            let rules = Rules { misfire, jitter: Duration::from_secs(jitter), ..Rules::new(schedule) };
            rules.check().unwrap_err().to_string()
        };
        assert!(bad(minute.clone(), 61, None).contains("overtake"));
        assert!(bad(Schedule::on_demand(), 1, None).contains("a schedule with ticks"));
        assert!(bad(Schedule::cron("@yearly", "UTC").unwrap(), 90_000, None).contains("24h"));
        assert!(bad(minute.clone(), 0, Some(3)).contains("catch_up"));
        for (exclude, all) in [
            (r#"[{"daily":"00:00-12:00"},{"daily":"12:00-24:00"}]"#, true),
            (r#"[{"daily":"22:00-06:00"},{"daily":"05:00-22:00"}]"#, true),
            (r#"[{"daily":"22:00-06:00"},{"daily":"06:00-21:59"}]"#, false),
            (r#"[{"weekdays":["mon","tue","wed","thu"]},{"weekdays":["fri","sat","sun"]}]"#, true),
        ] {
            let rules =
                Rules { exclude: serde_json::from_str(exclude).unwrap(), ..Rules::new(minute.clone()) };
            assert_eq!(rules.check().is_err(), all, "{exclude}");
        }
    }
}
