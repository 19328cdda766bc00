//! Many manifests and groups at once, as one owner wants them: all of it becomes so, or nothing.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use lineclear::StoreError;
use lineclear::store::{Change, Declaration, Plan, Prune, check_group};
use lineclear_model::{GroupSpec, Manifest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::groups::GroupBody;
use super::manifest_body::KeyedManifest;
use super::manifests::RULES;
use super::shape::unprocessable;
use crate::App;
use crate::audit::{Note, many};
use crate::body::{Body, parse};
use crate::problem::Problem;

/// What shall be so, in the form of a manifest file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApplyBody {
    /// Groups by name; `*` is everybody's.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, GroupBody>)]
    pub(crate) group: BTreeMap<String, Box<RawValue>>,
    /// Manifests, each with its key.
    #[serde(default)]
    #[schema(value_type = Vec<KeyedManifest>)]
    pub(crate) manifest: Vec<Box<RawValue>>,
    /// Who says so. Manifests that name no owner get this one.
    pub(crate) owner: Option<String>,
    /// Manifests of this owner that are not here are removed.
    #[serde(default)]
    pub(crate) prune: bool,
    /// Only say what would change.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// What changed, or would.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApplyAnswer {
    dry_run: bool,
    groups: Changes,
    manifests: Changes,
}

/// What became of things, by name.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Changes {
    created: Vec<String>,
    changed: Vec<Changed>,
    unchanged: Vec<String>,
    removed: Vec<String>,
}

/// Something that is another than before.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Changed {
    name: String,
    fields: Vec<String>,
}

impl Changes {
    fn of<T: ToString>(all: BTreeMap<T, Change>, removed: Vec<T>) -> Changes {
        let removed = removed.iter().map(ToString::to_string).collect();
        let mut changes = Changes { removed, ..Changes::default() };
        for (name, change) in all {
            let name = name.to_string();
            match change {
                Change::Created => changes.created.push(name),
                Change::Changed(fields) => changes.changed.push(Changed { name, fields }),
                Change::Unchanged => changes.unchanged.push(name),
            }
        }
        changes
    }

    fn noted(&self) -> Value {
        let changed = self.changed.iter().map(|one| format!("{}: {}", one.name, one.fields.join(", ")));
        json!({
            "created": many(&self.created), "changed": many(changed), "removed": many(&self.removed),
            "unchanged": self.unchanged.len(),
        })
    }
}

/// Makes many manifests and groups so, all or none. What operators edited since it was last said stays, as with a manifest file.
#[utoipa::path(
    post, path = "/manifests:apply", operation_id = "apply_manifests", tag = "manifests", request_body = ApplyBody,
    security(("token" = ["admin"])),
    responses((status = 200, body = ApplyAnswer), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn apply(
    state: State<App>,
    note: Note,
    body: Body<ApplyBody>,
) -> Result<Json<ApplyAnswer>, Problem> {
    let ApplyBody { group, manifest, owner, prune, dry_run } = body.0;
    let mut groups = BTreeMap::new();
    for (name, spec) in group {
        let at = format!("/group/{}", name.replace('~', "~0").replace('/', "~1"));
        let spec: GroupSpec = read(&spec, "group", &at)?;
        check_group(&name, &spec).map_err(|error| {
            Problem::placed(error, |rule| {
                Some(if rule == "group_name" { at } else { format!("{at}/{rule}") })
            })
        })?;
        groups.insert(name, spec);
    }
    let mut manifests = Vec::with_capacity(manifest.len());
    for (n, json) in manifest.iter().enumerate() {
        let at = format!("/manifest/{n}");
        let manifest: Manifest = read(json, "manifest", &at)?;
        manifest.check().map_err(|bad| {
            let field = bad.field.replace('.', "/");
            unprocessable("manifest", bad.message.clone()).at(format!("{at}/{field}"))
        })?;
        state
            .client
            .check_input(&manifest.kind, &manifest.input)
            .map_err(|error| Problem::from(error).at(format!("{at}/input")))?;
        manifests.push(manifest);
    }
    let keys: Vec<String> = manifests.iter().map(|manifest| manifest.key.to_string()).collect();
    let mut said = json!({"dry_run": dry_run, "owner": owner, "prune": prune});
    note.say(said.clone());
    let prune = if prune { Prune::All } else { Prune::Nothing };
    let declaration = Declaration { groups, manifests, owner, prune, release: None };
    let plan =
        state.client.store().apply(declaration, dry_run).await.map_err(|error| placed(error, &keys))?;
    let Plan { groups, manifests, removed } = plan;
    let (groups, manifests) = (Changes::of(groups, Vec::new()), Changes::of(manifests, removed));
    (said["groups"], said["manifests"]) = (groups.noted(), manifests.noted());
    note.say(said);
    Ok(Json(ApplyAnswer { dry_run, groups, manifests }))
}

fn read<T: DeserializeOwned>(json: &RawValue, code: &str, at: &str) -> Result<T, Problem> {
    parse(json.get()).map_err(|(why, pointer)| unprocessable(code, why).at(format!("{at}{pointer}")))
}

/// A rule of the store that names a manifest first is about that one; others are about the whole.
fn placed(error: StoreError, keys: &[String]) -> Problem {
    let first = match &error {
        StoreError::Refused { why, .. } => why.split([' ', ':']).next().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    // The last: of two with one key, the second one is too many.
    let of = keys.iter().rposition(|key| *key == first).map(|n| format!("/manifest/{n}"));
    Problem::placed(error, |rule| {
        let field = RULES.iter().find(|(of, _)| *of == rule).map_or("", |(_, field)| field);
        match (of, rule) {
            (Some(manifest), _) => Some(format!("{manifest}{field}")),
            (None, "owner") => Some("/owner".to_owned()),
            (None, "batch_max") => Some("/manifest".to_owned()),
            _ => None,
        }
    })
}
