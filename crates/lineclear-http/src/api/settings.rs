//! Settings: what operators change while nodes run, over what the nodes were started with.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use lineclear::NodeOptions;
use lineclear::store::{Setting, Settings, Tunable};
use serde::Serialize;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::etag::{IfMatch, etag, seen};
use super::shape::{time, unprocessable};
use crate::App;
use crate::access::Who;
use crate::audit::Note;
use crate::body::Body;
use crate::problem::Problem;

/// A setting, and where its value comes from.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Shown {
    key: &'static str,
    /// What holds.
    value: u64,
    /// `override`: an operator said so, and all nodes obey. `node`: this node was started with it. `default`: nobody said anything.
    origin: &'static str,
    /// What this node was started with, and what holds without an override.
    node: u64,
    default: u64,
    minimum: u64,
    maximum: u64,
    updated_at: Option<String>,
    updated_by: Option<String>,
}

/// All settings.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettingsAnswer {
    settings: Vec<Shown>,
}

/// What is to change, for the document: each setting, and no other word.
pub(crate) struct SettingsPatch;

impl PartialSchema for SettingsPatch {
    fn schema() -> RefOr<Schema> {
        let description = "What is to change: a number within its bounds, or null to take an override back. What is left out stays.";
        let mut object = ObjectBuilder::new()
            .description(Some(description))
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        for setting in Setting::ALL {
            let [least, most] = setting.bounds();
            let value = ObjectBuilder::new()
                .schema_type(SchemaType::from_iter([Type::Integer, Type::Null]))
                .minimum(Some(least))
                .maximum(Some(most));
            object = object.property(setting.as_str(), value);
        }
        object.into()
    }
}

impl ToSchema for SettingsPatch {}

fn answer(settings: &Settings, node: &Tunable) -> Response {
    let defaults = NodeOptions::default().tunable();
    let shown = |setting: &Setting| {
        let (started, default) = (setting.of(node), setting.of(&defaults));
        let [minimum, maximum] = setting.bounds();
        let changed = settings.overrides.get(setting);
        Shown {
            key: setting.as_str(),
            value: changed.map_or(started, |changed| changed.value),
            origin: match changed {
                Some(_) => "override",
                None if started != default => "node",
                None => "default",
            },
            node: started,
            default,
            minimum,
            maximum,
            updated_at: changed.map(|changed| time(changed.updated_at)),
            updated_by: changed.map(|changed| changed.updated_by.clone()),
        }
    };
    let body = SettingsAnswer { settings: Setting::ALL.iter().map(shown).collect() };
    ([(header::ETAG, etag(settings.version))], Json(body)).into_response()
}

/// What overrides there were, and what there shall be, of those that change; `null` is none.
fn noted(before: &Settings, changes: &BTreeMap<Setting, Option<u64>>) -> serde_json::Value {
    let of = |value: &dyn Fn(&Setting) -> Option<u64>| {
        let shown = |setting: &Setting| (setting.as_str().to_owned(), value(setting).into());
        changes.keys().map(shown).collect::<serde_json::Map<_, _>>()
    };
    let was = of(&|setting| before.overrides.get(setting).map(|changed| changed.value));
    let shall = of(&|setting| changes.get(setting).copied().flatten());
    serde_json::json!({"before": was, "after": shall})
}

/// All settings, with where each value comes from.
#[utoipa::path(
    get, path = "/settings", operation_id = "get_settings", tag = "settings",
    security(("token" = ["admin"])),
    responses((status = 200, body = SettingsAnswer, headers(("etag" = String))),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>) -> Result<Response, Problem> {
    Ok(answer(&state.reading.settings().await?, &state.client.started_with()))
}

/// Changes settings on all nodes, all or none: `null` takes an override back, and what is left out stays. Nodes hear of it with their next
/// heartbeat. With `If-Match`, only if they are still what you have seen.
#[utoipa::path(
    patch, path = "/settings", operation_id = "patch_settings", tag = "settings", request_body = SettingsPatch, params(IfMatch),
    security(("token" = ["admin"])),
    responses((status = 200, body = SettingsAnswer, headers(("etag" = String))),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn patch(
    state: State<App>,
    headers: HeaderMap,
    note: Note,
    by: Who,
    body: Body<serde_json::Map<String, serde_json::Value>>,
) -> Result<Response, Problem> {
    let mut changes = BTreeMap::new();
    for (key, value) in body.0 {
        let pointer = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        let setting = Setting::from_word(&key).ok_or_else(|| {
            let known: Vec<&str> = Setting::ALL.iter().map(|setting| setting.as_str()).collect();
            unprocessable("setting", format!("{key:?} is no setting; there are {}", known.join(", ")))
                .at(&pointer)
        })?;
        let wanted = value.as_u64();
        let [least, most] = setting.bounds();
        let fits = value.is_null() || wanted.is_some_and(|wanted| (least..=most).contains(&wanted));
        if !fits {
            let unit = if key.ends_with("_ms") { "milliseconds" } else { "a number" };
            let detail = format!("{unit} between {least} and {most}, or null");
            return Err(unprocessable("setting", detail).at(pointer));
        }
        changes.insert(setting, wanted);
    }
    let before = state.reading.settings().await?;
    note.say(noted(&before, &changes));
    let settings = state.client.change_settings(changes, seen(&headers), &by.0.who()).await?;
    Ok(answer(&settings, &state.client.started_with()))
}
