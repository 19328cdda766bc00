//! Sequences that give ids which are in use already.

use super::super::{Check, CheckName, a_few, many};

/// A sequence, and the ids that it must be past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its name, with its schema if SQL needs it.
    pub name: String,
    /// The number that it gave last.
    pub last: i64,
    /// The highest id in use.
    pub highest: i64,
}

/// Whether every sequence is past the ids in use. One that is not gives ids that are taken: the database refuses the new rows, or a new job
/// gets the history of an old one.
pub fn sequences(all: &[Sequence], postgres: bool) -> Check {
    let behind: Vec<&Sequence> = all.iter().filter(|sequence| sequence.last < sequence.highest).collect();
    if behind.is_empty() {
        let count = many(all.len() as u64, 0, "sequence");
        return Check::ok(CheckName::Sequences, format!("{count}, past all ids in use"));
    }
    let said: Vec<String> = behind
        .iter()
        .map(|one| format!("{} gave {} last, and {} is in use", one.name, one.last, one.highest))
        .collect();
    let fix = |one: &&Sequence| match postgres {
        true => format!("SELECT setval('{}', {});", one.name.replace('\'', "''"), one.highest),
        false => format!("UPDATE {} SET last = {};", one.name, one.highest),
    };
    let sql: Vec<String> = behind.iter().map(fix).collect();
    let remedy = "new rows get ids that are taken, and are refused; a copy by logical replication leaves sequences behind. Set them:";
    Check::failure(CheckName::Sequences, a_few(&said), remedy).with_sql(sql.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::super::super::Finding;
    use super::*;

    #[test]
    fn a_sequence_that_is_behind_is_a_failure_with_the_sql_that_sets_it() {
        let sequence = |last, highest| Sequence { name: "lineclear.job_id".to_owned(), last, highest };
        assert_eq!(sequences(&[sequence(7, 7), sequence(8, 0)], true).finding, Finding::Ok);
        let check = sequences(&[sequence(8, 9), sequence(9, 9)], true);
        assert_eq!(check.finding, Finding::Failure);
        assert_eq!(check.sql.as_deref(), Some("SELECT setval('lineclear.job_id', 9);"));
        assert!(check.message.contains("gave 8 last, and 9 is in use"), "{}", check.message);
    }
}
