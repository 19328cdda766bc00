//! The poll of an idle node: is there anything to do?

use std::time::Instant;

use lineclear_model::{Micros, Name};

use crate::db::statements::Statement;
use crate::db::{Query, values};
use crate::journey::low_water::{BEHIND, LowWater};
use crate::store::{Store, StoreResult};

/// What there is to do, as an idle node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingWork {
    /// Jobs have come due and can be promoted.
    pub due: bool,
    /// A lease ran out, or a job is long past its time.
    pub lease_over: bool,
    /// The work of each route.
    pub routes: Vec<RouteWork>,
}

/// The work of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteWork {
    /// The route.
    pub route: Name,
    /// Jobs wait to be dispatched; a limit may hold them back.
    pub waits: bool,
    /// Jobs that are dispatched and not claimed yet, counted up to the given number.
    pub handed: u32,
}

/// What a node that polls again and again remembers of its polls: up to when no job was due, no lease was over and no job waited.
#[derive(Clone, Debug, Default)]
pub struct PollCursor {
    marks: LowWater<3>,
    /// No job that waited at the mark has a later id.
    last_id: i64,
    /// The last id at an earlier moment: that of the marks when they move, as far behind the clock as they.
    earlier: Option<(Micros, i64)>,
}

impl PollCursor {
    /// The next poll begins at the front.
    pub fn forget(&mut self) {
        self.marks.forget();
    }

    fn note_id(&mut self, is_front: bool, waits: bool, now: Micros, last_id: i64) {
        if is_front {
            (self.last_id, self.earlier) = (last_id, Some((now, last_id)));
            return;
        }
        let (at, id) = *self.earlier.get_or_insert((now, last_id));
        let is_behind = u128::try_from(now.get() - at.get()).is_ok_and(|micros| micros >= BEHIND.as_micros());
        if is_behind && !waits {
            (self.last_id, self.earlier) = (id, Some((now, last_id)));
        }
    }

    /// Begins at this mark for as long as a test takes.
    #[cfg(test)]
    pub(crate) fn keep_mark(&mut self, mark: Micros, last_id: i64) {
        self.marks.keep(mark);
        self.last_id = last_id;
    }

    #[cfg(test)]
    pub(crate) fn marks(&self) -> ([Option<Micros>; 3], i64) {
        (self.marks.marks(), self.last_id)
    }
}

impl Store {
    /// Whether there is anything to do on some routes; counts unclaimed jobs up to `count_to`. Changes nothing.
    pub async fn poll_work(&self, routes: Vec<Name>, count_to: u32) -> StoreResult<PendingWork> {
        self.poll_work_from(&mut PollCursor::default(), routes, count_to).await
    }

    /// Like [`Store::poll_work`], by a node that polls again and again. If polls take long, it reads only what has come since an earlier
    /// one, and finds what was committed late within ten seconds.
    pub async fn poll_work_from(
        &self,
        cursor: &mut PollCursor,
        routes: Vec<Name>,
        count_to: u32,
    ) -> StoreResult<PendingWork> {
        let from = cursor.marks.marks();
        let [due, lease, waits] = from;
        let began = Instant::now();
        let (work, now) = self.poll(routes, count_to, [due, lease, waits], cursor.last_id).await?;
        if let Some((now, last_id)) = now {
            let waits = work.routes.iter().any(|route| route.waits);
            cursor.note_id(from == [None; 3], waits, now, last_id);
            // SQLite keeps no entries of jobs that are over, so that its polls need no marks.
            if self.options.is_postgres() {
                cursor.marks.polled(from, [work.due, work.lease_over, waits], now, began.elapsed());
            }
        }
        Ok(work)
    }

    /// What there is to do; the database's clock and the last job id, unless no route is asked for.
    async fn poll(
        &self,
        routes: Vec<Name>,
        count_to: u32,
        [due, lease, waits]: [Option<Micros>; 3],
        last_id: i64,
    ) -> StoreResult<(PendingWork, Option<(Micros, i64)>)> {
        let routes: Vec<String> = routes.iter().map(ToString::to_string).collect();
        let params = values![routes, count_to, due, lease, waits, last_id];
        let poll = Query::new(Statement::PollWork, params, |rows| {
            let (mut work, mut now) = (PendingWork::default(), None);
            for row in rows {
                (work.due, work.lease_over) = (row.get("due")?, row.get("lease_over")?);
                now = Some((row.get("now")?, row.get("last_id")?));
                work.routes.push(RouteWork {
                    route: row.word("route", |route| Name::new(route).ok())?,
                    waits: row.get("waits")?,
                    handed: row.get("handed")?,
                });
            }
            Ok((work, now))
        });
        self.db.read(poll).await
    }
}
