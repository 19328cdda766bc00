//! Tables: aligned and shortened to fit the terminal, or tab-separated for programs.

use super::cell::Cell;
use super::style::OutputStyle;
use crate::api_client::Json;
use crate::failure::Failure;
use crate::output::print;

/// A column: its heading, and its cell of a row.
pub(crate) struct Column {
    pub(crate) head: &'static str,
    pub(crate) of: fn(&Json) -> Cell,
}

/// Columns are not made narrower than this.
const WIDTH_MIN: usize = 8;
const GAP: &str = "  ";

/// Prints rows. If the terminal is too narrow, the last columns are left out.
pub(crate) fn print_table(columns: &[Column], rows: &[Json], style: &OutputStyle) -> Result<(), Failure> {
    let cells: Vec<Vec<Cell>> =
        rows.iter().map(|row| columns.iter().map(|column| (column.of)(row)).collect()).collect();
    let heads: Vec<String> = columns.iter().map(|column| column.head.to_owned()).collect();
    print(&if style.is_terminal {
        render_aligned(&heads, &cells, style)
    } else {
        render_tsv(&heads, &cells, style)
    })
}

fn render_tsv(heads: &[String], rows: &[Vec<Cell>], style: &OutputStyle) -> String {
    let mut text = heads.join("\t") + "\n";
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.render(style)).collect();
        text.push_str(&(cells.join("\t") + "\n"));
    }
    text
}

fn render_aligned(heads: &[String], rows: &[Vec<Cell>], style: &OutputStyle) -> String {
    let shown: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| cell.render(style)).collect()).collect();
    let widths = fit(&widths(heads, &shown), style.width);
    let mut text = String::new();
    let head: Vec<String> =
        heads.iter().zip(&widths).map(|(head, width)| pad(&shorten(head, *width, style), *width)).collect();
    let head = head.join(GAP);
    text.push_str(&if style.color {
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
                let text = shorten(text, *width, style);
                let padded = match cell {
                    Cell::Number(_) => format!("{text:>width$}"),
                    _ => pad(&text, *width),
                };
                match cell.color().filter(|_| style.color) {
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

/// Narrows columns, the widest first; if that is not enough, drops the last ones.
fn fit(widths: &[usize], room: usize) -> Vec<usize> {
    let mut widths = widths.to_vec();
    loop {
        let total: usize = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
        if total <= room || widths.len() <= 1 {
            return widths;
        }
        match widths.iter_mut().max() {
            Some(widest) if *widest > WIDTH_MIN => {
                *widest = widest.saturating_sub(total - room).max(WIDTH_MIN)
            }
            _ => drop(widths.pop()),
        }
    }
}

/// Shortens text in the middle, because names differ at their ends.
fn shorten(text: &str, width: usize, style: &OutputStyle) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let mark = if style.unicode { "…" } else { "~" };
    let kept = width.saturating_sub(1);
    let (front, back) = (kept - kept / 3, kept / 3);
    let head: String = text.chars().take(front).collect();
    let tail: String = text.chars().skip(length - back).collect();
    format!("{head}{mark}{tail}")
}

fn pad(text: &str, width: usize) -> String {
    format!("{text:width$}")
}

/// Prints the fields of one resource, a line each, without those that have no value.
pub(crate) fn print_fields(columns: &[Column], row: &Json, style: &OutputStyle) -> Result<(), Failure> {
    let cells: Vec<(&str, Cell)> = columns.iter().map(|column| (column.head, (column.of)(row))).collect();
    let cells: Vec<_> =
        cells.iter().filter(|(_, cell)| !matches!(cell, Cell::Nothing | Cell::Time(None))).collect();
    let width = cells.iter().map(|(head, _)| head.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (head, cell) in cells {
        let both = match cell {
            // A line has room for both forms.
            Cell::Time(Some(at)) if style.is_terminal => format!("{at} ({})", cell.render(style)),
            _ => cell.render(style),
        };
        text.push_str(&if style.is_terminal {
            format!("{head:width$}  {both}\n")
        } else {
            format!("{head}\t{both}\n")
        });
    }
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::super::cell::tests::style;
    use super::*;

    #[test]
    fn a_table_fits_the_terminal_and_drops_the_last_columns_first() {
        let heads = ["ID", "KIND", "ERROR"].map(str::to_owned);
        let row = vec![Cell::Number(7), Cell::Text("x".repeat(60)), Cell::Text("e".repeat(60))];
        let text = render_aligned(&heads, std::slice::from_ref(&row), &style(true));
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("x…x") && text.contains("e…e") && text.starts_with("ID"), "{text}");
        let narrow = render_aligned(&heads, &[row], &OutputStyle { width: 12, ..style(true) });
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 12) && !narrow.contains("ERROR"),
            "{narrow}"
        );
    }

    #[test]
    fn a_pipe_gets_all_columns_with_tabs() {
        let heads = ["ID", "KIND"].map(str::to_owned);
        let text = render_tsv(&heads, &[vec![Cell::Number(7), Cell::Text("x".repeat(90))]], &style(false));
        assert_eq!(text, format!("ID\tKIND\n7\t{}\n", "x".repeat(90)));
    }
}
