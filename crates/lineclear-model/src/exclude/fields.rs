//! Exclusions as manifests spell them.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::{EXCLUSIONS_MAX, Exclusion, Weekday};
use crate::text::DateText;

/// The fields of an exclusion, as manifests spell them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Fields {
    #[serde(skip_serializing_if = "Option::is_none")]
    weekdays: Option<Vec<Weekday>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dates: Option<Vec<DateText>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<DateText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<DateText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    daily: Option<String>,
}

impl TryFrom<Fields> for Exclusion {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Exclusion, String> {
        match fields {
            Fields { weekdays: Some(days), dates: None, from: None, to: None, daily: None } => {
                if Weekday::ALL.iter().all(|day| days.contains(day)) {
                    return Err("exclude.weekdays: must not exclude all seven days".into());
                }
                if days.is_empty() {
                    return Err("exclude.weekdays: must not be empty".into());
                }
                Ok(Exclusion::Weekdays(days))
            }
            Fields { weekdays: None, dates: Some(dates), from: None, to: None, daily: None } => {
                if dates.is_empty() || dates.len() > EXCLUSIONS_MAX {
                    return Err(format!("exclude.dates: must have 1 to {EXCLUSIONS_MAX} dates"));
                }
                dates
                    .iter()
                    .map(|date| parse_date("dates", date))
                    .collect::<Result<_, _>>()
                    .map(Exclusion::Dates)
            }
            Fields { weekdays: None, dates: None, from: Some(from), to: Some(to), daily: None } => {
                let (from, to) = (parse_date("from", &from)?, parse_date("to", &to)?);
                if to < from {
                    return Err(format!("exclude.to: {to} is before from, {from}; swap them"));
                }
                Ok(Exclusion::Range { from, to })
            }
            Fields { weekdays: None, dates: None, from: None, to: None, daily: Some(window) } => {
                parse_daily(&window)
            }
            _ => Err(
                "exclude: each entry is one of { weekdays = […] }, { dates = […] }, { from = …, to = … }, \
                 { daily = \"22:00-06:00\" }"
                    .into(),
            ),
        }
    }
}

fn parse_date(field: &str, text: &DateText) -> Result<Date, String> {
    let date = if text.0.len() == 10 { text.0.parse::<Date>().ok() } else { None };
    date.filter(|date| (1..9999).contains(&date.year())).ok_or_else(|| {
        let shown: String = text.0.chars().take(40).collect();
        format!("exclude.{field}: {shown:?} is not a date; write it like 2026-12-25")
    })
}

fn parse_daily(window: &str) -> Result<Exclusion, String> {
    let bad = |why: &str| {
        let shown: String = window.chars().take(40).collect();
        format!("exclude.daily: {shown:?} {why}; write it like \"22:00-06:00\"")
    };
    let (from, to) = window.split_once('-').ok_or_else(|| bad("is not a window"))?;
    let time = |text: &str| {
        let parts: Vec<&str> = text.trim().split(':').collect();
        let number =
            |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten();
        let all: Option<Vec<u32>> =
            parts.iter().map(|part| number(part).filter(|_| part.len() == 2)).collect();
        match all?[..] {
            [24, 0] => Some(86_400),
            [h @ 0..24, m @ 0..60] => Some(h * 3600 + m * 60),
            [h @ 0..24, m @ 0..60, s @ 0..60] => Some(h * 3600 + m * 60 + s),
            _ => None,
        }
    };
    let (Some(from), Some(to)) = (time(from), time(to)) else {
        return Err(bad("has a time that is not HH:MM"));
    };
    if from == to || (from == 0 && to == 86_400) {
        return Err(bad("excludes nothing or the whole day"));
    }
    // 24:00 is today's end as an end, and tomorrow's start as a start.
    Ok(Exclusion::Daily { from: from % 86_400, to })
}

impl From<Exclusion> for Fields {
    fn from(exclusion: Exclusion) -> Fields {
        let date = |date: Date| DateText(date.to_string());
        match exclusion {
            Exclusion::Weekdays(days) => Fields { weekdays: Some(days), ..Fields::default() },
            Exclusion::Dates(dates) => {
                Fields { dates: Some(dates.into_iter().map(date).collect()), ..Fields::default() }
            }
            Exclusion::Range { from, to } => {
                Fields { from: Some(date(from)), to: Some(date(to)), ..Fields::default() }
            }
            Exclusion::Daily { from, to } => {
                let time = |at: u32| match (at / 3600, at / 60 % 60, at % 60) {
                    (h, m, 0) => format!("{h:02}:{m:02}"),
                    (h, m, s) => format!("{h:02}:{m:02}:{s:02}"),
                };
                Fields { daily: Some(format!("{}-{}", time(from), time(to))), ..Fields::default() }
            }
        }
    }
}
