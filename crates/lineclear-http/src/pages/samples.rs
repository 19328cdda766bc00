//! Sample manifests for a new database: loaded with one click, removed with one.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use lineclear_model::{ManifestFile, Name, Scope};
use maud::{Markup, html};
use serde::Deserialize;

use super::action::{Ask, Filled, done, page as ask_page};
use super::{Page, Tab, View};
use crate::App;
use crate::api::apply::{ApplyBody, apply};
use crate::audit::Note;
use crate::body::Body;
use crate::problem::Problem;

/// The kind of the sample manifests: whoever has it can show what a database does.
pub const SAMPLE: &str = "sample";
/// Whose they are: all that is this owner's is removed with them.
const OWNER: &str = "sample";
/// Nodes that are looked at for the kind.
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

/// `GET /samples`: to load them, or to remove them if they are there.
pub(super) async fn page(view: &View<'_>) -> Result<Page, Problem> {
    let there = is_there(view.app).await?;
    let keys: Vec<String> = file()?.manifest.iter().map(|manifest| manifest.key.to_string()).collect();
    let (title, what, button) = if there {
        (
            "Remove the sample manifests?",
            "They are removed, and plan nothing any more. What their jobs did stays in the history.",
            "Remove them",
        )
    } else {
        (
            "Load sample manifests?",
            "A heartbeat, one that fails now and then, a slow one, and two of which one follows the other. They begin at once, and do nothing of use.",
            "Load them",
        )
    };
    Ok(ask_page(
        view,
        Ask {
            title: title.to_owned(),
            what: html! {
                p { (what) } p { @for key in &keys { code { (key) } " " } }
                @if !there { details { summary { "The same as a file, samples.toml" } pre.json { (FILE.trim()) } } }
            },
            fields: html! { input type="hidden" name="remove" value=(there); },
            button,
            danger: there,
            cli: if there {
                "lineclear manifest apply -f empty.toml --owner sample --prune".to_owned()
            } else {
                "lineclear manifest apply -f samples.toml --owner sample".to_owned()
            },
            back: "/".to_owned(),
            tab: Tab::Overview,
        },
    ))
}

/// That they are there, and how to be rid of them.
pub(super) async fn hint(view: &View<'_>) -> Result<Markup, Problem> {
    if !view.may(Scope::Admin) || !is_there(view.app).await? {
        return Ok(html! {});
    }
    Ok(
        html! { p.muted.hint { "The sample manifests are loaded: they make work that does nothing. " a href=(view.link("/samples")) { "Remove them" } } },
    )
}

async fn is_there(app: &App) -> Result<bool, Problem> {
    let first = Name::new("sample-heartbeat").map_err(|bad| Problem::malformed("name", bad.to_string()))?;
    Ok(app.reading.manifest(&first).await?.is_some())
}

fn file() -> Result<ManifestFile, Problem> {
    ManifestFile::from_toml(FILE).map_err(|bad| Problem::malformed("samples", bad.to_string()))
}

#[derive(Deserialize)]
pub(super) struct Given {
    remove: bool,
}

pub(super) async fn change(
    state: State<App>,
    note: Note,
    Filled(given): Filled<Given>,
) -> Result<Response, Problem> {
    let app = state.0.clone();
    let mut manifest = Vec::new();
    if !given.remove {
        some_node_runs_them(&app).await?;
        for mut one in file()?.manifest {
            one.owner = Some(OWNER.to_owned());
            manifest.push(serde_json::value::to_raw_value(&one).expect("a manifest is JSON"));
        }
    }
    let body = ApplyBody {
        group: BTreeMap::new(),
        manifest,
        owner: Some(OWNER.to_owned()),
        prune: given.remove,
        dry_run: false,
    };
    let Json(_) = apply(state, note, Body(body)).await?;
    Ok(done(&app, "/"))
}

async fn some_node_runs_them(app: &App) -> Result<(), Problem> {
    let nodes = app.reading.nodes(NODES).await?;
    let mut kinds =
        nodes.iter().filter(|node| node.state() == "alive").filter_map(|node| node.kinds.as_deref());
    if kinds.any(|kinds| {
        serde_json::from_str::<Vec<String>>(kinds).is_ok_and(|kinds| kinds.iter().any(|kind| kind == SAMPLE))
    }) {
        return Ok(());
    }
    let detail =
        "no node that is alive runs the kind sample; `lineclear serve` does, unless it has no workers";
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
