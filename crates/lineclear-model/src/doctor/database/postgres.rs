//! Checks of PostgreSQL.

use super::super::{Check, CheckName, a_few, length};

/// The oldest version that our statements run on.
const OLDEST: u32 = 12;
/// The version that the tests run on.
const TESTED: u32 = 15;
/// A transaction that idles for longer keeps dead rows from being vacuumed, and may hold locks.
const IDLE_US: i64 = 10_000_000;
const OPEN_WARNING_US: i64 = 5 * 60_000_000;
const OPEN_FAILURE_US: i64 = 60 * 60_000_000;
/// Fewer dead rows than this do no harm.
const DEAD_ROWS: i64 = 10_000;
/// Autovacuum should have run within this time.
const UNVACUUMED_US: i64 = 10 * 60_000_000;

/// Whether we support this version. `number` is as in `server_version_num`.
pub fn postgres_version(version: &str, number: i64, standby: bool) -> Check {
    let (name, major) = (CheckName::Version, u32::try_from(number / 10_000).unwrap_or(0));
    if standby {
        let message = format!("PostgreSQL {version}, a standby: nothing can be written");
        return Check::failure(name, message, "name the primary in the URL of the database");
    }
    match major {
        0..OLDEST => {
            let message = format!("PostgreSQL {version} is too old");
            Check::failure(name, message, format!("use {OLDEST} or later; {TESTED} is the tested version"))
        }
        TESTED => Check::ok(name, format!("PostgreSQL {version}")),
        _ => Check::ok(name, format!("PostgreSQL {version}; {TESTED} is the tested version")),
    }
}

/// Whether there is a pooler between us and the database.
#[derive(Clone, Copy, Debug)]
pub struct Pooler {
    /// The URL says `pooler=transaction`.
    pub said: bool,
    /// One of our connections used several sessions of the server, or several connections used one.
    pub seen: bool,
    /// Our session settings take effect.
    pub settings_arrive: bool,
}

/// Whether the URL says the truth about the pooler.
pub fn pooler(facts: Pooler) -> Check {
    let name = CheckName::Pooler;
    match (facts.said, facts.seen) {
        (true, true) => Check::ok(
            name,
            "a transaction pooler, as the URL says: statements are sent whole, none is prepared; nodes do not hear each other (no LISTEN) \
             and look for work once a second",
        ),
        (true, false) => Check::ok(
            name,
            "no pooler was noticed, and the URL says pooler=transaction: that works; without it statements are prepared, and nodes wake each other",
        ),
        (false, true) => Check::failure(
            name,
            "there is a transaction pooler, and the URL does not say so: prepared statements, LISTEN and session settings are lost or mixed up",
            "add pooler=transaction to the URL of the database, for every node",
        ),
        (false, false) if !facts.settings_arrive => Check::warning(
            name,
            "session settings do not arrive (plan_cache_mode): something between this machine and the database drops them",
            "is it a pooler? add pooler=transaction to the URL; or set plan_cache_mode = force_custom_plan for the role",
        ),
        (false, false) => Check::ok(
            name,
            "no pooler: statements are prepared, nodes wake each other (LISTEN), and session settings apply",
        ),
    }
}

/// A session with an open transaction.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its server process; `None`: a transaction that is prepared for two-phase commit, which has no process.
    pub pid: Option<i64>,
    /// Its role and program; for a prepared transaction, its name.
    pub who: String,
    /// Its state, as the server reports it.
    pub state: String,
    /// How long its transaction has been open.
    pub open_us: i64,
    /// How long it has been idle.
    pub idle_us: Option<i64>,
}

/// The oldest open transaction; `hidden` is the number of sessions that this role may not see.
pub fn transactions(oldest: Option<&Session>, hidden: i64) -> Check {
    let name = CheckName::Transactions;
    let unseen = match hidden {
        0 => String::new(),
        n => format!("; {n} of others cannot be seen by this role (grant pg_read_all_stats)"),
    };
    let Some(session) = oldest else {
        return Check::ok(name, format!("no other transaction is open{unseen}"));
    };
    let message = format!(
        "the oldest transaction is open for {}: {}, {}{unseen}",
        length(session.open_us),
        session.who,
        session.state
    );
    let remedy = "it keeps dead rows from being vacuumed, and may hold locks; end it if it is not needed:";
    let sql = match session.pid {
        Some(pid) => format!("SELECT pg_terminate_backend({pid});"),
        None => format!("ROLLBACK PREPARED '{}';", session.who.replace('\'', "''")),
    };
    let idles = session.idle_us.is_some_and(|idle| idle >= IDLE_US);
    match session.open_us {
        OPEN_FAILURE_US.. => Check::failure(name, message, remedy).with_sql(sql),
        open if open >= OPEN_WARNING_US || idles => Check::warning(name, message, remedy).with_sql(sql),
        _ => Check::ok(name, message),
    }
}

/// The server's statistics of one of our tables.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its quoted name.
    pub name: String,
    /// Live rows, estimated.
    pub live: i64,
    /// Dead rows that are not vacuumed yet, estimated.
    pub dead: i64,
    /// How long ago it was vacuumed; `None`: never.
    pub vacuumed_us: Option<i64>,
    /// Autovacuum is switched off for it.
    pub neglected: bool,
}

/// Whether dead rows are vacuumed.
pub fn dead_rows(tables: &[Table], autovacuum: bool) -> Check {
    let name = CheckName::DeadRows;
    if !autovacuum {
        let remedy = "every job leaves dead rows: without autovacuum tables only grow; switch it on:";
        let sql = "ALTER SYSTEM SET autovacuum = on;\nSELECT pg_reload_conf();";
        return Check::warning(name, "autovacuum is switched off for the whole server", remedy).with_sql(sql);
    }
    let neglected: Vec<&Table> = tables.iter().filter(|table| table.neglected).collect();
    if !neglected.is_empty() {
        let names: Vec<String> = neglected.iter().map(|table| table.name.clone()).collect();
        let sql: Vec<String> =
            names.iter().map(|table| format!("ALTER TABLE {table} RESET (autovacuum_enabled);")).collect();
        let message = format!("autovacuum is switched off for {}", a_few(&names));
        return Check::warning(name, message, "every job leaves dead rows; switch it on:")
            .with_sql(sql.join("\n"));
    }
    let late = |table: &&Table| {
        table.dead >= DEAD_ROWS
            && table.dead > table.live
            && table.vacuumed_us.is_none_or(|ago| ago >= UNVACUUMED_US)
    };
    let bloated: Vec<&Table> = tables.iter().filter(late).collect();
    if !bloated.is_empty() {
        let said: Vec<String> = bloated
            .iter()
            .map(|table| {
                let vacuumed = table
                    .vacuumed_us
                    .map_or("never vacuumed".to_owned(), |ago| format!("vacuumed {} ago", length(ago)));
                format!("{} ({} dead rows, {} live, {vacuumed})", table.name, table.dead, table.live)
            })
            .collect();
        let sql: Vec<String> =
            bloated.iter().map(|table| format!("VACUUM (ANALYZE) {};", table.name)).collect();
        let remedy = "autovacuum does not keep up, or an old transaction holds it back (see `transactions`); vacuum now:";
        return Check::warning(name, format!("more dead rows than live ones: {}", a_few(&said)), remedy)
            .with_sql(sql.join("\n"));
    }
    let dead: i64 = tables.iter().map(|table| table.dead).sum();
    Check::ok(name, format!("{dead} dead rows in our tables; autovacuum is on"))
}

#[cfg(test)]
mod tests {
    use super::super::super::Finding;
    use super::*;

    #[test]
    fn versions_and_poolers_are_judged() {
        assert_eq!(postgres_version("15.8", 150_008, false).finding, Finding::Ok);
        assert_eq!(postgres_version("11.2", 110_002, false).finding, Finding::Failure);
        assert_eq!(postgres_version("15.8", 150_008, true).finding, Finding::Failure);
        let of = |said, seen, settings_arrive| pooler(Pooler { said, seen, settings_arrive }).finding;
        assert_eq!([of(true, true, false), of(true, false, false), of(false, false, true)], [Finding::Ok; 3]);
        assert_eq!(of(false, true, true), Finding::Failure);
        assert_eq!(of(false, false, false), Finding::Warning);
    }

    #[test]
    fn the_oldest_transaction_is_told_with_what_ends_it() {
        let mut session = Session {
            pid: Some(7),
            who: "app (psql)".to_owned(),
            state: "active".to_owned(),
            open_us: 1_000_000,
            idle_us: None,
        };
        assert_eq!(transactions(Some(&session), 0).finding, Finding::Ok);
        session.idle_us = Some(11_000_000);
        let idle = transactions(Some(&session), 2);
        assert_eq!(
            (idle.finding, idle.sql.as_deref()),
            (Finding::Warning, Some("SELECT pg_terminate_backend(7);"))
        );
        assert!(idle.message.contains("2 of others cannot be seen"), "{}", idle.message);
        session.open_us = 2 * 60 * 60_000_000;
        assert_eq!(transactions(Some(&session), 0).finding, Finding::Failure);
        let prepared = Session { pid: None, who: "it's".to_owned(), ..session };
        assert_eq!(transactions(Some(&prepared), 0).sql.as_deref(), Some("ROLLBACK PREPARED 'it''s';"));
    }

    #[test]
    fn dead_rows_are_a_warning_unless_the_table_was_just_vacuumed() {
        let table =
            Table { name: "x".to_owned(), live: 10, dead: 20_000, vacuumed_us: None, neglected: false };
        let of = |table: &Table| dead_rows(std::slice::from_ref(table), true);
        assert_eq!(of(&table).sql.as_deref(), Some("VACUUM (ANALYZE) x;"));
        assert_eq!(of(&Table { vacuumed_us: Some(1), ..table.clone() }).finding, Finding::Ok, "just now");
        assert_eq!(of(&Table { live: 30_000, ..table.clone() }).finding, Finding::Ok);
        let off = of(&Table { neglected: true, ..table.clone() });
        assert_eq!(off.sql.as_deref(), Some("ALTER TABLE x RESET (autovacuum_enabled);"));
        assert_eq!(dead_rows(&[table], false).finding, Finding::Warning);
    }
}
