//! SQL: two databases, the same statements.

use std::collections::BTreeSet;

use crate::Files;

/// Statements: the twins stand side by side, `<name>.postgres.sql` and `<name>.sqlite.sql`.
const STATEMENTS: &str = "crates/lineclear/sql/";
/// Parts of statements: they have no header of this form, and some are for one database only.
const SNIPPETS: &str = "crates/lineclear/sql/snippets/";
/// Migrations: a folder for each database.
const MIGRATIONS: &str = "crates/lineclear/migrations/";

/// Files that only one of the databases has.
pub(crate) fn without_twin(files: &Files) -> Vec<String> {
    let statements = |database: &str| -> BTreeSet<String> {
        let ending = format!(".{database}.sql");
        let stem = |path: &String| Some(path.strip_prefix(STATEMENTS)?.strip_suffix(&ending)?.to_owned());
        files.keys().filter(|path| !path.starts_with(SNIPPETS)).filter_map(stem).collect()
    };
    let migrations = |database: &str| -> BTreeSet<String> {
        let folder = format!("{MIGRATIONS}{database}/");
        files.keys().filter_map(|path| Some(path.strip_prefix(&folder)?.to_owned())).collect()
    };
    let mut complaints = Vec::new();
    for name in statements("postgres").symmetric_difference(&statements("sqlite")) {
        complaints.push(format!("{STATEMENTS}{name} has only one of .postgres.sql and .sqlite.sql"));
    }
    for name in migrations("postgres").symmetric_difference(&migrations("sqlite")) {
        complaints.push(format!("{name} is in only one of {MIGRATIONS}postgres and {MIGRATIONS}sqlite"));
    }
    complaints
}

/// SQL files that do not begin with `-- name · what it does`.
pub(crate) fn without_header(files: &Files) -> Vec<String> {
    let sql = files
        .iter()
        .filter(|(path, _)| !path.starts_with(SNIPPETS))
        .filter_map(|(path, text)| Some((path, path.strip_suffix(".sql")?, text)));
    sql.filter_map(|(path, stem, text)| {
        let file = stem.rsplit('/').next().unwrap_or(stem);
        // A twin's name ends with its database.
        let name = file.split('.').next().unwrap_or(file);
        let first = text.lines().next().unwrap_or_default();
        let what = first.strip_prefix(&format!("-- {name} · ")).unwrap_or_default();
        what.trim().is_empty().then(|| format!("{path}: the first line must be `-- {name} · …`"))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn a_lonely_statement_and_a_lonely_migration_are_found() {
        let files = made(&[
            ("crates/lineclear/sql/claim/claim.postgres.sql", ""),
            ("crates/lineclear/sql/claim/claim.sqlite.sql", ""),
            ("crates/lineclear/sql/claim/renew.sqlite.sql", ""),
            ("crates/lineclear/migrations/postgres/0001_job.sql", ""),
        ]);
        assert_eq!(without_twin(&files).len(), 2);
    }

    #[test]
    fn a_header_must_name_the_file_and_say_something() {
        let text = |text| made(&[("a/claim.sql", text)]);
        assert!(without_header(&text("-- claim · ready → leased\nselect 1")).is_empty());
        let twin = made(&[("a/claim.sqlite.sql", "-- claim · ready → leased\nselect 1")]);
        assert!(without_header(&twin).is_empty());
        assert_eq!(without_header(&text("select 1")).len(), 1);
        assert_eq!(without_header(&text("")).len(), 1);
        assert_eq!(without_header(&text("-- renew · of another file\n")).len(), 1);
        assert_eq!(without_header(&text("-- claim · \n")).len(), 1);
        assert!(without_header(&made(&[("a/claim.rs", "select 1")])).is_empty());
    }
}
