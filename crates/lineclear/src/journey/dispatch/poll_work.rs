//! look: is there anything to do?

use lineclear_model::Name;

use crate::db::statements::Statement;
use crate::db::{Session, Value, Verb};
use crate::store::{Store, StoreResult};

/// What there is to do, as an idle node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingWork {
    /// Jobs have come due and are to be promoted.
    pub due: bool,
    /// A lease ran out, or a job is long past its time.
    pub lease_over: bool,
    /// What waits on each route.
    pub routes: Vec<RouteWork>,
}

/// What waits on a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteWork {
    /// The route.
    pub route: Name,
    /// Jobs wait to be dispatched; a limit may hold them back.
    pub waits: bool,
    /// Jobs were dispatched to whoever claims, counted up to the number that was asked for.
    pub handed: u32,
}

/// Verb: look at some routes.
pub(crate) struct LookAt {
    pub(crate) routes: Vec<Name>,
    pub(crate) count_to: u32,
}

impl Verb for LookAt {
    type Answer = PendingWork;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<PendingWork> {
        let routes = self.routes.iter().map(ToString::to_string).collect();
        let params = vec![Value::Texts(routes), Value::Int(Some(i64::from(self.count_to)))];
        let mut look = PendingWork::default();
        for row in session.rows(Statement::PollWork, params).await? {
            (look.due, look.lease_over) = (row.get("due")?, row.get("lease_over")?);
            look.routes.push(RouteWork {
                route: row.word("route", |route| Name::new(route).ok())?,
                waits: row.get("waits")?,
                handed: row.get("handed")?,
            });
        }
        Ok(look)
    }
}

/// Verb: how many jobs of a route are first in line, in the lane without limits.
pub(crate) struct InLine {
    pub(crate) route: Name,
    pub(crate) most: u32,
}

impl Verb for InLine {
    type Answer = u64;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<u64> {
        let params = vec![Value::Text(Some(self.route.to_string())), Value::Int(Some(i64::from(self.most)))];
        let rows = session.rows(Statement::CountReady, params).await?;
        rows.first().map_or(Ok(0), |row| row.get("jobs"))
    }
}

impl Store {
    /// How many jobs of a route stand first in line for whoever takes them, up to `most`; for those who look closely.
    pub(crate) async fn first_in_line(&self, route: Name, most: u32) -> StoreResult<u64> {
        self.db.read(InLine { route, most }).await
    }

    /// Whether there is anything to do on some routes; what was handed over is counted up to `count_to`. Changes nothing.
    pub async fn poll_work(&self, routes: Vec<Name>, count_to: u32) -> StoreResult<PendingWork> {
        self.db.read(LookAt { routes, count_to }).await
    }
}
