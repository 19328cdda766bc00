//! Routes of kinds whose jobs leave their nodes.

use lineclear_model::Name;
use lineclear_model::job::PULL_PREFIX;

use crate::db::statements::Statement;
use crate::db::{Column, Query, values};
use crate::node::Shared;
use crate::store::{BATCH, ClaimRef, Store, StoreResult, main_route};

/// The route of a kind that workers pull: one for each kind, because a worker serves some kinds and not others.
pub(crate) fn pull_route(kind: &Name) -> Option<Name> {
    Name::new(format!("{PULL_PREFIX}{kind}")).ok()
}

/// Whether workers pull the jobs of a route.
pub(crate) fn is_pull_route(route: &Name) -> bool {
    route.as_str().starts_with(PULL_PREFIX)
}

/// A kind whose route has changed.
#[derive(Debug)]
struct Rerouted {
    kind: Name,
    to: Name,
    from: Name,
}

impl Store {
    /// Kinds whose jobs leave their nodes, and their routes.
    pub async fn kind_routes(&self) -> StoreResult<Vec<(Name, Name)>> {
        let name = |text: &str| Name::new(text).ok();
        let read = Query::each(Statement::KindRoutes, values![], move |row| {
            Ok((row.word("kind", name)?, row.word("route", name)?))
        });
        self.db.read(read).await
    }

    /// Sets where jobs go that name no route, by kind; `main`: nodes run them. Jobs that wait on another route follow.
    pub async fn route_kinds(&self, routes: &[(Name, Name)]) -> StoreResult<()> {
        if routes.is_empty() {
            return Ok(());
        }
        let texts = |of: fn(&(Name, Name)) -> &Name| {
            Column::Texts(routes.iter().map(|pair| Some(of(pair).to_string())).collect())
        };
        let name = |text: &str| Name::new(text).ok();
        let columns = vec![texts(|(kind, _)| kind), texts(|(_, route)| route)];
        let write = Query::each(Statement::RouteKinds, columns, move |row| {
            let (kind, to) = (row.word("kind", name)?, row.word("route", name)?);
            Ok(Rerouted { kind, to, from: row.word("before", name)? })
        });
        for Rerouted { kind, to, from } in self.run(write).await? {
            tracing::info!(%kind, %from, %to, "jobs of this kind take another route now");
            while self.move_waiting(&kind, &from, &to).await? >= BATCH as usize {}
        }
        Ok(())
    }

    async fn move_waiting(&self, kind: &Name, from: &Name, to: &Name) -> StoreResult<usize> {
        let moved = Query::rows(Statement::MoveWaiting, values![kind, from, to, BATCH]);
        Ok(self.run(moved).await?.len())
    }

    /// Sends a claimed job to `route`, or to the route of its kind, with the release that must follow. False: it has no other route.
    pub(crate) async fn reroute(&self, claim: ClaimRef, route: Option<&Name>) -> StoreResult<bool> {
        let route = route.map(ToString::to_string);
        self.run(Query::exists(Statement::Reroute, values![claim.job.0, claim.no, route])).await
    }
}

/// The routes of the kinds of a node: those that it runs itself have none.
pub(crate) fn declared_routes(shared: &Shared) -> Vec<(Name, Name)> {
    let route =
        |kind: &crate::handler::Kind| if kind.is_local() { main_route() } else { kind.options.route.clone() };
    shared.kinds.iter().map(|(name, kind)| (name.clone(), route(kind))).collect()
}
