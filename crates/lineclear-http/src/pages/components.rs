//! Components of pages. maud escapes all data.

pub(super) mod chart;

use std::fmt::Write;

use lineclear::store::COUNT_MAX;
use lineclear_model::text::is_hidden;
use lineclear_model::{JobState, Micros};
use maud::{Markup, html};

/// Characters of an error in a list.
const LINE_CHARS: usize = 140;

/// The badge of a state, never by colour alone.
pub(super) fn state(state: JobState) -> Markup {
    html! { span class={ "badge " (state.as_str()) } { span.glyph aria-hidden="true" { (glyph(state.as_str())) } " " (state.as_str()) } }
}

/// The glyph of a state of a job, an outcome or a node.
pub(super) fn glyph(word: &str) -> &'static str {
    match word {
        "scheduled" => "◷",
        "queued" | "awaiting" => "○",
        "ready" => "◔",
        "running" => "●",
        "retrying" | "retried" | "draining" => "↻",
        "completed" | "alive" | "ok" => "✓",
        "cancelled" | "acknowledged" | "drained" | "released" | "snoozed" => "⊘",
        "held" | "parked" | "paused" => "‖",
        "silent" => "◌",
        _ => "✕",
    }
}

/// A time in UTC; the script replaces it by a relative one.
pub(super) fn moment(at: Micros) -> Markup {
    html! { time datetime=(at) { (clock(at)) } }
}

/// The duration since a time.
pub(super) fn since(at: Micros) -> Markup {
    html! { time datetime=(at) data-since { "since " (clock(at)) } }
}

/// `2026-11-16 17:42:07 UTC`.
pub(super) fn clock(at: Micros) -> String {
    let text = at.to_string();
    let (date, time) = text.split_once('T').unwrap_or((&text, ""));
    format!("{date} {} UTC", time.get(..8).unwrap_or(time))
}

/// A duration in one or two units.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        3_600_000..86_400_000 => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
        _ => format!("{} d {} h", ms / 86_400_000, ms % 86_400_000 / 3_600_000),
    }
}

/// The duration between two times.
pub(super) fn between(from: Micros, to: Micros) -> String {
    duration(u64::try_from((to.get() - from.get()) / 1_000).unwrap_or(0))
}

/// A number with thousands separators.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A bounded count.
pub(super) fn count(count: u64) -> String {
    let most = u64::from(COUNT_MAX);
    if count >= most { format!("{}+", number(most)) } else { number(count) }
}

/// The first line, shortened.
pub(super) fn first_line(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let mut cut: String = first.chars().take(LINE_CHARS).collect();
    if cut.len() < text.trim_end().len() {
        cut.push('…');
    }
    cut
}

/// Percent-encodes a query value.
pub(super) fn escape_query(text: &str) -> String {
    let mut address = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'-'
            | b'.'
            | b'_'
            | b'~'
            | b'/'
            | b':'
            | b','
            | b'*' => {
                address.push(char::from(byte));
            }
            _ => {
                let _ = write!(address, "%{byte:02X}");
            }
        }
    }
    address
}

/// Decodes a query value.
pub(super) fn unescape_query(text: &str) -> String {
    let bytes = text.replace('+', " ").into_bytes();
    let (mut plain, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let coded = (byte == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let coded = coded.and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        plain.push(coded.unwrap_or(byte));
        at += if coded.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Quotes a word for a shell. A terminal acts on control characters while a command is pasted, whatever the quotes, so these, and
/// characters that hide others, become escapes: `$'…'` of bash, ksh and zsh.
pub(super) fn shell_quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/');
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.contains(is_hidden) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let mut quoted = "$'".to_owned();
    for c in word.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\'' | '\\' => quoted.extend(['\\', c]),
            c if is_hidden(c) => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(quoted, "\\{byte:03o}");
                }
            }
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// The CLI command for the same. One that a terminal would not take as plain text has no button.
pub(super) fn cli_hint(command: &str) -> Markup {
    let is_safe = !command.contains(is_hidden);
    html! { div.cli { span.muted { "CLI" } code { (command) } @if is_safe { button.tool.script type="button" data-copy=(command) { "Copy" } } } }
}

/// An empty state: what would be here, and how to get it.
pub(super) fn empty_state(what: &str, how: Markup) -> Markup {
    html! { div.empty { p.what { (what) } (how) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_numbers_are_short() {
        let all =
            [(0, "0 ms"), (999, "999 ms"), (1_234, "1.2 s"), (61_000, "1 min 1 s"), (3_661_000, "1 h 1 min")];
        for (ms, text) in all {
            assert_eq!(duration(ms), text);
        }
        assert_eq!(duration(90_000_000), "1 d 1 h");
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((count(9_999), count(10_000)), ("9\u{202f}999".to_owned(), "10\u{202f}000+".to_owned()));
    }

    #[test]
    fn a_word_of_a_command_is_one_word() {
        for (word, said) in [
            ("nightly", "nightly"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's; rm -r /", "'it'\\''s; rm -r /'"),
            ("-x", "'-x'"),
            ("$(x)", "'$(x)'"),
        ] {
            assert_eq!(shell_quote(word), said);
        }
    }

    #[test]
    fn a_copied_command_is_plain_text_for_a_terminal() {
        for (word, said) in [
            ("a\nrm -r /", r"$'a\nrm -r /'"),
            ("\u{1b}[201~\r'\\", r"$'\033[201~\015\'\\'"),
            ("\u{9b}x\t\u{3}", r"$'\302\233x\t\003'"),
            ("é\u{202e}gpj.exe\u{200b}", r"$'é\342\200\256gpj.exe\342\200\213'"),
        ] {
            assert_eq!(shell_quote(word), said);
            // A shell reads the same word.
            let read = std::process::Command::new("bash").args(["-c", &format!("printf %s {said}")]).output();
            assert_eq!(String::from_utf8(read.unwrap().stdout).unwrap(), word);
        }
        let shown = cli_hint("lineclear job get 7\n\u{202e}x").into_string();
        assert!(!shown.contains("data-copy"), "{shown}");
    }

    #[test]
    fn values_come_back_from_addresses() {
        for text in ["state:dead kind:a-*", "error:\"50 % + é\"", "&=?#<script>", ""] {
            assert_eq!(unescape_query(&escape_query(text)), text);
        }
        assert_eq!(unescape_query("a+b%2"), "a b%2");
    }

    #[test]
    fn untrusted_text_is_escaped() {
        let shown = cli_hint("<script>alert(1)</script>\" onload=\"x").into_string();
        assert!(!shown.contains("<script") && !shown.contains("\" onload"), "{shown}");
    }
}
