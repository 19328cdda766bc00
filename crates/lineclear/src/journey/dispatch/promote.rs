//! promote: jobs whose time has come → ready.

use std::time::Instant;

use lineclear_model::Micros;

use crate::db::statements::Statement;
use crate::db::{Params, Query, values};
use crate::journey::low_water::LowWater;
use crate::store::{Store, StoreResult};

/// Jobs that one statement promotes at most: more would hold their rows, and SQLite's file, for too long.
pub(crate) const PROMOTE_MAX: u32 = 5_000;

/// What a node that promotes again and again remembers: up to when no due job was left.
#[derive(Clone, Debug, Default)]
pub struct PromoteCursor {
    marks: LowWater<1>,
}

impl PromoteCursor {
    /// Begins at this mark for as long as a test takes.
    #[cfg(test)]
    pub(crate) fn keep_mark(&mut self, mark: Micros) {
        self.marks.keep(mark);
    }

    #[cfg(test)]
    pub(crate) fn mark(&self) -> Option<Micros> {
        self.marks.marks()[0]
    }

    #[cfg(test)]
    pub(crate) fn until(&self) -> Instant {
        self.marks.until()
    }

    #[cfg(test)]
    pub(crate) fn end_marks(&mut self) {
        self.marks.forget();
    }
}

/// What one statement promoted.
struct Promoted {
    jobs: u64,
    due: u64,
    now: Micros,
}

impl Store {
    /// Makes up to `most` due jobs ready, in rank order; returns how many.
    pub async fn promote(&self, most: u32) -> StoreResult<u64> {
        self.promote_from(&mut PromoteCursor::default(), most).await
    }

    /// Like [`Store::promote`], by a node that promotes again and again. If that takes long, it reads only what has become due since an
    /// earlier time, and finds what was committed late within ten seconds.
    pub async fn promote_from(&self, cursor: &mut PromoteCursor, most: u32) -> StoreResult<u64> {
        let most = most.min(PROMOTE_MAX);
        let from = cursor.marks.marks();
        if let [Some(mark)] = from {
            let began = Instant::now();
            let since = self.promote_with(Statement::PromoteSince, values![most, mark]).await?;
            if since.due <= u64::from(most) {
                // Those that are left are locked.
                let is_left = since.due > since.jobs;
                cursor.marks.polled(from, [is_left], since.now, began.elapsed());
                return Ok(since.jobs);
            }
        }
        let began = Instant::now();
        let all = self.promote_with(Statement::Promote, values![most]).await?;
        let is_left = all.due > all.jobs || all.jobs >= u64::from(most);
        // SQLite keeps no entries of jobs that are gone, so that it needs no mark.
        if self.options.is_postgres() {
            cursor.marks.polled([None], [is_left], all.now, began.elapsed());
        }
        Ok(all.jobs)
    }

    async fn promote_with(&self, statement: Statement, params: impl Into<Params>) -> StoreResult<Promoted> {
        let promote = Query::one(statement, params, |row| {
            Ok(Promoted { jobs: row.get("promoted")?, due: row.get("due")?, now: row.get("now")? })
        });
        self.run(promote).await
    }
}
