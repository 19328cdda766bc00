//! Characters that reorder or hide text become visible in pages. A name or an error could otherwise look like another one.

use std::fmt::Write;

use lineclear_model::text::is_hidden;

/// Replaces hidden characters in the text of a page. Attributes and fields of forms stay: their values are sent, not shown.
pub(super) fn visible(html: String) -> String {
    let is_shown = |c: char| is_hidden(c) && !matches!(c, '\n' | '\r' | '\t');
    if !html.contains(is_shown) {
        return html;
    }
    let mut shown = String::with_capacity(html.len() + 64);
    let (mut in_tag, mut in_field) = (false, false);
    for (at, c) in html.char_indices() {
        if c == '<' {
            in_tag = true;
            in_field =
                html[at..].starts_with("<textarea") || (in_field && !html[at..].starts_with("</textarea"));
        } else if c == '>' {
            in_tag = false;
        }
        if is_shown(c) && !in_tag && !in_field {
            let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown_in_text_and_kept_in_fields() {
        for (html, shown) in [
            ("<td>a b</td>", "<td>a b</td>"),
            ("<td>a\u{202e}b\n</td>", "<td>a⟨U+202E⟩b\n</td>"),
            ("<td>a\u{200b}b\u{feff}</td>", "<td>a⟨U+200B⟩b⟨U+FEFF⟩</td>"),
            ("<td title=\"\u{202e}\">\u{1b}[2J</td>", "<td title=\"\u{202e}\">⟨U+001B⟩[2J</td>"),
            (
                "<textarea name=\"x\">a\u{2067}b</textarea>\u{2067}",
                "<textarea name=\"x\">a\u{2067}b</textarea>⟨U+2067⟩",
            ),
            ("שלום 1\u{202f}000", "שלום 1\u{202f}000"),
        ] {
            assert_eq!(visible(html.to_owned()), shown);
        }
    }
}
