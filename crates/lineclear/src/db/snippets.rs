//! Snippets: SQL that several statements share. Each is a file of `sql/snippets`.
//!
//! A statement names a snippet in braces:
//!
//! | in a statement | becomes |
//! |---|---|
//! | `{job}` | the text of `job.sql` |
//! | `{b.job}` | the same list of columns, each of table `b` |
//! | `{rank(w.due_at, w.priority, g.priority)}` | the text of `rank`, with arguments in place of its parameters |
//!
//! The first line of a snippet is its header, `-- rank(due_at, priority, group_priority) · what it is`: the parameters stand in the text as
//! `{due_at}`. A snippet may name other snippets. `name.sql` serves both databases; where they differ, there are `name.postgres.sql` and
//! `name.sqlite.sql`.

/// The text of a snippet, and the names of its parameters.
struct Snippet {
    name: &'static str,
    parameters: Vec<&'static str>,
    body: String,
}

impl Snippet {
    fn parse(text: &'static str) -> Snippet {
        let header = text.lines().next().and_then(|line| line.strip_prefix("-- ")).unwrap_or_default();
        let signature = header.split_once(" · ").map_or(header, |(signature, _)| signature);
        let (name, parameters) = match signature.split_once('(') {
            Some((name, list)) => (name, list.trim_end_matches(')').split(", ").collect()),
            None => (signature, Vec::new()),
        };
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        Snippet { name, parameters, body: lines.join("\n").trim().to_owned() }
    }
}

macro_rules! snippets {
    (both: $($shared:literal)+; each: $($own:literal)+; postgres_only: $($postgres:literal)+;) => {
        const POSTGRES: &[&str] = &[
            $(include_str!(concat!("../../sql/snippets/", $shared, ".sql")),)+
            $(include_str!(concat!("../../sql/snippets/", $own, ".postgres.sql")),)+
            $(include_str!(concat!("../../sql/snippets/", $postgres, ".postgres.sql")),)+
        ];
        const SQLITE: &[&str] = &[
            $(include_str!(concat!("../../sql/snippets/", $shared, ".sql")),)+
            $(include_str!(concat!("../../sql/snippets/", $own, ".sqlite.sql")),)+
        ];
        #[cfg(test)]
        const NAMES: &[&str] = &[$($shared,)+ $($own,)+ $($postgres,)+];
    };
}

snippets! {
    both:
        "bulk_operation"
        "claim"
        "dead_letter_fits"
        "dispatched_state"
        "ended_state"
        "execution"
        "executions_ended"
        "global_gate"
        "group_priority"
        "has_room"
        "history"
        "job"
        "job_is_nowhere"
        "job_template"
        "manifest"
        "manifest_with_state"
        "raise_stats"
        "shown_job"
        "token"
        "waiting_state"
        "whole_input";
    each:
        "free_keys"
        "groups_with_room"
        "hand_over"
        "none_fits"
        "one_fits"
        "phase"
        "rank"
        "routes_in_line"
        "run_ms"
        "step_of"
        "urgency"
        "wait_ms";
    postgres_only:
        "durable"
        "hold_manifests"
        "lock_states"
        "state_is_free"
        "micros";
}

/// The snippets of one database.
pub(crate) struct Snippets(Vec<Snippet>);

impl Snippets {
    pub(crate) fn for_postgres() -> Snippets {
        Snippets(POSTGRES.iter().map(|text| Snippet::parse(text)).collect())
    }

    pub(crate) fn for_sqlite() -> Snippets {
        Snippets(SQLITE.iter().map(|text| Snippet::parse(text)).collect())
    }

    /// `text` with every snippet that it names. `{schema}` stays.
    ///
    /// # Panics
    /// Panics if there is no such snippet, or if it has another number of parameters. A test fills in every statement.
    pub(crate) fn fill_in(&self, text: &str) -> String {
        self.expand(text, &[])
    }

    fn expand(&self, text: &str, arguments: &[(&str, String)]) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            let (before, from_brace) = rest.split_at(start);
            filled.push_str(before);
            match placeholder(from_brace) {
                Some((inner, after)) => {
                    filled.push_str(&self.resolve(inner, arguments));
                    rest = after;
                }
                None => {
                    filled.push('{');
                    rest = &from_brace[1..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    fn resolve(&self, inner: &str, arguments: &[(&str, String)]) -> String {
        if inner == "schema" {
            return "{schema}".to_owned();
        }
        if let Some((_, argument)) = arguments.iter().find(|(name, _)| *name == inner) {
            return argument.clone();
        }
        let (signature, given) = match inner.split_once('(') {
            Some((signature, list)) => (signature, split_arguments(list.strip_suffix(')').unwrap_or(list))),
            None => (inner, Vec::new()),
        };
        let (table, name) = match signature.split_once('.') {
            Some((table, name)) => (Some(table), name),
            None => (None, signature),
        };
        let Some(snippet) = self.0.iter().find(|snippet| snippet.name == name) else {
            panic!("there is no snippet {{{inner}}}");
        };
        assert_eq!(given.len(), snippet.parameters.len(), "{{{inner}}}: the number of arguments");
        let given = given.iter().map(|argument| self.expand(argument, arguments));
        let given: Vec<(&str, String)> = snippet.parameters.iter().copied().zip(given).collect();
        let text = self.expand(&snippet.body, &given);
        match table {
            Some(table) => {
                let columns = text.split(',').map(|column| format!("{table}.{}", column.trim()));
                columns.collect::<Vec<_>>().join(", ")
            }
            None => text,
        }
    }
}

/// What stands between the brace at the beginning and the one that closes it, and what follows. `None`: the brace is plain SQL.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    if !text[1..].starts_with(|c: char| c.is_ascii_lowercase()) {
        return None;
    }
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[1..at], &text[at + 1..]));
        }
    }
    None
}

/// The arguments of a list; a comma inside parentheses separates nothing.
fn split_arguments(list: &str) -> Vec<&str> {
    let (mut arguments, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in list.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    arguments.push(list[start..].trim());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(snippets: &Snippets) -> Vec<&str> {
        snippets.0.iter().map(|snippet| snippet.name).collect()
    }

    #[test]
    fn each_snippet_is_named_like_its_file_and_listed_where_statements_are() {
        assert_eq!(names(&Snippets::for_postgres()), NAMES);
        assert!(NAMES.starts_with(&names(&Snippets::for_sqlite())));
        let listed = include_str!("statements.rs");
        for name in NAMES {
            assert!(listed.contains(&format!("//! - `{name}`")), "{name} is missing in the header");
        }
        assert_eq!(listed.lines().filter(|line| line.starts_with("//! - `")).count(), NAMES.len());
    }

    #[test]
    fn every_file_is_a_snippet() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sql/snippets");
        for file in std::fs::read_dir(folder).unwrap() {
            let file = file.unwrap().file_name().into_string().unwrap();
            let name = file.split('.').next().unwrap();
            assert!(NAMES.contains(&name), "{file} is not declared in db/snippets.rs");
        }
    }

    #[test]
    fn every_snippet_is_used() {
        let texts = [POSTGRES.concat(), crate::db::statements::raw()].concat();
        for name in NAMES {
            let uses = [format!("{{{name}}}"), format!("{{{name}("), format!(".{name}}}")];
            assert!(uses.iter().any(|used| texts.contains(used)), "{name} is not used");
        }
    }

    #[test]
    fn parameters_tables_and_other_snippets_are_filled_in() {
        let snippets = Snippets(
            [
                "-- both · two columns\na,\n  b\n",
                "-- sum(x, y) · a sum\n{x} + {y}\n",
                "-- of(t) · a query\n-- About it.\nselect {sum({t}, 1)} from {schema}.t\n",
            ]
            .map(Snippet::parse)
            .into(),
        );
        assert_eq!(snippets.fill_in("{both}, {w.both}"), "a,\n  b, w.a, w.b");
        assert_eq!(snippets.fill_in("{sum(f(1, 2), {sum(3, 4)})};"), "f(1, 2) + 3 + 4;");
        assert_eq!(snippets.fill_in("({of(w.x)})"), "(select w.x + 1 from {schema}.t)");
        assert_eq!(snippets.fill_in("'{}' {\"id\": 7} {schema}.t"), "'{}' {\"id\": 7} {schema}.t");
    }

    #[test]
    #[should_panic(expected = "there is no snippet {nothing}")]
    fn a_snippet_that_does_not_exist_is_a_panic() {
        Snippets::for_sqlite().fill_in("select {nothing}");
    }

    #[test]
    #[should_panic(expected = "{rank(1)}: the number of arguments")]
    fn a_missing_argument_is_a_panic() {
        Snippets::for_sqlite().fill_in("select {rank(1)}");
    }
}
