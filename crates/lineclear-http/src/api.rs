//! `/api/v1`: one file or folder for each resource.
//!
//! A handler parses the request, calls the store once and writes the response. The rules are the store's.

pub(crate) mod audit;
pub(crate) mod bulk_operations;
mod claims;
pub(crate) mod dead_letters;
mod doctor;
mod etag;
pub(crate) mod events;
mod explain;
mod groups;
pub(crate) mod jobs;
pub(crate) mod json_body;
pub(crate) mod json_types;
pub(crate) mod locks;
pub(crate) mod manifests;
pub(crate) mod nodes;
pub(crate) mod outboxes;
pub(crate) mod pagination;
mod prefer_wait;
pub(crate) mod run;
pub(crate) mod runners;
pub(crate) mod session;
mod sessions;
mod settings;
pub(crate) mod stats;
mod status;
pub(crate) mod submitters;
pub(crate) mod subscriptions;
mod tokens;
pub(crate) mod triage;
mod workers;

use axum::Router;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;

/// The frame of the OpenAPI document.
#[derive(OpenApi)]
#[openapi(
    info(title = "Lineclear", description = "A distributed job scheduler.", license(name = "MIT OR Apache-2.0")),
    tags((name = "jobs"), (name = "manifests"), (name = "groups"), (name = "dead letters"), (name = "bulk operations"), (name = "locks"), (name = "nodes"), (name = "outboxes"), (name = "subscriptions"), (name = "claims"), (name = "callbacks"), (name = "events"), (name = "tokens"),
         (name = "session"), (name = "audit"), (name = "stats"), (name = "settings")),
    modifiers(&SecuritySchemes)
)]
struct Document;

struct SecuritySchemes;

impl Modify for SecuritySchemes {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
            "A token (`lineclear token create`). Scopes: `read`, `operate` and `admin`, each of which includes the ones before it; and \
             `worker`. Browsers may log in with a token and send a cookie instead. An open server on a loopback address requires none.",
        ));
        let claim = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
            "The token of one claim, which a push worker gets with the job. It is good for callbacks about that claim only.",
        ));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(token.build()));
        components.add_security_scheme("claim", SecurityScheme::Http(claim.build()));
    }
}

/// The routes of the API, and the document that describes them.
pub(crate) fn router() -> (Router<App>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(Document::openapi()).nest("/api/v1", routes()).split_for_parts()
}

pub(crate) fn document() -> utoipa::openapi::OpenApi {
    router().1
}

fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(jobs::list, jobs::enqueue::create))
        .routes(routes!(jobs::enqueue::create_many))
        .routes(routes!(jobs::detail::get))
        .routes(routes!(jobs::cancel::cancel))
        .routes(routes!(jobs::retry::retry))
        .routes(routes!(jobs::payload::executions))
        .routes(routes!(jobs::payload::input))
        .routes(routes!(jobs::payload::output))
        .routes(routes!(jobs::payload::reveal))
        .routes(routes!(jobs::logs::logs))
        .routes(routes!(explain::job))
        .routes(routes!(run::run))
        .routes(routes!(claims::pull::pull))
        .routes(routes!(claims::renew::renew))
        .routes(routes!(claims::progress::report))
        .routes(routes!(claims::logs::report))
        .routes(routes!(claims::steps::record))
        .routes(routes!(claims::steps::read))
        .routes(routes!(claims::settle::settle))
        .routes(routes!(claims::callback::renew))
        .routes(routes!(claims::callback::progress))
        .routes(routes!(claims::callback::log))
        .routes(routes!(claims::callback::step))
        .routes(routes!(claims::callback::read_step))
        .routes(routes!(claims::callback::settle))
        .routes(routes!(workers::remove))
        .routes(routes!(manifests::list))
        .routes(routes!(manifests::get, manifests::put, manifests::delete))
        .routes(routes!(manifests::run::run))
        .routes(routes!(manifests::pause::pause))
        .routes(routes!(manifests::pause::resume))
        .routes(routes!(manifests::next::next))
        .routes(routes!(manifests::backfill::backfill))
        .routes(routes!(explain::manifest))
        .routes(routes!(groups::list))
        .routes(routes!(groups::get, groups::put, groups::patch))
        .routes(routes!(groups::run))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::families::list))
        .routes(routes!(dead_letters::resolve::revive))
        .routes(routes!(dead_letters::resolve::acknowledge))
        .routes(routes!(dead_letters::matching::revive))
        .routes(routes!(dead_letters::matching::acknowledge))
        .routes(routes!(bulk_operations::list, bulk_operations::create))
        .routes(routes!(bulk_operations::get))
        .routes(routes!(bulk_operations::cancel))
        .routes(routes!(locks::list))
        .routes(routes!(locks::history))
        .routes(routes!(locks::break_lock::break_lock))
        .routes(routes!(nodes::list))
        .routes(routes!(submitters::list))
        .routes(routes!(runners::list))
        .routes(routes!(outboxes::list))
        .routes(routes!(outboxes::messages::list))
        .routes(routes!(outboxes::messages::get))
        .routes(routes!(outboxes::triage::replay))
        .routes(routes!(outboxes::triage::discard))
        .routes(routes!(subscriptions::list))
        .routes(routes!(subscriptions::get))
        .routes(routes!(subscriptions::change::pause))
        .routes(routes!(subscriptions::change::resume))
        .routes(routes!(subscriptions::change::skip))
        .routes(routes!(subscriptions::change::reset))
        .routes(routes!(subscriptions::rebuild::begin))
        .routes(routes!(subscriptions::rebuild::swap))
        .routes(routes!(subscriptions::rebuild::cancel))
        .routes(routes!(subscriptions::parked::list))
        .routes(routes!(subscriptions::parked::get))
        .routes(routes!(subscriptions::triage::replay))
        .routes(routes!(subscriptions::triage::discard))
        .routes(routes!(nodes::drain))
        .routes(routes!(nodes::resume))
        .routes(routes!(events::stream))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::get, tokens::revoke))
        .routes(routes!(session::log_in, session::get, session::log_out))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::revoke))
        .routes(routes!(audit::list))
        .routes(routes!(stats::stats))
        .routes(routes!(stats::now))
        .routes(routes!(status::status))
        .routes(routes!(doctor::doctor))
        .routes(routes!(settings::get, settings::patch))
        .routes(routes!(manifests::apply::apply))
}
