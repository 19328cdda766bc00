//! Lengths of time as people write them: `90s`, `5m`, `1h30m`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// Longest length, ten years. Everything above is a mistake, and below it no sum of two moments can overflow.
pub const DURATION_MAX: Duration = Duration::from_secs(3650 * 86_400);

/// The units from long to short, with their length in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Why a text is not a length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a length of time: {why}; write it like `90s`, `5m` or `1h30m`")]
pub struct BadDuration {
    text: String,
    why: String,
}

/// Reads `1d`, `2h`, `5m`, `90s`, `250ms` and sums such as `1h30m`, longest unit first.
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    let bad = |why: String| BadDuration { text: text.chars().take(40).collect(), why };
    if text.is_empty() {
        return Err(bad("it is empty".into()));
    }
    let (mut rest, mut total, mut longest_left) = (text, 0u64, 0usize);
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == 0 {
            return Err(bad(format!("a number is missing before {rest:?}")));
        }
        let (number, after) = rest.split_at(digits);
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (unit, after) = after.split_at(letters);
        if unit.is_empty() {
            return Err(bad(format!("{number} has no unit (d, h, m, s, ms)")));
        }
        let at = UNITS.iter().position(|&(word, _)| word == unit);
        let at = at.ok_or_else(|| bad(format!("{unit:?} is not a unit (d, h, m, s, ms)")))?;
        if at < longest_left {
            return Err(bad(format!("{unit:?} stands after a shorter or equal unit")));
        }
        longest_left = at + 1;
        let millis = number.parse::<u64>().ok().and_then(|n| n.checked_mul(UNITS[at].1));
        total = millis
            .and_then(|millis| total.checked_add(millis))
            .filter(|&millis| u128::from(millis) <= DURATION_MAX.as_millis())
            .ok_or_else(|| bad("the longest is 3650d".into()))?;
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

/// Writes a length the way [`parse`] reads it. Anything below a millisecond is dropped.
pub fn format(length: Duration) -> String {
    let mut left = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    if left == 0 {
        return "0s".into();
    }
    let mut text = String::new();
    for (unit, millis) in UNITS {
        if left >= millis {
            text.push_str(&format!("{}{unit}", left / millis));
            left %= millis;
        }
    }
    text
}

/// The length in microseconds, the unit of [`crate::Micros`].
pub(crate) fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

/// For `#[serde(with = "duration")]`.
pub fn serialize<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*length))
}

/// For `#[serde(with = "duration")]`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// For `#[serde(with = "duration::option")]`.
pub mod option {
    use super::*;

    /// Writes the length, or nothing.
    pub fn serialize<S: Serializer>(length: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match length {
            Some(length) => super::serialize(length, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a length, or nothing.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| parse(&text).map_err(D::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_written_the_same_way() {
        for text in ["90s", "5m", "1h30m", "250ms", "1d", "2d3h4m5s6ms", "0s"] {
            let length = parse(text).unwrap();
            assert_eq!(parse(&format(length)), Ok(length), "{text}");
        }
        assert_eq!(format(Duration::from_secs(90)), "1m30s");
        assert_eq!(parse("90s"), Ok(Duration::from_secs(90)));
    }

    #[test]
    fn a_bad_length_is_refused_with_the_reason() {
        for (text, part) in [
            ("", "empty"),
            ("5", "no unit"),
            ("m", "a number is missing"),
            ("-5m", "a number is missing"),
            ("5 m", "no unit"),
            ("5min", "is not a unit"),
            ("5m1h", "after a shorter"),
            ("5m5m", "after a shorter"),
            ("1.5h", "no unit"),
            ("99999999999999999999s", "longest"),
            ("4000d", "longest"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text:?}: {message}");
        }
    }
}
