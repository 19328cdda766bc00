//! `/api/v1`: what operators and programs do, one file for each kind of thing.
//!
//! Handlers are thin: read the request into a value, call one verb of the store, write the answer. Rules are the store's.

mod dead_letters;
mod groups;
mod jobs;
mod locks;
mod manifests;
mod nodes;
mod page;
mod shape;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(jobs::list, jobs::create))
        .routes(routes!(jobs::create_many))
        .routes(routes!(jobs::get))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::logs))
        .routes(routes!(manifests::list))
        .routes(routes!(manifests::get, manifests::put))
        .routes(routes!(manifests::run))
        .routes(routes!(manifests::pause))
        .routes(routes!(manifests::resume))
        .routes(routes!(manifests::next))
        .routes(routes!(manifests::backfill))
        .routes(routes!(groups::list))
        .routes(routes!(groups::put))
        .routes(routes!(groups::run))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::revive))
        .routes(routes!(dead_letters::acknowledge))
        .routes(routes!(dead_letters::revive_matching))
        .routes(routes!(dead_letters::acknowledge_matching))
        .routes(routes!(locks::list))
        .routes(routes!(locks::history))
        .routes(routes!(nodes::list))
}
