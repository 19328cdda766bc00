//! The poll of an idle node: is there anything to do?

use lineclear_model::Name;

use crate::db::statements::Statement;
use crate::db::{Query, values};
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

impl Store {
    /// Whether there is anything to do on some routes; counts unclaimed jobs up to `count_to`. Changes nothing.
    pub async fn poll_work(&self, routes: Vec<Name>, count_to: u32) -> StoreResult<PendingWork> {
        let routes: Vec<String> = routes.iter().map(ToString::to_string).collect();
        let poll = Query::new(Statement::PollWork, values![routes, count_to], |rows| {
            let mut work = PendingWork::default();
            for row in rows {
                (work.due, work.lease_over) = (row.get("due")?, row.get("lease_over")?);
                work.routes.push(RouteWork {
                    route: row.word("route", |route| Name::new(route).ok())?,
                    waits: row.get("waits")?,
                    handed: row.get("handed")?,
                });
            }
            Ok(work)
        });
        self.db.read(poll).await
    }
}
