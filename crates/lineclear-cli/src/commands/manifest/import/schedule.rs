//! When a line is due, as cron has it: also on the two days on which the clock is changed.
//!
//! Debian's cron, and cronsim after it, know two sorts of lines. One whose minute or hour begins with `*` is about elapsed
//! time: it fires whenever the clock on the wall shows a time that matches, twice if that time comes twice, and never if it does
//! not come. Any other has its times: it fires once for each, and when that time does not come, right after the gap.

use lineclear_model::schedule::{Fold, Gap};
use lineclear_model::{BadSchedule, Schedule, ScheduleFields};

/// A schedule, and whether it is not quite what cron would do.
pub(super) struct When {
    pub(super) schedule: Schedule,
    pub(super) differs: Option<String>,
}

/// The schedule of a line.
pub(super) fn when(expression: &str, zone: &str) -> Result<When, BadSchedule> {
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
    let changes = schedule.zone().following(jiff::Timestamp::now()).next().is_some();
    let differs = (!has_star && follows_elapsed_time && changes).then(|| {
        "its hours are all 24: where the clock goes back, it fires in both passes of that hour, and where the clock goes \
         forward, not for the hour that is left out; cron has it the other way round"
            .to_owned()
    });
    Ok(When { schedule, differs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_star_follows_the_wall_and_others_have_their_times() {
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
            let When { schedule, differs } = when(expression, "Europe/Berlin").unwrap();
            assert_eq!((schedule.fields().gap, schedule.fields().fold), (gap, fold), "{expression}");
            assert_eq!(differs, None, "{expression}");
        }
    }

    #[test]
    fn where_it_cannot_be_as_cron_has_it_that_is_said() {
        assert!(when("15 0-23 * * *", "Europe/Berlin").unwrap().differs.is_some());
        assert!(when("15 0-23/1 * * *", "America/New_York").unwrap().differs.is_some());
        assert!(when("15 0-23 * * *", "UTC").unwrap().differs.is_none(), "no clock is changed there");
        assert!(when("* 0-23 * * *", "Europe/Berlin").unwrap().differs.is_none(), "it has a star");
        assert!(when("15 0-22 * * *", "Europe/Berlin").unwrap().differs.is_none());
    }
}
