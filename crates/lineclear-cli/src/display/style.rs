//! What standard output is: a terminal or not, its width, its colours.

use std::io::IsTerminal;

use jiff::Timestamp;

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputStyle {
    /// For terminals: columns are aligned, times are relative to now.
    pub(crate) is_terminal: bool,
    pub(crate) color: bool,
    /// The terminal shows more than ASCII.
    pub(crate) unicode: bool,
    /// Columns of the terminal.
    pub(crate) width: usize,
    pub(crate) now: Timestamp,
}

impl OutputStyle {
    /// The style of standard output.
    pub(crate) fn detect() -> OutputStyle {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let is_terminal = std::io::stdout().is_terminal();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| set(name)).unwrap_or_default();
        let locale = locale.to_string_lossy().to_lowercase();
        let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok();
        let width = size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
        let columns = set("COLUMNS").and_then(|text| text.to_str()?.parse().ok());
        OutputStyle {
            is_terminal,
            color: is_terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb"),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
            width: columns.or(width).unwrap_or(80),
            now: Timestamp::now(),
        }
    }
}
