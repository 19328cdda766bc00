//! SQL: two databases, the same statements.

use std::collections::BTreeSet;

use crate::Files;

/// Folders that have one part for each database.
const TWINS: [&str; 2] = ["crates/lineclear/sql", "crates/lineclear/migrations"];

/// Files that one database has and the other has not.
pub(crate) fn without_twin(files: &Files) -> Vec<String> {
    let names = |folder: &str| -> BTreeSet<&str> {
        files.keys().filter_map(|path| path.strip_prefix(folder)?.strip_prefix('/')).collect()
    };
    let mut complaints = Vec::new();
    for folder in TWINS {
        let (postgres, sqlite) = (format!("{folder}/postgres"), format!("{folder}/sqlite"));
        for name in names(&postgres).symmetric_difference(&names(&sqlite)) {
            complaints.push(format!("{name} is in only one of {postgres} and {sqlite}"));
        }
    }
    complaints
}

/// SQL files that do not begin with `-- name · what it does`.
pub(crate) fn without_header(files: &Files) -> Vec<String> {
    let sql = files.iter().filter_map(|(path, text)| Some((path, path.strip_suffix(".sql")?, text)));
    sql.filter_map(|(path, stem, text)| {
        let name = stem.rsplit('/').next().unwrap_or(stem);
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
            ("crates/lineclear/sql/postgres/claim.sql", ""),
            ("crates/lineclear/sql/sqlite/claim.sql", ""),
            ("crates/lineclear/sql/sqlite/renew.sql", ""),
            ("crates/lineclear/migrations/postgres/0001_job.sql", ""),
        ]);
        assert_eq!(without_twin(&files).len(), 2);
    }

    #[test]
    fn a_header_must_name_the_file_and_say_something() {
        let text = |text| made(&[("a/claim.sql", text)]);
        assert!(without_header(&text("-- claim · ready → leased\nselect 1")).is_empty());
        assert_eq!(without_header(&text("select 1")).len(), 1);
        assert_eq!(without_header(&text("")).len(), 1);
        assert_eq!(without_header(&text("-- renew · of another file\n")).len(), 1);
        assert_eq!(without_header(&text("-- claim · \n")).len(), 1);
        assert!(without_header(&made(&[("a/claim.rs", "select 1")])).is_empty());
    }
}
