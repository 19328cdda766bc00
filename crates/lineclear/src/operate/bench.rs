//! The schema of whoever measures. It carries a mark, so that nobody else's is ever dropped.

use crate::db::options::BENCH_SCHEMA;
use crate::db::{Session, Verb};
use crate::store::{Store, StoreError, StoreOptions, StoreResult};

/// Before the second at which it was last in use.
const MARK: &str = "lineclear bench, in use at ";
/// One that was in use so lately may still be.
const LATELY_SECS: i64 = 60;

impl Store {
    /// Makes the schema of whoever measures. What a killed one left is removed; one that is in use, or that is somebody else's, is not.
    #[doc(hidden)]
    pub async fn make_bench(&self) -> StoreResult<()> {
        self.run(Bench { options: (*self.options).clone(), what: What::Make }).await
    }

    /// Says that it is still in use.
    #[doc(hidden)]
    pub async fn keep_bench(&self) -> StoreResult<()> {
        self.run(Bench { options: (*self.options).clone(), what: What::Keep }).await
    }

    /// Removes it. Only for who made it.
    #[doc(hidden)]
    pub async fn drop_bench(&self) -> StoreResult<()> {
        self.run(Bench { options: (*self.options).clone(), what: What::Drop }).await
    }
}

#[derive(PartialEq)]
enum What {
    Make,
    Keep,
    Drop,
}

struct Bench {
    options: StoreOptions,
    what: What,
}

impl Verb for Bench {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        let refused = |why: String| Err(StoreError::refused("bench_schema", why));
        if !self.options.is_postgres() || self.options.schema() != BENCH_SCHEMA {
            return refused(format!("only {BENCH_SCHEMA} is for measuring"));
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
            let Some(seen) = mark.strip_prefix(MARK).and_then(|text| text.parse::<i64>().ok()) else {
                return refused(format!(
                    "there is a schema {BENCH_SCHEMA} that no bench made; it is left alone, so nothing can be measured here"
                ));
            };
            if self.what == What::Make && now - seen < LATELY_SECS {
                return refused(
                    "somebody measures in this database at the moment; what a killed one left goes after a minute"
                        .to_owned(),
                );
            }
            if self.what != What::Keep {
                session.batch(&format!("drop schema {BENCH_SCHEMA} cascade")).await?;
            }
        }
        if self.what == What::Make {
            session.batch(&format!("create schema {BENCH_SCHEMA}")).await?;
        }
        if self.what == What::Drop {
            return Ok(());
        }
        let mark = format!(
            "do $$ begin execute format('comment on schema {BENCH_SCHEMA} is %L', '{MARK}' || extract(epoch from now())::bigint); end $$"
        );
        session.batch(&mark).await
    }
}
