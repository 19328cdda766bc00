//! Sample manifests for a new database.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use lineclear_model::{ManifestFile, Name, Scope};
use maud::{Markup, html};
use serde::Deserialize;

use super::confirm::{Confirmation, FormBody, page as confirm_page, redirect};
use super::{Page, Tab, View};
use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::manifests::apply::{self, ApplyBody};
use crate::audit::AuditDetails;
use crate::problem::Problem;

/// The kind of the sample manifests.
pub const SAMPLE: &str = "sample";
/// Their owner; removing them prunes this owner.
const OWNER: &str = "sample";
/// Nodes that are read for the kind.
const NODES: u32 = 200;

const FILE: &str = r#"
[[manifest]]
key = "sample-heartbeat"
kind = "sample"
tags = ["sample"]
schedule = { every = "10s" }

[[manifest]]
key = "sample-flaky"
kind = "sample"
tags = ["sample"]
input = { sleep_ms = 300, fails = 3 }
schedule = { every = "5s" }
retry = { delay = "3s" }

[[manifest]]
key = "sample-slow"
kind = "sample"
tags = ["sample"]
input = { sleep_ms = 20000 }
schedule = { every = "30s" }

[[manifest]]
key = "sample-extract"
kind = "sample"
tags = ["sample"]
input = { sleep_ms = 500 }
schedule = { every = "20s" }

[[manifest]]
key = "sample-load"
kind = "sample"
tags = ["sample"]
input = { sleep_ms = 500 }
schedule = { after = ["sample-extract"] }
"#;

/// `GET /samples`: loads the samples, or removes them if they are loaded.
pub(super) async fn page(view: &View<'_>) -> Result<Page, Problem> {
    let loaded = is_loaded(view.app).await?;
    let keys: Vec<String> = file()?.manifest.iter().map(|manifest| manifest.key.to_string()).collect();
    let (title, what, button) = if loaded {
        (
            "Remove the sample manifests?",
            "The manifests are removed. The history of their jobs remains.",
            "Remove them",
        )
    } else {
        (
            "Load sample manifests?",
            "A heartbeat, a flaky manifest, a slow one, and a chain of two. They start at once and do no real work.",
            "Load them",
        )
    };
    Ok(confirm_page(
        view,
        Confirmation {
            title: title.to_owned(),
            what: html! {
                p { (what) } p { @for key in &keys { code { (key) } " " } }
                @if !loaded { details { summary { "As a file, samples.toml" } pre.json { (FILE.trim()) } } }
            },
            fields: html! { input type="hidden" name="remove" value=(loaded); },
            button,
            danger: loaded,
            cli: if loaded {
                "lineclear manifest apply -f empty.toml --owner sample --prune".to_owned()
            } else {
                "lineclear manifest apply -f samples.toml --owner sample".to_owned()
            },
            back: "/".to_owned(),
            tab: Tab::Overview,
        },
    ))
}

/// A hint that the samples are loaded.
pub(super) async fn hint(view: &View<'_>) -> Result<Markup, Problem> {
    if !view.can(Scope::Admin) || !is_loaded(view.app).await? {
        return Ok(html! {});
    }
    Ok(
        html! { p.muted.hint { "The sample manifests are loaded. Their jobs do no real work. " a href=(view.link("/samples")) { "Remove them" } } },
    )
}

async fn is_loaded(app: &App) -> Result<bool, Problem> {
    let first = Name::new("sample-heartbeat").map_err(|bad| Problem::malformed("name", bad.to_string()))?;
    Ok(app.reading.manifest(&first).await?.is_some())
}

fn file() -> Result<ManifestFile, Problem> {
    ManifestFile::from_toml(FILE).map_err(|bad| Problem::malformed("samples", bad.to_string()))
}

#[derive(Deserialize)]
pub(super) struct SamplesForm {
    remove: bool,
}

pub(super) async fn apply(
    state: State<App>,
    audit: AuditDetails,
    FormBody(form): FormBody<SamplesForm>,
) -> Result<Response, Problem> {
    let app = state.0.clone();
    let mut manifest = Vec::new();
    if !form.remove {
        check_node_runs_samples(&app).await?;
        for mut one in file()?.manifest {
            one.owner = Some(OWNER.to_owned());
            manifest.push(serde_json::value::to_raw_value(&one).expect("a manifest is JSON"));
        }
    }
    let body = ApplyBody {
        group: BTreeMap::new(),
        manifest,
        owner: Some(OWNER.to_owned()),
        prune: form.remove,
        dry_run: false,
    };
    let Json(_) = apply::apply(state, audit, JsonBody(body)).await?;
    Ok(redirect(&app, "/"))
}

async fn check_node_runs_samples(app: &App) -> Result<(), Problem> {
    let nodes = app.reading.nodes(NODES).await?;
    let mut kinds =
        nodes.iter().filter(|node| node.state() == "alive").filter_map(|node| node.kinds.as_deref());
    if kinds.any(|kinds| {
        serde_json::from_str::<Vec<String>>(kinds).is_ok_and(|kinds| kinds.iter().any(|kind| kind == SAMPLE))
    }) {
        return Ok(());
    }
    let detail = "no live node runs the kind `sample`; start `lineclear serve` with workers";
    Err(Problem::new(StatusCode::CONFLICT, "no_sample", detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_can_be_read() {
        let manifests = file().unwrap().manifest;
        assert_eq!(manifests.len(), 5);
        assert!(
            manifests.iter().all(|manifest| manifest.check().is_ok() && manifest.kind.as_str() == SAMPLE)
        );
    }
}
