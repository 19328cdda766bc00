//! Documents: one title each, and links that lead somewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::Files;

fn documents(files: &Files) -> impl Iterator<Item = (&String, &String)> {
    files.iter().filter(|(path, _)| path.ends_with(".md"))
}

/// Documents that do not have exactly one `# ` title.
pub(crate) fn without_one_title(files: &Files) -> Vec<String> {
    let titles = |text: &str| prose(text).filter(|line| line.starts_with("# ")).count();
    let counted = documents(files).map(|(path, text)| (path, titles(text)));
    counted
        .filter(|(_, titles)| *titles != 1)
        .map(|(path, titles)| format!("{path}: {titles} titles"))
        .collect()
}

/// Links to files, folders or headings that are not there. Links out of the repository are not followed.
pub(crate) fn dead_links(files: &Files) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in documents(files) {
        for link in prose(text).flat_map(links) {
            if !is_elsewhere(&link) && !resolves(files, path, &link) {
                complaints.push(format!("{path}: dead link {link}"));
            }
        }
    }
    complaints
}

/// Lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Targets of `[text](target)` and `[text]: target`. Text in backquotes is code and no link.
fn links(line: &str) -> Vec<String> {
    let text: String = line.split('`').step_by(2).collect();
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let named = text.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let named = named.map(|(_, target)| target);
    // A target may be followed by a title, and may stand in angle brackets.
    let target = |link: &str| Some(link.split_whitespace().next()?.trim_matches(['<', '>']).to_owned());
    inline.chain(named).filter_map(target).collect()
}

fn is_elsewhere(link: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme))
}

fn resolves(files: &Files, from: &str, link: &str) -> bool {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() { from.to_owned() } else { join(from, file) };
    match (files.get(&target), anchor) {
        (Some(text), Some(anchor)) if target.ends_with(".md") => anchors(text).contains(anchor),
        (Some(_), _) => true,
        (None, _) => files.keys().any(|path| path.starts_with(&format!("{target}/"))),
    }
}

/// The path of `link` as seen from the document `from`.
fn join(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The names that headings get when the document is shown: lower case, dashes for spaces, no punctuation.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::new();
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let names = headings.map(|heading| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name = kept.collect::<String>().replace(' ', "-");
        let times = seen.entry(name.clone()).and_modify(|times| *times += 1).or_insert(0);
        if *times == 0 { name } else { format!("{name}-{times}") }
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    fn dead(text: &str) -> Vec<String> {
        let there = "# There\n\n## The `second` part, §2\n\n## Twice\n\n## Twice\n";
        dead_links(&made(&[("docs/here.md", text), ("docs/there.md", there), ("src/lib.rs", "")]))
    }

    #[test]
    fn a_document_has_one_title() {
        let titles = |text| without_one_title(&made(&[("a.md", text)])).len();
        assert_eq!(titles("# One\n## Two\n"), 0);
        assert_eq!(titles("```sh\n# a comment\n```\n# One\n"), 0);
        assert_eq!(titles("# One\n# Two\n"), 1);
        assert_eq!(titles("no title\n"), 1);
    }

    #[test]
    fn links_that_lead_somewhere_are_left_alone() {
        let good = "[a](there.md) [b](../src/lib.rs) [c](../src) [d](there.md#the-second-part-2 \"title\")\n\
                    [e](https://example.org/x.md) `[f](gone.md)` [g](./there.md#twice-1)\n[h]: <there.md>\n";
        assert_eq!(dead(good), Vec::<String>::new());
        assert_eq!(dead("```\n[a](gone.md)\n```\n"), Vec::<String>::new());
        assert_eq!(dead("# Here\n[a](#here)\n"), Vec::<String>::new());
    }

    #[test]
    fn dead_links_are_found() {
        let bad = ["gone.md", "there.md#gone", "../docs/gone/", "#gone", "there.md#twice-2", "../../docs.md"];
        for link in bad {
            assert_eq!(dead(&format!("# Here\nsee [a]({link})\n")).len(), 1, "{link}");
            assert_eq!(dead(&format!("# Here\n[a]: {link}\n")).len(), 1, "{link}");
        }
    }
}
