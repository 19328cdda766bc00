//! Standard output and standard error. Standard output may be a terminal, a file, or a pipe that closes early.

use std::io::{ErrorKind, Write};

use lineclear_model::text::is_hidden;

use crate::failure::Failure;

/// Prints all of it. A reader that closes the pipe early (`| head -1`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    try_print(text).map(|_| ())
}

/// Whether the other end of standard output still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Open,
    Closed,
}

/// Like [`print`], for callers that stop when the reader has closed the pipe.
pub(crate) fn try_print(text: &str) -> Result<Reader, Failure> {
    try_write(text.as_bytes())
}

/// Like [`try_print`], for bytes that may end in the middle of a character.
pub(crate) fn try_write(bytes: &[u8]) -> Result<Reader, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Closed),
        Err(error) => Err(Failure::failed(format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(Reader::Open),
    }
}

/// Prints a value as one line of JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::failed(error.to_string()))?;
    print(&(text + "\n"))
}

/// Prints to standard error: errors, notes and questions.
pub(crate) fn print_stderr(text: &str) {
    // The text may quote a file: control characters in it must not act on the terminal.
    let text = text.replace(|c: char| is_hidden(c) && c != '\n', "\u{fffd}");
    // Standard error may be closed; the exit code still tells.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Replaces control characters, which could act on the terminal or forge another line, and those that change the direction of text.
pub(crate) fn sanitize(text: &str) -> String {
    text.replace(is_hidden, "\u{fffd}")
}

/// Aligns columns with two spaces between them. The last column is not padded.
pub(crate) fn aligned_rows(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| sanitize(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        text.push_str(&format!("  {}\n", cells.join("  ").trim_end()));
    }
    text
}

/// The two largest units: `3d 4h`, `3h 12m`, `5m 30s`.
pub(crate) fn approx_duration(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let units =
        [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let from = units.iter().position(|(n, _)| *n > 0).unwrap_or(3);
    let shown = units[from..].iter().take(2).filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}"));
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { "0s".into() } else { shown.join(" ") }
}
