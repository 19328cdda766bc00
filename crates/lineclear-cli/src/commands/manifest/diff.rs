//! `lineclear manifest diff`: what `apply` would change, field by field.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use lineclear_model::secret::Secrets;
use lineclear_model::{GroupSpec, Manifest};
use serde_json::{Value, json};

use super::files::Files;
use crate::api_client::{ApiClient, ApiTarget, Json, path_segment};
use crate::api_command::with_api;
use crate::display::OutputStyle;
use crate::failure::Failure;
use crate::output::{print, print_json, sanitize};

const EXAMPLES: &str = "Examples:
  lineclear manifest diff -f jobs.toml
  lineclear manifest diff -f manifests/ --owner billing --prune
  lineclear manifest diff -f jobs.toml --db lineclear.db --json

Changes nothing, but requires the scope of `apply`. Exits with 0 if nothing differs, 1 if something \
does. Fields that an operator edited since the last `apply`, and that did not change in the files, \
are not shown: `apply` keeps them. Secrets are shown as dots.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Diff {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    target: ApiTarget,
}

/// A manifest or group that differs, with its fields.
struct Difference {
    what: &'static str,
    name: String,
    fields: Vec<Field>,
}

/// A field that differs, such as `schedule.cron`.
struct Field {
    name: String,
    from: Option<Json>,
    to: Option<Json>,
}

impl Diff {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let wanted = self.files.declaration(true)?;
        with_api(&self.target, async |api| {
            let mut plan = api.post("manifests:apply", wanted.clone()).await?;
            let differences = differences(api, &plan, &wanted).await?;
            let same = differences.is_empty()
                && names(&plan, "created").chain(names(&plan, "removed")).next().is_none();
            if self.target.json {
                for (what, list) in [("group", "groups"), ("manifest", "manifests")] {
                    plan = with_values(&plan, list, differences.iter().filter(|one| one.what == what));
                }
                print_json(&plan)?;
            } else {
                print(&render(&plan, &differences, if OutputStyle::detect().unicode { "→" } else { "->" }))?;
            }
            Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
    }
}

/// The differences of existing manifests and groups: the plan names the fields, and their current values are fetched.
async fn differences(api: &ApiClient, plan: &Json, wanted: &Value) -> Result<Vec<Difference>, Failure> {
    let mut found = Vec::new();
    for (what, list) in [("group", "groups"), ("manifest", "manifests")] {
        for changed in
            plan.pointer(&format!("/{list}/changed")).and_then(Value::as_array).into_iter().flatten()
        {
            let name = changed.get("name").and_then(Value::as_str).unwrap_or_default();
            let now = api.get(&format!("{list}/{}", path_segment(name))).await?;
            let (now, then) = match what {
                "group" => (now, group(wanted, name)),
                _ => {
                    let now = now.field("manifest").unwrap_or_default();
                    let then = manifest(wanted, name, &now);
                    (now, then)
                }
            };
            let then = Json::from(then);
            let mut fields = Vec::new();
            for field in changed.get("fields").and_then(Value::as_array).into_iter().flatten() {
                let field = field.as_str().unwrap_or_default();
                compare(field, now.field(field), then.field(field), &mut fields);
            }
            found.push(Difference { what, name: name.to_owned(), fields });
        }
    }
    Ok(found)
}

/// A group of the files, with the defaults filled in.
fn group(wanted: &Value, name: &str) -> Value {
    let said = wanted.get("group").and_then(|groups| groups.get(name)).cloned().unwrap_or_default();
    serde_json::from_value::<GroupSpec>(said).map_or(Value::Null, |group| json!(group))
}

/// A manifest of the files, with the secrets of either side masked.
fn manifest(wanted: &Value, key: &str, now: &Value) -> Value {
    let all = wanted.get("manifest").and_then(Value::as_array).into_iter().flatten();
    let said = all.clone().find(|one| one.get("key").and_then(Value::as_str) == Some(key)).cloned();
    let Ok(manifest) = serde_json::from_value::<Manifest>(said.unwrap_or_default()) else {
        return Value::Null;
    };
    let now_secret = now.get("secret").and_then(Value::as_array).into_iter().flatten();
    let now_secret = now_secret.filter_map(Value::as_str).map(str::to_owned);
    let secrets: Vec<String> = manifest.secret.iter().cloned().chain(now_secret).collect();
    let shown = Secrets::marked(&secrets).mask(manifest.input.as_str());
    let mut then = json!(manifest);
    if let Some(object) = then.as_object_mut() {
        let input = shown.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        object.insert("input".to_owned(), input);
        if manifest.owner.is_none() && !wanted["owner"].is_null() {
            object.insert("owner".to_owned(), wanted["owner"].clone());
        }
    }
    then
}

/// Descends to the fields that differ. Values that look the same differ in masked parts.
fn compare(name: &str, from: Option<Json>, to: Option<Json>, fields: &mut Vec<Field>) {
    if let (Some(before), Some(after)) = (&from, &to)
        && let (Value::Object(was), Value::Object(is)) = (&**before, &**after)
        && was != is
    {
        let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
        for inner in names.into_iter().filter(|inner| was.get(*inner) != is.get(*inner)) {
            compare(&format!("{name}.{inner}"), before.field(inner), after.field(inner), fields);
        }
        return;
    }
    fields.push(Field { name: name.to_owned(), from, to });
}

fn names<'a>(plan: &'a Value, what: &'a str) -> impl Iterator<Item = (&'static str, &'a str)> {
    [("group", "groups"), ("manifest", "manifests")].into_iter().flat_map(move |(word, list)| {
        let all = plan.pointer(&format!("/{list}/{what}")).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(move |name| (word, name))
    })
}

fn render(plan: &Value, differences: &[Difference], arrow: &str) -> String {
    let mut text = String::new();
    for (sign, list) in [("+", "created"), ("-", "removed")] {
        for (word, name) in names(plan, list) {
            text.push_str(&format!("{sign} {word} {}\n", sanitize(name)));
        }
    }
    for Difference { what, name, fields } in differences {
        text.push_str(&format!("~ {what} {}\n", sanitize(name)));
        for Field { name, from, to } in fields {
            let hidden =
                if from.as_deref() == to.as_deref() { " (a secret, or another notation)" } else { "" };
            text.push_str(&format!(
                "    {}: {} {arrow} {}{hidden}\n",
                sanitize(name),
                shown(from),
                shown(to)
            ));
        }
    }
    let same = names(plan, "unchanged").count();
    match text.is_empty() {
        true => format!("no changes ({same} unchanged)\n"),
        false => text + &format!("{same} unchanged\n"),
    }
}

fn shown(value: &Option<Json>) -> String {
    let given = value.as_ref().filter(|value| !value.is_null());
    given.map_or("unset".to_owned(), |value| sanitize(value.text()))
}

/// Adds the values to the plan of the API.
fn with_values<'a>(plan: &Json, list: &str, differences: impl Iterator<Item = &'a Difference>) -> Json {
    let Some(changes) = plan.field(list) else { return plan.clone() };
    let differences: Vec<&Difference> = differences.collect();
    let changed: Vec<Json> = changes
        .entries("changed")
        .into_iter()
        .map(|one| {
            let name = one.get("name").and_then(Value::as_str).unwrap_or_default();
            match differences.iter().find(|difference| difference.name == name) {
                Some(difference) => one.with("values", &difference.values()),
                None => one,
            }
        })
        .collect();
    plan.with(list, &changes.with("changed", &Json::list(changed.iter())))
}

impl Difference {
    fn values(&self) -> Json {
        let object = || Json::from(json!({}));
        self.fields.iter().fold(object(), |values, Field { name, from, to }| {
            let both = object().with("from", &from.clone().unwrap_or_default());
            values.with(name, &both.with("to", &to.clone().unwrap_or_default()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_compared_down_to_the_fields_that_differ() {
        let (from, to) =
            (json!({"cron": "a", "tz": "UTC"}), json!({"cron": "b", "tz": "UTC", "gap": "skip"}));
        let mut fields = Vec::new();
        compare("schedule", Some(from.into()), Some(to.into()), &mut fields);
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["schedule.cron", "schedule.gap"]);
        fields.clear();
        let dots = || Some(Json::from(json!({"password": "•••"})));
        compare("input", dots(), dots(), &mut fields);
        assert_eq!(fields.len(), 1, "it differs in a masked part");
        fields.clear();
        compare("retries", None, Some(json!(3).into()), &mut fields);
        assert!(fields[0].from.is_none());
    }
}
