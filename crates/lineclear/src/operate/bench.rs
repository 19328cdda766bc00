//! The schema of the benchmark. A comment marks it, so that no other schema is ever dropped.

use crate::db::options::BENCH_SCHEMA;
use crate::db::{Session, Verb};
use crate::store::{Store, StoreError, StoreOptions, StoreResult};

/// The comment's prefix, before the second of its last use.
const MARK: &str = "lineclear bench, in use at ";
/// A schema that was used this recently may still be in use.
const IN_USE_SECS: i64 = 60;

#[derive(PartialEq)]
enum Action {
    Make,
    Keep,
    Drop,
}

struct Bench {
    options: StoreOptions,
    action: Action,
}

impl Verb for Bench {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        let refused = |why: String| Err(StoreError::refused("bench_schema", why));
        if !self.options.is_postgres() || self.options.schema() != BENCH_SCHEMA {
            return refused(format!("benchmarks run in the schema {BENCH_SCHEMA} only"));
        }
        let key = self.options.advisory_key("bench");
        session.query(&format!("select pg_advisory_xact_lock({key})")).await?;
        let found = format!(
            "select coalesce(obj_description(oid, 'pg_namespace'), '') as mark, extract(epoch from now())::bigint as now
             from pg_namespace where nspname = '{BENCH_SCHEMA}'"
        );
        let rows = session.query(&found).await?;
        if let Some(row) = rows.first() {
            let (mark, now): (String, i64) = (row.get("mark")?, row.get("now")?);
            let Some(last_used) = mark.strip_prefix(MARK).and_then(|text| text.parse::<i64>().ok()) else {
                return refused(format!(
                    "the schema {BENCH_SCHEMA} was not created by a benchmark; drop or rename it first"
                ));
            };
            if self.action == Action::Make && now - last_used < IN_USE_SECS {
                return refused(
                    "another benchmark runs in this database; the schema of a killed one is replaced after a minute"
                        .to_owned(),
                );
            }
            if self.action != Action::Keep {
                session.batch(&format!("drop schema {BENCH_SCHEMA} cascade")).await?;
            }
        }
        if self.action == Action::Make {
            session.batch(&format!("create schema {BENCH_SCHEMA}")).await?;
        }
        if self.action == Action::Drop {
            return Ok(());
        }
        let mark = format!(
            "do $$ begin execute format('comment on schema {BENCH_SCHEMA} is %L', '{MARK}' || extract(epoch from now())::bigint); end $$"
        );
        session.batch(&mark).await
    }
}

impl Store {
    /// Creates the benchmark's schema. Replaces one that a killed benchmark left; refuses if one is in use or lacks the mark.
    #[doc(hidden)]
    pub async fn make_bench(&self) -> StoreResult<()> {
        self.run(Bench { options: (*self.options).clone(), action: Action::Make }).await
    }

    /// Marks it as still in use.
    #[doc(hidden)]
    pub async fn keep_bench(&self) -> StoreResult<()> {
        self.run(Bench { options: (*self.options).clone(), action: Action::Keep }).await
    }

    /// Drops it.
    #[doc(hidden)]
    pub async fn drop_bench(&self) -> StoreResult<()> {
        self.run(Bench { options: (*self.options).clone(), action: Action::Drop }).await
    }
}
