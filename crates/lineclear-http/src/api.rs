//! `/api/v1`: what operators and programs do, one file for each kind of thing.
//!
//! Handlers are thin: read the request into a value, call one verb of the store, write the answer. Rules are the store's.

mod audit;
pub(crate) mod batches;
pub(crate) mod apply;
mod checks;
pub(crate) mod dead_letters;
mod doctor;
mod etag;
mod explain;
mod families;
pub(crate) mod events;
mod groups;
mod input;
pub(crate) mod jobs;
pub(crate) mod locks;
pub(crate) mod lock_break;
mod manifest_body;
mod manifests;
pub(crate) mod nodes;
pub(crate) mod page;
pub(crate) mod session;
pub(crate) mod shape;
mod settings;
pub(crate) mod stats;
mod status;
mod wait;
mod tokens;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(jobs::list, jobs::create::create))
        .routes(routes!(jobs::create::create_many))
        .routes(routes!(jobs::detail::get))
        .routes(routes!(jobs::change::cancel))
        .routes(routes!(jobs::change::retry))
        .routes(routes!(jobs::payload::executions))
        .routes(routes!(jobs::payload::input))
        .routes(routes!(jobs::payload::job_output))
        .routes(routes!(jobs::payload::reveal))
        .routes(routes!(jobs::logs::logs))
        .routes(routes!(explain::job))
        .routes(routes!(manifests::list))
        .routes(routes!(manifests::get, manifests::put, manifests::delete))
        .routes(routes!(manifests::run))
        .routes(routes!(manifests::pause))
        .routes(routes!(manifests::resume))
        .routes(routes!(manifests::next))
        .routes(routes!(manifests::backfill))
        .routes(routes!(explain::manifest))
        .routes(routes!(groups::list))
        .routes(routes!(groups::get, groups::put, groups::patch))
        .routes(routes!(groups::run))
        .routes(routes!(dead_letters::list))
        .routes(routes!(families::list))
        .routes(routes!(dead_letters::revive))
        .routes(routes!(dead_letters::acknowledge))
        .routes(routes!(dead_letters::revive_matching))
        .routes(routes!(dead_letters::acknowledge_matching))
        .routes(routes!(batches::list, batches::create))
        .routes(routes!(batches::get))
        .routes(routes!(batches::cancel))
        .routes(routes!(locks::list))
        .routes(routes!(locks::history))
        .routes(routes!(lock_break::break_lock))
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::drain))
        .routes(routes!(nodes::resume))
        .routes(routes!(events::stream))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::get, tokens::revoke))
        .routes(routes!(session::log_in, session::get, session::log_out))
        .routes(routes!(audit::list))
        .routes(routes!(stats::stats))
        .routes(routes!(stats::now))
        .routes(routes!(status::status))
        .routes(routes!(doctor::doctor))
        .routes(routes!(settings::get, settings::patch))
        .routes(routes!(apply::apply))
}
