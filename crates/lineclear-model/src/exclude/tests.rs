//! Excluded times: shapes, zones, midnight.

use super::*;
use crate::schedule::find_zone;

fn excluded(text: &str, zone: &str, at: &str) -> bool {
    let exclusion: Exclusion = serde_json::from_str(text).unwrap();
    let at = at.parse::<jiff::Timestamp>().unwrap();
    is_excluded(&[exclusion], &find_zone(zone).unwrap(), at.into())
}

#[test]
fn exclusions_are_meant_in_local_time() {
    let weekend = r#"{"weekdays":["sat","sun"]}"#;
    assert!(excluded(weekend, "Europe/Berlin", "2026-01-02T23:00:00Z"), "Saturday has begun in Berlin");
    assert!(!excluded(weekend, "UTC", "2026-01-02T23:00:00Z"));
    assert!(excluded(r#"{"dates":["2026-12-25"]}"#, "UTC", "2026-12-25T23:59:59.999999Z"));
    assert!(!excluded(r#"{"dates":["2026-12-25"]}"#, "UTC", "2026-12-26T00:00:00Z"));
    let range = r#"{"from":"2026-12-24","to":"2027-01-02"}"#;
    assert!(excluded(range, "UTC", "2026-12-24T00:00:00Z"));
    assert!(excluded(range, "UTC", "2027-01-02T23:59:59Z"), "both ends are included");
    assert!(!excluded(range, "UTC", "2027-01-03T00:00:00Z"));
}

#[test]
fn a_daily_window_may_cross_midnight_and_does_not_include_its_end() {
    let night = r#"{"daily":"22:00-06:00"}"#;
    for (at, expected) in
        [("21:59:59", false), ("22:00:00", true), ("00:00:00", true), ("05:59:59", true), ("06:00:00", false)]
    {
        assert_eq!(excluded(night, "UTC", &format!("2026-01-01T{at}Z")), expected, "{at}");
    }
    assert!(excluded(r#"{"daily":"12:00-24:00"}"#, "UTC", "2026-01-01T23:59:59Z"));
    assert!(!excluded(r#"{"daily":"12:00-24:00"}"#, "UTC", "2026-01-01T00:00:00Z"));
}

#[test]
fn both_passes_of_a_fold_are_excluded() {
    let window = r#"{"daily":"02:15-02:45"}"#;
    for (at, expected) in [("00:30", true), ("00:50", false), ("01:10", false), ("01:30", true)] {
        assert_eq!(excluded(window, "Europe/Berlin", &format!("2026-10-25T{at}:00Z")), expected, "{at}");
    }
}

#[test]
fn exclusions_survive_being_stored_and_bad_ones_are_refused() {
    for text in [
        r#"{"weekdays":["sat","sun"]}"#,
        r#"{"dates":["2026-12-25"]}"#,
        r#"{"from":"2026-12-24","to":"2027-01-02"}"#,
        r#"{"daily":"22:00-06:00"}"#,
        r#"{"daily":"22:00:30-24:00"}"#,
    ] {
        let exclusion: Exclusion = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&exclusion).unwrap(), text);
    }
    for (text, part) in [
        (r#"{}"#, "each entry is one of"),
        (r#"{"from":"2026-12-24"}"#, "each entry is one of"),
        (r#"{"weekdays":["saturday"]}"#, "saturday"),
        (r#"{"weekdays":["mon","tue","wed","thu","fri","sat","sun"]}"#, "all seven days"),
        (r#"{"dates":["25.12.2026"]}"#, "not a date"),
        (r#"{"dates":["2026-02-30"]}"#, "not a date"),
        (r#"{"from":"2026-12-24","to":"2026-12-23"}"#, "swap"),
        (r#"{"daily":"22-6"}"#, "not HH:MM"),
        (r#"{"daily":"22:00"}"#, "not a window"),
        (r#"{"daily":"22:00-22:00"}"#, "excludes nothing"),
    ] {
        let message = serde_json::from_str::<Exclusion>(text).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
}
