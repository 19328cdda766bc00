//! The schedule of a crontab line, with cron's behaviour when the clock changes.
//!
//! Debian's cron, and cronsim after it, distinguish two sorts of lines. A line whose minute or hour begins with `*` follows the local
//! clock: it fires whenever that shows a matching time, twice if the time occurs twice, and not at all if it is skipped. Any other line
//! fires once for each of its times, and right after the gap if the time is skipped.

use lineclear_model::schedule::{Fold, Gap};
use lineclear_model::{BadSchedule, Schedule, ScheduleFields};

/// A schedule, and notes about it.
pub(super) struct CronSchedule {
    pub(super) schedule: Schedule,
    pub(super) notes: Vec<String>,
}

/// Converts the schedule of a line.
pub(super) fn schedule_of(expression: &str, zone: &str) -> Result<CronSchedule, BadSchedule> {
    let fields = ScheduleFields {
        cron: Some(expression.to_owned()),
        tz: Some(zone.to_owned()),
        ..ScheduleFields::default()
    };
    let plain = Schedule::new(fields.clone())?;
    let follows_elapsed_time = plain.follows_elapsed_time();
    let has_star = expression.eq_ignore_ascii_case("@hourly")
        || expression.split(' ').take(2).any(|field| field.starts_with('*'));
    let schedule = match (has_star, follows_elapsed_time) {
        (true, false) => {
            Schedule::new(ScheduleFields { gap: Some(Gap::Skip), fold: Some(Fold::Both), ..fields })?
        }
        _ => plain,
    };
    let mut notes = schedule.warnings().to_vec();
    let has_clock_changes = schedule.zone().following(jiff::Timestamp::now()).next().is_some();
    if !has_star && follows_elapsed_time && has_clock_changes {
        let differs = "its hours are all 24: when the clock goes back, it fires in both passes of the hour, and when the clock goes \
                       forward, it does not fire for the missing hour; cron does the opposite";
        notes.push(differs.to_owned());
    }
    Ok(CronSchedule { schedule, notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_star_follows_the_clock_and_others_have_their_times() {
        for (expression, gap, fold) in [
            ("30 2 * * *", None, None),
            ("0-59 2 * * *", None, None),
            ("@daily", None, None),
            ("*/15 2 * * *", Some(Gap::Skip), Some(Fold::Both)),
            ("0 */2 * * *", Some(Gap::Skip), Some(Fold::Both)),
            ("0 * * * *", None, None),
            ("@hourly", None, None),
            ("@Hourly", None, None),
            ("* * * * *", None, None),
        ] {
            let CronSchedule { schedule, notes } = schedule_of(expression, "Europe/Berlin").unwrap();
            assert_eq!((schedule.fields().gap, schedule.fields().fold), (gap, fold), "{expression}");
            assert_eq!(notes, Vec::<String>::new(), "{expression}");
        }
    }

    fn notes(expression: &str, zone: &str) -> Vec<String> {
        schedule_of(expression, zone).unwrap().notes
    }

    #[test]
    fn a_step_longer_than_its_field_is_converted_and_noted() {
        let notes = notes("0 0 1 */15 *", "Europe/Berlin");
        assert!(matches!(&notes[..], [one] if one.starts_with("month: a step of 15")), "{notes:?}");
    }

    #[test]
    fn a_difference_to_cron_is_noted() {
        assert!(!notes("15 0-23 * * *", "Europe/Berlin").is_empty());
        assert!(!notes("15 0-23/1 * * *", "America/New_York").is_empty());
        assert!(notes("15 0-23 * * *", "UTC").is_empty(), "no clock is changed there");
        assert!(notes("* 0-23 * * *", "Europe/Berlin").is_empty(), "it has a star");
        assert!(notes("15 0-22 * * *", "Europe/Berlin").is_empty());
    }
}
