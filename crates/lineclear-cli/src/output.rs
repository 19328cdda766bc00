//! Standard output, which may be a terminal, a file, or a pipe that closes early.

use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Prints all of it. A reader that has seen enough (`| head -1`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_on(text).map(|_| ())
}

/// Whether somebody reads what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Somebody,
    Nobody,
}

/// The same, for who goes on printing only while somebody reads.
pub(crate) fn print_on(text: &str) -> Result<Told, Failure> {
    write_on(text.as_bytes())
}

/// The same, for what may be cut in the middle of a character.
pub(crate) fn write_on(bytes: &[u8]) -> Result<Told, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Told::Nobody),
        Err(error) => Err(Failure::failed(format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(Told::Somebody),
    }
}

/// Prints a value as one line of JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::failed(error.to_string()))?;
    print(&(text + "\n"))
}

/// What is shown may come from anybody: nothing in it may act on the terminal, or pretend to be another line.
pub(crate) fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// Lines up columns with two spaces between them. The last column is left as it is.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
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

/// `3d 4h`, `3h 12m`, `5m 30s`: the two largest units are enough for a person.
pub(crate) fn roughly(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let units =
        [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let from = units.iter().position(|(n, _)| *n > 0).unwrap_or(3);
    let shown = units[from..].iter().take(2).filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}"));
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { "0s".into() } else { shown.join(" ") }
}
