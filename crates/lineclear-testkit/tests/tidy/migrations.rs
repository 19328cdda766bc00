//! Migrations that a cluster of the release before survives: see "Migrations" in CONTRIBUTING.md.

use crate::Files;

const FOLDER: &str = "crates/lineclear/migrations/";
/// Older ones are as they are.
const BEFORE_THE_RULES: u32 = 28;
/// Tables that can have millions of rows.
const LARGE: &[&str] = &[
    "audit",
    "background_job",
    "dead_letter",
    "execution",
    "execution_log",
    "idempotency_key",
    "job_key",
    "job_payload",
    "job_step",
    "tick",
    "work_queue",
];
/// Words of statements that programs of the release before may not survive.
const CONTRACTS: &[&str] = &["drop", "rename", "set not null", "type"];

/// Migrations that break a rule.
pub(crate) fn against_the_rules(files: &Files) -> Vec<String> {
    let migrations = files.iter().filter_map(|(path, text)| {
        let (database, name) = path.strip_prefix(FOLDER)?.strip_suffix(".sql")?.split_once('/')?;
        let number: u32 = name.get(..4)?.parse().ok()?;
        (number > BEFORE_THE_RULES).then_some((path, database == "postgres", text))
    });
    migrations
        .flat_map(|(path, is_postgres, text)| {
            let found = complaints(is_postgres, text);
            found.into_iter().map(move |complaint| format!("{path}: {complaint}"))
        })
        .collect()
}

fn complaints(is_postgres: bool, text: &str) -> Vec<String> {
    let has_line = |begin: &str| text.lines().any(|line| line.starts_with(begin));
    let statements = statements(text);
    let created: Vec<&str> =
        statements.iter().filter_map(|statement| table_after(statement, "create table ")).collect();
    let is_large = |table: &str| LARGE.contains(&table) && !created.contains(&table);
    let mut found = Vec::new();
    for statement in &statements {
        let words = format!(" {statement} ");
        let contracts = CONTRACTS.iter().any(|word| words.contains(&format!(" {word} ")))
            || words.contains(" add column ") && words.contains(" not null ") && !words.contains(" default ");
        let is_table = statement.starts_with("alter ") || statement.starts_with("drop ");
        if is_table && contracts && !has_line("-- compatible from ") {
            found.push(format!("`{statement}` needs a line `-- compatible from NNNN`"));
        }
        if !is_postgres {
            continue;
        }
        let builds = statement.starts_with("create ") && words.contains(" index ");
        if builds && !words.contains(" concurrently ") && table_after(statement, " on ").is_some_and(is_large)
        {
            found.push(format!("`{statement}` locks a large table: build it concurrently"));
        }
        if words.contains(" concurrently ") && (!has_line("-- built concurrently") || statements.len() > 1) {
            found.push(
                "one index concurrently is one migration, with the line `-- built concurrently`".into(),
            );
        }
        let constrains = words.contains(" add constraint ") && !words.contains(" not valid ");
        if constrains && table_after(statement, "alter table ").is_some_and(is_large) {
            found.push(format!("`{statement}` scans a large table under a lock: add it `not valid`"));
        }
        let rewritten = table_after(statement, "update ").or_else(|| table_after(statement, "delete from "));
        if (statement.starts_with("update ") || statement.starts_with("delete "))
            && rewritten.is_some_and(is_large)
        {
            found.push(format!(
                "`{statement}` changes a large table at once: let the cleaner do it in portions"
            ));
        }
    }
    found
}

/// Statements in small letters and on one line, without comments and bodies of functions.
fn statements(text: &str) -> Vec<String> {
    let code: String = text.split("$function$").step_by(2).collect::<Vec<_>>().join(" ");
    let lines = code.lines().map(|line| line.split("--").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join(" ").to_lowercase();
    let one_line = |statement: &str| statement.split_whitespace().collect::<Vec<_>>().join(" ");
    code.split(';').map(one_line).filter(|statement| !statement.is_empty()).collect()
}

/// The name of the table after these words, without the schema.
fn table_after<'a>(statement: &'a str, words: &str) -> Option<&'a str> {
    let rest =
        statement.split_once(words)?.1.trim_start_matches("if not exists ").trim_start_matches("only ");
    let name = rest.split([' ', '(']).next()?;
    Some(name.strip_prefix("{schema}.").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    fn count(sql: &str) -> usize {
        against_the_rules(&made(&[("crates/lineclear/migrations/postgres/0040_x.sql", sql)])).len()
    }

    #[test]
    fn additions_are_allowed() {
        for sql in [
            "alter table {schema}.work_queue add column note text;",
            "alter table {schema}.work_queue add column note text not null default '';",
            "create table {schema}.later (id bigint primary key);\ncreate index later_id on {schema}.later (id);",
            "create table {schema}.tick (id bigint);\ncreate index tick_id on {schema}.tick (id);",
            "create index node_seen on {schema}.node (seen_at);",
            "-- built concurrently\ncreate index concurrently a on {schema}.execution (kind);",
            "alter table {schema}.tick add constraint c check (a > 0) not valid;",
            "-- drop it later\ncreate or replace function {schema}.f() returns void as $function$ drop table x; $function$;",
            "-- compatible from 0039\nalter table {schema}.node drop column kinds;",
        ] {
            assert_eq!(count(sql), 0, "{sql}");
        }
    }

    #[test]
    fn what_the_release_before_does_not_survive_is_found() {
        for sql in [
            "alter table {schema}.node drop column kinds;",
            "drop table {schema}.node;",
            "alter table {schema}.node rename to nodes;",
            "alter table {schema}.node alter column kinds set not null;",
            "alter table {schema}.node alter column slots type bigint;",
            "alter table {schema}.node add column note text not null;",
            "create index a on {schema}.execution (kind);",
            "create unique index a on {schema}.work_queue (kind);",
            "create index concurrently a on {schema}.execution (kind);",
            "-- built concurrently\ncreate index concurrently a on {schema}.execution (kind); select 1;",
            "alter table {schema}.tick add constraint c check (a > 0);",
            "update {schema}.execution set kind = 'x';",
            "delete from {schema}.tick;",
        ] {
            assert_eq!(count(sql), 1, "{sql}");
        }
        let old = made(&[("crates/lineclear/migrations/postgres/0026_x.sql", "drop table x;")]);
        assert!(against_the_rules(&old).is_empty(), "old ones are as they are");
    }
}
