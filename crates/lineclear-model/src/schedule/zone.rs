//! Time zones by name, from the database that is built into the program.
//!
//! Not the system's: a preview must be true on whichever machine it is made, and this crate does no I/O.

use std::sync::LazyLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::BadSchedule;

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Every zone name of the bundled database, in order.
pub fn zone_names() -> Vec<String> {
    DATABASE.available().map(|name| name.as_str().to_owned()).collect()
}

/// The zone of a name, which may be written in any case.
pub fn find_zone(name: &str) -> Result<TimeZone, BadSchedule> {
    // No name is longer; the check keeps the comparison with every known name cheap.
    if name.len() <= 64
        && let Ok(zone) = DATABASE.get(name)
    {
        return Ok(zone);
    }
    let shown: String = name.chars().take(64).collect();
    let bad = BadSchedule::new("tz", format!("there is no time zone {shown:?}"));
    Err(match nearest(&shown) {
        Some(near) => bad.hint(format!("did you mean {near:?}?")),
        None => bad.hint("use an IANA name such as \"Europe/Berlin\" or \"UTC\""),
    })
}

/// The known name that is fewest edits away, if it is near enough to be what was meant.
fn nearest(name: &str) -> Option<String> {
    let wanted = name.to_ascii_lowercase().replace(' ', "_");
    let known = zone_names();
    // People often give the city alone.
    let city = known.iter().find(|zone| {
        zone.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&wanted)) && zone.contains('/')
    });
    if let Some(zone) = city {
        return Some(zone.clone());
    }
    let nearest = known.into_iter().map(|zone| (edits(&wanted, &zone.to_ascii_lowercase()), zone)).min();
    nearest.filter(|(edits, _)| *edits <= 3).map(|(_, zone)| zone)
}

/// How many characters must be put in, taken out or changed to turn one text into the other.
pub(crate) fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &cb) in b.iter().enumerate() {
            let change = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_found_in_any_case_and_keeps_its_own_name() {
        assert_eq!(find_zone("europe/BERLIN").unwrap().iana_name(), Some("Europe/Berlin"));
    }

    #[test]
    fn an_unknown_zone_is_refused_with_the_nearest_name() {
        for (wrong, right) in [("Europe/Berln", "Europe/Berlin"), ("new york", "America/New_York")] {
            let message = find_zone(wrong).unwrap_err().to_string();
            assert!(message.contains(right), "{message}");
        }
        assert!(find_zone("Mars/Olympus_Mons").unwrap_err().to_string().contains("IANA"));
        assert!(find_zone(&"x".repeat(10_000)).is_err());
        assert!(find_zone("").is_err());
    }
}
