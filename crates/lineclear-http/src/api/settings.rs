//! Settings that operators change while nodes run.

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

use crate::App;
use crate::api::etag::{IfMatch, etag, expected_version};
use crate::api::json_body::{JsonBody, escape_pointer};
use crate::api::json_types::{time, unprocessable};
use crate::audit::AuditDetails;
use crate::auth::Caller;
use crate::problem::Problem;

/// A setting and the origin of its value.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettingState {
    key: &'static str,
    /// The effective value.
    value: u64,
    /// `override`: an operator set it for all nodes. `node`: this node was started with it. `default`: it is the default.
    origin: &'static str,
    /// The value that this node was started with, which applies without an override.
    node: u64,
    default: u64,
    minimum: u64,
    maximum: u64,
    updated_at: Option<String>,
    updated_by: Option<String>,
}

/// All settings.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettingsResponse {
    settings: Vec<SettingState>,
}

/// The body of a change, for the API document: each setting, and no other field.
pub(crate) struct SettingsPatch;

impl PartialSchema for SettingsPatch {
    fn schema() -> RefOr<Schema> {
        let description =
            "A number within the bounds of the setting, or null to remove an override. Absent settings stay.";
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
        SettingState {
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
    let body = SettingsResponse { settings: Setting::ALL.iter().map(shown).collect() };
    ([(header::ETAG, etag(settings.version))], Json(body)).into_response()
}

/// The audit details: the overrides before and after; `null` is none.
fn details(before: &Settings, changes: &BTreeMap<Setting, Option<u64>>) -> serde_json::Value {
    let of = |value: &dyn Fn(&Setting) -> Option<u64>| {
        let shown = |setting: &Setting| (setting.as_str().to_owned(), value(setting).into());
        changes.keys().map(shown).collect::<serde_json::Map<_, _>>()
    };
    let old = of(&|setting| before.overrides.get(setting).map(|changed| changed.value));
    let new = of(&|setting| changes.get(setting).copied().flatten());
    serde_json::json!({"before": old, "after": new})
}

/// Returns all settings with the origin of each value.
#[utoipa::path(
    get, path = "/settings", operation_id = "get_settings", tag = "settings",
    security(("token" = ["admin"])),
    responses((status = 200, body = SettingsResponse, headers(("etag" = String))),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>) -> Result<Response, Problem> {
    Ok(answer(&state.reading.settings().await?, &state.client.started_with()))
}

/// Changes settings on all nodes, all or none: `null` removes an override, and absent settings stay. Nodes apply them at their next
/// heartbeat. With `If-Match`, only if the settings have not changed since.
#[utoipa::path(
    patch, path = "/settings", operation_id = "patch_settings", tag = "settings", request_body = SettingsPatch, params(IfMatch),
    security(("token" = ["admin"])),
    responses((status = 200, body = SettingsResponse, headers(("etag" = String))),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn patch(
    state: State<App>,
    headers: HeaderMap,
    audit: AuditDetails,
    caller: Caller,
    body: JsonBody<serde_json::Map<String, serde_json::Value>>,
) -> Result<Response, Problem> {
    let mut changes = BTreeMap::new();
    for (key, value) in body.0 {
        let pointer = format!("/{}", escape_pointer(&key));
        let setting = Setting::from_word(&key).ok_or_else(|| {
            let known: Vec<&str> = Setting::ALL.iter().map(|setting| setting.as_str()).collect();
            unprocessable(
                "setting",
                format!("{key:?} is not a setting; the settings are {}", known.join(", ")),
            )
            .at(&pointer)
        })?;
        let wanted = value.as_u64();
        let [min, max] = setting.bounds();
        let fits = value.is_null() || wanted.is_some_and(|wanted| (min..=max).contains(&wanted));
        if !fits {
            let unit = if key.ends_with("_ms") { "a number of milliseconds" } else { "a number" };
            let detail = format!("`{key}` must be {unit} between {min} and {max}, or null");
            return Err(unprocessable("setting", detail).at(pointer));
        }
        changes.insert(setting, wanted);
    }
    let before = state.reading.settings().await?;
    audit.set(details(&before, &changes));
    let settings =
        state.client.change_settings(changes, expected_version(&headers), &caller.0.audit_name()).await?;
    Ok(answer(&settings, &state.client.started_with()))
}
