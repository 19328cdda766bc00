//! Applies a file of manifests and groups, all or none.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use lineclear::store::{Change, Declaration, Item, Plan, Prune, check_group};
use lineclear_model::{GroupSpec, Manifest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::body::KeyedManifest;
use super::field_pointer;
use crate::App;
use crate::api::groups::GroupBody;
use crate::api::json_body::{JsonBody, escape_pointer, parse};
use crate::api::json_types::unprocessable;
use crate::audit::{AuditDetails, summarize};
use crate::problem::Problem;

/// Manifests and groups, in the form of a manifest file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApplyBody {
    /// Groups by name; `*` is the global group.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, GroupBody>)]
    pub(crate) group: BTreeMap<String, Box<RawValue>>,
    /// Manifests, each with its key.
    #[serde(default)]
    #[schema(value_type = Vec<KeyedManifest>)]
    pub(crate) manifest: Vec<Box<RawValue>>,
    /// The owner of the file. Manifests without an owner get this one.
    pub(crate) owner: Option<String>,
    /// Remove manifests of this owner that the file does not have.
    #[serde(default)]
    pub(crate) prune: bool,
    /// Only return what would change.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// The changes, or what would change.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApplyResponse {
    dry_run: bool,
    groups: Changes,
    manifests: Changes,
}

/// Changes by name.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Changes {
    created: Vec<String>,
    changed: Vec<Changed>,
    unchanged: Vec<String>,
    removed: Vec<String>,
}

/// A changed manifest or group.
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

    fn details(&self) -> Value {
        let changed = self.changed.iter().map(|one| format!("{}: {}", one.name, one.fields.join(", ")));
        json!({
            "created": summarize(&self.created), "changed": summarize(changed), "removed": summarize(&self.removed),
            "unchanged": self.unchanged.len(),
        })
    }
}

/// Applies manifests and groups, all or none. Edits that operators made since the last apply remain, as with a manifest file.
#[utoipa::path(
    post, path = "/manifests:apply", operation_id = "apply_manifests", tag = "manifests", request_body = ApplyBody,
    security(("token" = ["admin"])),
    responses((status = 200, body = ApplyResponse), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn apply(
    state: State<App>,
    audit: AuditDetails,
    body: JsonBody<ApplyBody>,
) -> Result<Json<ApplyResponse>, Problem> {
    let ApplyBody { group, manifest, owner, prune, dry_run } = body.0;
    let mut groups = BTreeMap::new();
    for (name, spec) in group {
        let at = format!("/group/{}", escape_pointer(&name));
        let spec: GroupSpec = read(&spec, "group", &at)?;
        check_group(&name, &spec).map_err(|error| {
            Problem::by_rule(error, |rule| {
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
            unprocessable("manifest", bad.message.clone()).at(format!("{at}{}", field_pointer(bad.field)))
        })?;
        state
            .client
            .check_input(&manifest.kind, &manifest.input)
            .map_err(|error| Problem::from(error).at(format!("{at}/input")))?;
        manifests.push(manifest);
    }
    let keys: Vec<String> = manifests.iter().map(|manifest| manifest.key.to_string()).collect();
    let mut details = json!({"dry_run": dry_run, "owner": owner, "prune": prune});
    audit.set(details.clone());
    let prune = if prune { Prune::All } else { Prune::Nothing };
    let declaration = Declaration { groups, manifests, owner, prune, release: None };
    let plan = state.client.store().apply(declaration, dry_run).await;
    let plan = plan.map_err(|error| locate(Problem::from(error), &keys))?;
    let Plan { groups, manifests, removed } = plan;
    let (groups, manifests) = (Changes::of(groups, Vec::new()), Changes::of(manifests, removed));
    (details["groups"], details["manifests"]) = (groups.details(), manifests.details());
    audit.set(details);
    Ok(Json(ApplyResponse { dry_run, groups, manifests }))
}

fn read<T: DeserializeOwned>(json: &RawValue, code: &str, at: &str) -> Result<T, Problem> {
    parse(json.get()).map_err(|(why, pointer)| unprocessable(code, why).at(format!("{at}{pointer}")))
}

/// The pointer to the manifest and field that the store refused.
fn locate(problem: Problem, keys: &[String]) -> Problem {
    let problem = problem.locate(|location| {
        let Item::Manifest(key) = &location.item else { return None };
        // The last one: of two manifests with one key, the second is wrong.
        let n = keys.iter().rposition(|known| known == key.as_str())?;
        Some(format!("/manifest/{n}{}", field_pointer(location.field)))
    });
    problem.when("owner", "/owner").when("batch_max", "/manifest")
}
