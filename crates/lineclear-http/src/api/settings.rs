//! Settings: what operators change while nodes run, over what the nodes were started with.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use lineclear::store::{Retention, Setting, Settings};
use serde::Serialize;
use utoipa::ToSchema;

use super::etag::{etag, seen};
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

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn answer(settings: &Settings, node: &Retention) -> Response {
    let shown = |setting: &Setting| {
        let (started, default) = (setting.of(node), setting.of(&Retention::default()));
        let changed = settings.overrides.get(setting);
        Shown {
            key: setting.as_str(),
            value: ms(changed.map_or(started, |changed| changed.value)),
            origin: match changed {
                Some(_) => "override",
                None if started != default => "node",
                None => "default",
            },
            node: ms(started),
            default: ms(default),
            minimum: ms(Setting::BOUNDS[0]),
            maximum: ms(Setting::BOUNDS[1]),
            updated_at: changed.map(|changed| time(changed.updated_at)),
            updated_by: changed.map(|changed| changed.updated_by.clone()),
        }
    };
    let body = SettingsAnswer { settings: Setting::ALL.iter().map(shown).collect() };
    ([(header::ETAG, etag(settings.version))], Json(body)).into_response()
}

/// What overrides there were, and what there shall be, of those that change; `null` is none.
fn noted(before: &Settings, changes: &BTreeMap<Setting, Option<Duration>>) -> serde_json::Value {
    let of = |value: &dyn Fn(&Setting) -> Option<Duration>| {
        let shown = |setting: &Setting| (setting.as_str().to_owned(), value(setting).map(ms).into());
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
    patch, path = "/settings", operation_id = "patch_settings", tag = "settings", request_body = Object,
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
        let wanted = value.as_u64().map(Duration::from_millis);
        let [least, most] = Setting::BOUNDS;
        let fits = value.is_null() || wanted.is_some_and(|time| (least..=most).contains(&time));
        if !fits {
            let detail =
                format!("milliseconds between {} and {}, or null", least.as_millis(), most.as_millis());
            return Err(unprocessable("setting", detail).at(pointer));
        }
        changes.insert(setting, wanted);
    }
    let before = state.reading.settings().await?;
    note.say(noted(&before, &changes));
    let settings = state.client.change_settings(changes, seen(&headers)?, &by.0.who()).await?;
    Ok(answer(&settings, &state.client.started_with()))
}
