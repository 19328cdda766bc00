//! Checks: a sign, one sentence, and what to do.

use serde_json::Value;

use super::cell::Look;
use crate::output::plain;

/// Columns of the sign and the name, before the sentence.
const MARGIN: usize = 19;

/// The sign of a finding.
pub(crate) fn sign(finding: &str, look: &Look) -> String {
    let (nice, simple, color) = match finding {
        "ok" => ("✓", "+", "\x1b[32m"),
        "warning" => ("!", "!", "\x1b[33m"),
        "failure" => ("✕", "x", "\x1b[31m"),
        _ => ("·", ".", "\x1b[2m"),
    };
    let sign = if look.unicode { nice } else { simple };
    if look.color { format!("{color}{sign}\x1b[0m") } else { sign.to_owned() }
}

/// One check, for a person: lines that fit.
pub(crate) fn check(check: &Value, look: &Look) -> String {
    let text = |name: &str| check.get(name).and_then(Value::as_str).unwrap_or_default();
    let says = folded(&plain(text("says")), look.width.saturating_sub(MARGIN), "");
    let mut shown = format!("  {} {:14} {says}\n", sign(text("finding"), look), plain(text("check")));
    if let Some(todo) = check.get("todo").and_then(Value::as_str) {
        let arrow = if look.unicode { "→ " } else { "> " };
        let todo = folded(&plain(todo), look.width.saturating_sub(MARGIN + 2), "  ");
        shown.push_str(&format!("{:MARGIN$}{arrow}{todo}\n", ""));
    }
    // To be copied: it is neither folded nor aligned.
    for line in check.get("sql").and_then(Value::as_str).into_iter().flat_map(str::lines) {
        shown.push_str(&format!("      {}\n", plain(line)));
    }
    shown
}

/// One check, for a program: finding, group, name, sentence, what to do, SQL. One line: those of SQL are joined by `\n`, as
/// `printf %b` takes it.
pub(crate) fn tabbed(check: &Value) -> String {
    let text = |name: &str| plain(check.get(name).and_then(Value::as_str).unwrap_or_default());
    let sql = check.get("sql").and_then(Value::as_str).unwrap_or_default();
    let sql = sql.replace('\\', "\\\\").replace('\n', "\\n");
    let cells = [text("finding"), text("group"), text("check"), text("says"), text("todo"), plain(&sql)];
    cells.join("\t") + "\n"
}

/// Broken into lines between words, the later ones below the first.
fn folded(text: &str, width: usize, hang: &str) -> String {
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
    lines.join(&format!("\n{:MARGIN$}{hang}", ""))
}

#[cfg(test)]
mod tests {
    use super::super::cell::tests::look;
    use super::*;

    #[test]
    fn a_check_fits_the_terminal_and_says_what_to_do() {
        let failed = serde_json::json!({"group": "nodes", "check": "alive", "finding": "failure",
            "says": "no node is alive, so nothing runs; a was heard of last, 3h ago", "todo": "start one: lineclear serve",
            "sql": "create index x\non y (z);"});
        let shown = check(&failed, &look(true));
        assert!(shown.lines().all(|line| line.chars().count() <= 41), "{shown}");
        assert!(shown.starts_with("  ✕ alive          no node"), "{shown}");
        assert!(
            shown.contains("→ start one:") && shown.contains("\n      create index x\n      on y (z);\n"),
            "{shown}"
        );
        let plain = check(&failed, &Look { unicode: false, ..look(true) });
        assert!(plain.is_ascii() && plain.starts_with("  x alive"), "{plain}");
        assert_eq!(
            tabbed(&failed),
            "failure\tnodes\talive\tno node is alive, so nothing runs; a was heard of last, 3h ago\tstart one: lineclear serve\tcreate index x\\non y (z);\n"
        );
    }
}
