//! One cell of a table.

use std::io::IsTerminal;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::Json;
use crate::output::{plain, roughly};

/// How things look where they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// A person looks: columns are lined up, times are told from now.
    pub(crate) is_terminal: bool,
    pub(crate) color: bool,
    /// The terminal can show more than ASCII.
    pub(crate) unicode: bool,
    /// Columns of the terminal.
    pub(crate) width: usize,
    pub(crate) now: Timestamp,
}

impl Look {
    /// As standard output is.
    pub(crate) fn here() -> Look {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let is_terminal = std::io::stdout().is_terminal();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| set(name)).unwrap_or_default();
        let locale = locale.to_string_lossy().to_lowercase();
        let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok();
        let width = size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
        let told = set("COLUMNS").and_then(|text| text.to_str()?.parse().ok());
        Look {
            is_terminal,
            color: is_terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb"),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
            width: told.or(width).unwrap_or(80),
            now: Timestamp::now(),
        }
    }
}

/// What stands in a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    /// A state of something, by its word.
    State(String),
    /// A moment.
    Time(Option<Timestamp>),
    Number(i64),
    Nothing,
}

impl Cell {
    /// Text of a field, if it has one.
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

    /// An input or an output as it was written; what there is not has no text.
    pub(crate) fn written(json: Option<Json>) -> Cell {
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

    /// As it is shown, without color.
    pub(super) fn shown(&self, look: &Look) -> String {
        match self {
            Cell::Text(text) => plain(text),
            Cell::State(word) if look.is_terminal => format!("{} {}", sign(word, look.unicode), plain(word)),
            Cell::State(word) => plain(word),
            Cell::Time(Some(at)) if look.is_terminal => from_now(*at, look.now),
            Cell::Time(Some(at)) => at.to_string(),
            Cell::Number(number) => number.to_string(),
            Cell::Nothing | Cell::Time(None) => if look.is_terminal { "-" } else { "" }.to_owned(),
        }
    }

    /// The color of a state: what is well, what needs a person, what goes on.
    pub(super) fn color(&self) -> Option<&'static str> {
        let Cell::State(word) = self else { return None };
        match word.as_str() {
            "completed" | "enabled" | "alive" | "ok" | "healthy" | "live" => Some("\x1b[32m"),
            "failed" | "dead" | "awaiting" | "lost" | "degraded" => Some("\x1b[31m"),
            "running" | "ready" => Some("\x1b[36m"),
            "held" | "paused" | "retrying" | "silent" | "draining" | "drained" | "stale" | "orphan"
            | "drift" => Some("\x1b[33m"),
            _ => None,
        }
    }
}

fn sign(word: &str, unicode: bool) -> char {
    let (nice, plain) = match word {
        "completed" | "enabled" | "alive" | "ok" | "healthy" | "live" => ('✓', '+'),
        "failed" | "dead" | "awaiting" | "lost" | "degraded" => ('✕', '!'),
        "running" | "ready" => ('▶', '>'),
        "held" | "paused" | "silent" | "draining" | "drained" => ('‖', '='),
        "cancelled" => ('⊘', '-'),
        _ => ('·', '.'),
    };
    if unicode { nice } else { plain }
}

fn from_now(at: Timestamp, now: Timestamp) -> String {
    let micros = at.as_microsecond().saturating_sub(now.as_microsecond());
    let length = roughly(micros.saturating_abs());
    match micros {
        -999_999..=999_999 => "now".to_owned(),
        1_000_000.. => format!("in {length}"),
        _ => format!("{length} ago"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::show) fn look(is_terminal: bool) -> Look {
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        Look { is_terminal, color: false, unicode: true, width: 40, now }
    }

    #[test]
    fn people_see_signs_and_times_from_now_and_programs_do_not() {
        let time = Cell::Time("2026-01-01T11:55:00Z".parse().ok());
        let later = Cell::Time("2026-01-01T15:12:00Z".parse().ok());
        let state = Cell::State("dead".to_owned());
        assert_eq!(
            [&time, &later, &state].map(|cell| cell.shown(&look(true))),
            ["5m ago", "in 3h 12m", "✕ dead"]
        );
        assert_eq!(
            [&time, &state, &Cell::Nothing].map(|cell| cell.shown(&look(false))),
            ["2026-01-01T11:55:00Z", "dead", ""]
        );
        assert_eq!(state.shown(&Look { unicode: false, ..look(true) }), "! dead");
    }

    #[test]
    fn what_others_wrote_does_not_act_on_the_terminal() {
        assert_eq!(
            Cell::Text("a\x1b[2Jb\tc\nd".into()).shown(&look(false)),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d"
        );
    }
}
