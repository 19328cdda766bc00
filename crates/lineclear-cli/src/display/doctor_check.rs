//! A check of `doctor`: a sign, a sentence, and what to do.

use serde_json::Value;

use super::style::OutputStyle;
use crate::output::sanitize;

/// Width of the sign and the name, before the sentence.
const MARGIN: usize = 19;

/// The sign of a finding.
pub(crate) fn sign(finding: &str, style: &OutputStyle) -> String {
    let (unicode_sign, ascii_sign, color) = match finding {
        "ok" => ("✓", "+", "\x1b[32m"),
        "warning" => ("!", "!", "\x1b[33m"),
        "failure" => ("✕", "x", "\x1b[31m"),
        _ => ("·", ".", "\x1b[2m"),
    };
    let sign = if style.unicode { unicode_sign } else { ascii_sign };
    if style.color { format!("{color}{sign}\x1b[0m") } else { sign.to_owned() }
}

/// A check for people: lines that fit the terminal.
pub(crate) fn render(check: &Value, style: &OutputStyle) -> String {
    let text = |name: &str| check.get(name).and_then(Value::as_str).unwrap_or_default();
    let message = wrap(&sanitize(text("message")), style.width.saturating_sub(MARGIN), "");
    let mut shown = format!("  {} {:14} {message}\n", sign(text("finding"), style), sanitize(text("check")));
    if let Some(remedy) = check.get("remedy").and_then(Value::as_str) {
        let arrow = if style.unicode { "→ " } else { "> " };
        let remedy = wrap(&sanitize(remedy), style.width.saturating_sub(MARGIN + 2), "  ");
        shown.push_str(&format!("{:MARGIN$}{arrow}{remedy}\n", ""));
    }
    // To be copied: neither wrapped nor aligned.
    for line in check.get("sql").and_then(Value::as_str).into_iter().flat_map(str::lines) {
        shown.push_str(&format!("      {}\n", sanitize(line)));
    }
    shown
}

/// A check for programs: finding, group, name, sentence, what to do, SQL. One line: line breaks in SQL are `\n`, as `printf %b`
/// reads them.
pub(crate) fn render_tsv(check: &Value) -> String {
    let text = |name: &str| sanitize(check.get(name).and_then(Value::as_str).unwrap_or_default());
    let sql = check.get("sql").and_then(Value::as_str).unwrap_or_default();
    let sql = sql.replace('\\', "\\\\").replace('\n', "\\n");
    let cells =
        [text("finding"), text("group"), text("check"), text("message"), text("remedy"), sanitize(&sql)];
    cells.join("\t") + "\n"
}

/// Wraps text between words; later lines are indented.
fn wrap(text: &str, width: usize, indent: &str) -> String {
    let width = width.max(20);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join(&format!("\n{:MARGIN$}{indent}", ""))
}

#[cfg(test)]
mod tests {
    use super::super::cell::tests::style;
    use super::*;

    #[test]
    fn a_check_fits_the_terminal_and_says_what_to_do() {
        let failed = serde_json::json!({"group": "nodes", "check": "alive", "finding": "failure",
            "message": "no node is alive, so nothing runs; a was heard of last, 3h ago", "remedy": "start one: lineclear serve",
            "sql": "create index x\non y (z);"});
        let shown = render(&failed, &style(true));
        assert!(shown.lines().all(|line| line.chars().count() <= 41), "{shown}");
        assert!(shown.starts_with("  ✕ alive          no node"), "{shown}");
        assert!(
            shown.contains("→ start one:") && shown.contains("\n      create index x\n      on y (z);\n"),
            "{shown}"
        );
        let plain = render(&failed, &OutputStyle { unicode: false, ..style(true) });
        assert!(plain.is_ascii() && plain.starts_with("  x alive"), "{plain}");
        assert_eq!(
            render_tsv(&failed),
            "failure\tnodes\talive\tno node is alive, so nothing runs; a was heard of last, 3h ago\tstart one: lineclear serve\tcreate index x\\non y (z);\n"
        );
    }
}
