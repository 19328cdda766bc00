//! One cell of a table.

use jiff::Timestamp;
use serde_json::Value;

use super::style::OutputStyle;
use crate::api_client::Json;
use crate::output::{approx_duration, sanitize};

/// The content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    /// A state, such as `running`.
    State(String),
    /// A moment.
    Time(Option<Timestamp>),
    Number(i64),
    Nothing,
}

impl Cell {
    /// The text of a field.
    pub(crate) fn text(value: Option<&Value>) -> Cell {
        match value {
            Some(Value::String(text)) => Cell::Text(text.clone()),
            Some(Value::Number(number)) => {
                number.as_i64().map_or(Cell::Text(number.to_string()), Cell::Number)
            }
            Some(Value::Bool(yes)) => Cell::Text(if *yes { "yes" } else { "no" }.to_owned()),
            Some(Value::Array(all)) => {
                let words = all.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned));
                Cell::Text(words.collect::<Vec<_>>().join(","))
            }
            None | Some(Value::Null) => Cell::Nothing,
            Some(other) => Cell::Text(other.to_string()),
        }
    }

    /// An input or an output, as written.
    pub(crate) fn raw_json(json: Option<Json>) -> Cell {
        match json {
            Some(json) if !json.is_null() => Cell::Text(json.text().to_owned()),
            _ => Cell::Nothing,
        }
    }

    pub(crate) fn state(value: Option<&Value>) -> Cell {
        value.and_then(Value::as_str).map_or(Cell::Nothing, |word| Cell::State(word.to_owned()))
    }

    pub(crate) fn time(value: Option<&Value>) -> Cell {
        Cell::Time(value.and_then(Value::as_str).and_then(|text| text.parse().ok()))
    }

    /// The text without colour.
    pub(super) fn render(&self, style: &OutputStyle) -> String {
        match self {
            Cell::Text(text) => sanitize(text),
            Cell::State(word) if style.is_terminal => {
                format!("{} {}", sign(word, style.unicode), sanitize(word))
            }
            Cell::State(word) => sanitize(word),
            Cell::Time(Some(at)) if style.is_terminal => from_now(*at, style.now),
            Cell::Time(Some(at)) => at.to_string(),
            Cell::Number(number) => number.to_string(),
            Cell::Nothing | Cell::Time(None) => if style.is_terminal { "-" } else { "" }.to_owned(),
        }
    }

    /// The colour of a state: green is good, red needs attention, cyan is active, yellow is suspended.
    pub(super) fn color(&self) -> Option<&'static str> {
        let Cell::State(word) = self else { return None };
        match word.as_str() {
            "completed" | "enabled" | "alive" | "ok" | "healthy" | "live" => Some("\x1b[32m"),
            "failed" | "failing" | "dead" | "awaiting" | "lost" | "degraded" | "breaker open" | "no node"
            | "no worker" => Some("\x1b[31m"),
            "running" | "ready" => Some("\x1b[36m"),
            "held" | "paused" | "retrying" | "silent" | "draining" | "drained" | "stale" | "orphan"
            | "drift" => Some("\x1b[33m"),
            _ => None,
        }
    }
}

fn sign(word: &str, unicode: bool) -> char {
    let (unicode_sign, ascii_sign) = match word {
        "completed" | "enabled" | "alive" | "ok" | "healthy" | "live" => ('✓', '+'),
        "failed" | "dead" | "awaiting" | "lost" | "degraded" | "breaker open" | "no node" | "no worker" => {
            ('✕', '!')
        }
        "running" | "ready" => ('▶', '>'),
        "held" | "paused" | "silent" | "draining" | "drained" => ('‖', '='),
        "cancelled" => ('⊘', '-'),
        _ => ('·', '.'),
    };
    if unicode { unicode_sign } else { ascii_sign }
}

fn from_now(at: Timestamp, now: Timestamp) -> String {
    let micros = at.as_microsecond().saturating_sub(now.as_microsecond());
    let length = approx_duration(micros.saturating_abs());
    match micros {
        -999_999..=999_999 => "now".to_owned(),
        1_000_000.. => format!("in {length}"),
        _ => format!("{length} ago"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::display) fn style(is_terminal: bool) -> OutputStyle {
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        OutputStyle { is_terminal, color: false, unicode: true, width: 40, now }
    }

    #[test]
    fn a_terminal_gets_signs_and_relative_times_and_a_pipe_does_not() {
        let time = Cell::Time("2026-01-01T11:55:00Z".parse().ok());
        let later = Cell::Time("2026-01-01T15:12:00Z".parse().ok());
        let state = Cell::State("dead".to_owned());
        assert_eq!(
            [&time, &later, &state].map(|cell| cell.render(&style(true))),
            ["5m ago", "in 3h 12m", "✕ dead"]
        );
        assert_eq!(
            [&time, &state, &Cell::Nothing].map(|cell| cell.render(&style(false))),
            ["2026-01-01T11:55:00Z", "dead", ""]
        );
        assert_eq!(state.render(&OutputStyle { unicode: false, ..style(true) }), "! dead");
    }

    #[test]
    fn control_characters_do_not_act_on_the_terminal() {
        assert_eq!(
            Cell::Text("a\x1b[2Jb\tc\nd".into()).render(&style(false)),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d"
        );
        let reordered = Cell::Text("invoice\u{202e}gpj.exe\u{2066}".into()).render(&style(true));
        assert_eq!(reordered, "invoice\u{fffd}gpj.exe\u{fffd}");
    }
}
