//! Rows of cells, lined up and cut so that they fit; or with tabs between them, for programs.

use super::cell::{Cell, Look};
use crate::api::Json;
use crate::failure::Failure;
use crate::output::print;

/// A column: its head, and what a row has in it.
pub(crate) struct Column {
    pub(crate) head: &'static str,
    pub(crate) of: fn(&Json) -> Cell,
}

/// A cell is not made narrower than this.
const NARROWEST: usize = 8;
const GAP: &str = "  ";

/// Prints rows. The last columns are the first to go when there is no room.
pub(crate) fn list(columns: &[Column], rows: &[Json], look: &Look) -> Result<(), Failure> {
    let cells: Vec<Vec<Cell>> =
        rows.iter().map(|row| columns.iter().map(|column| (column.of)(row)).collect()).collect();
    let heads: Vec<String> = columns.iter().map(|column| column.head.to_owned()).collect();
    print(&if look.is_terminal { lined_up(&heads, &cells, look) } else { tabbed(&heads, &cells, look) })
}

fn tabbed(heads: &[String], rows: &[Vec<Cell>], look: &Look) -> String {
    let mut text = heads.join("\t") + "\n";
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.shown(look)).collect();
        text.push_str(&(cells.join("\t") + "\n"));
    }
    text
}

fn lined_up(heads: &[String], rows: &[Vec<Cell>], look: &Look) -> String {
    let shown: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| cell.shown(look)).collect()).collect();
    let widths = fitting(&widths(heads, &shown), look.width);
    let mut text = String::new();
    let head: Vec<String> =
        heads.iter().zip(&widths).map(|(head, width)| pad(&cut(head, *width, look), *width)).collect();
    let head = head.join(GAP);
    text.push_str(&if look.color {
        format!("\x1b[2m{}\x1b[0m\n", head.trim_end())
    } else {
        head.trim_end().to_owned() + "\n"
    });
    for (cells, row) in rows.iter().zip(&shown) {
        let line: Vec<String> = cells
            .iter()
            .zip(row)
            .zip(&widths)
            .map(|((cell, text), width)| {
                let text = cut(text, *width, look);
                let padded = match cell {
                    Cell::Number(_) => format!("{text:>width$}"),
                    _ => pad(&text, *width),
                };
                match cell.color().filter(|_| look.color) {
                    Some(color) => format!("{color}{padded}\x1b[0m"),
                    None => padded,
                }
            })
            .collect();
        text.push_str(line.join(GAP).trim_end());
        text.push('\n');
    }
    text
}

fn widths(heads: &[String], rows: &[Vec<String>]) -> Vec<usize> {
    let length = |text: &String| text.chars().count();
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(length).max().unwrap_or(0);
    heads.iter().enumerate().map(|(column, head)| widest(column).max(length(head))).collect()
}

/// Narrower columns, the widest first; if that is not enough, fewer.
fn fitting(widths: &[usize], room: usize) -> Vec<usize> {
    let mut widths = widths.to_vec();
    loop {
        let total: usize = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
        if total <= room || widths.len() <= 1 {
            return widths;
        }
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => {
                *widest = widest.saturating_sub(total - room).max(NARROWEST)
            }
            _ => drop(widths.pop()),
        }
    }
}

/// Without its middle if it is too long: names differ at their ends.
fn cut(text: &str, width: usize, look: &Look) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let mark = if look.unicode { "…" } else { "~" };
    let kept = width.saturating_sub(1);
    let (front, back) = (kept - kept / 3, kept / 3);
    let head: String = text.chars().take(front).collect();
    let tail: String = text.chars().skip(length - back).collect();
    format!("{head}{mark}{tail}")
}

fn pad(text: &str, width: usize) -> String {
    format!("{text:width$}")
}

/// Prints the fields of one thing, a line each; those that it does not have are left out.
pub(crate) fn fields(columns: &[Column], row: &Json, look: &Look) -> Result<(), Failure> {
    let cells: Vec<(&str, Cell)> = columns.iter().map(|column| (column.head, (column.of)(row))).collect();
    let cells: Vec<_> =
        cells.iter().filter(|(_, cell)| !matches!(cell, Cell::Nothing | Cell::Time(None))).collect();
    let width = cells.iter().map(|(head, _)| head.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (head, cell) in cells {
        let both = match cell {
            // One has room for both.
            Cell::Time(Some(at)) if look.is_terminal => format!("{at} ({})", cell.shown(look)),
            _ => cell.shown(look),
        };
        text.push_str(&if look.is_terminal {
            format!("{head:width$}  {both}\n")
        } else {
            format!("{head}\t{both}\n")
        });
    }
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::super::cell::tests::look;
    use super::*;

    #[test]
    fn a_table_fits_the_terminal_and_drops_the_last_columns_first() {
        let heads = ["ID", "KIND", "ERROR"].map(str::to_owned);
        let row = vec![Cell::Number(7), Cell::Text("x".repeat(60)), Cell::Text("e".repeat(60))];
        let text = lined_up(&heads, std::slice::from_ref(&row), &look(true));
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("x…x") && text.contains("e…e") && text.starts_with("ID"), "{text}");
        let narrow = lined_up(&heads, &[row], &Look { width: 12, ..look(true) });
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 12) && !narrow.contains("ERROR"),
            "{narrow}"
        );
    }

    #[test]
    fn programs_get_all_of_it_with_tabs() {
        let heads = ["ID", "KIND"].map(str::to_owned);
        let text = tabbed(&heads, &[vec![Cell::Number(7), Cell::Text("x".repeat(90))]], &look(false));
        assert_eq!(text, format!("ID\tKIND\n7\t{}\n", "x".repeat(90)));
    }
}
