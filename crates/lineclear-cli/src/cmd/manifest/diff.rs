//! `lineclear manifest diff`: what files would change, field by field.

use std::process::ExitCode;

use clap::Args;
use lineclear_model::secret::Secrets;
use lineclear_model::{GroupSpec, Manifest};
use serde_json::{Map, Value, json};

use super::files::Files;
use crate::api::{Api, At, piece};
use crate::cmd::ask::asking;
use crate::failure::Failure;
use crate::output::{plain, print, print_json};
use crate::show::Look;

const EXAMPLES: &str = "Examples:
  lineclear manifest diff -f jobs.toml
  lineclear manifest diff -f manifests/ --owner billing --prune
  lineclear manifest diff -f jobs.toml --db lineclear.db --json

Changes nothing, but a token must have the scope that apply wants. Exit code 0: all is as the files \
say; 1: something differs. What an operator has edited since the files were last applied, and the \
files have not, is no difference: apply leaves it alone. Secrets are dots on both sides.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Diff {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    at: At,
}

/// A thing that would be another: its name as people see it, and what differs in it.
struct Difference {
    what: &'static str,
    name: String,
    fields: Vec<Field>,
}

/// A field, down to the one that differs.
struct Field {
    name: String,
    from: Option<Value>,
    to: Option<Value>,
}

impl Diff {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let wanted = self.files.declaration(true)?;
        asking(&self.at, async |api| {
            let mut plan = api.post("manifests:apply", wanted.clone()).await?;
            let differences = differences(api, &plan, &wanted).await?;
            let same = differences.is_empty()
                && names(&plan, "created").chain(names(&plan, "removed")).next().is_none();
            if self.at.json {
                for difference in &differences {
                    add(&mut plan, difference);
                }
                print_json(&plan)?;
            } else {
                print(&told(&plan, &differences, if Look::here().unicode { "→" } else { "->" }))?;
            }
            Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
    }
}

/// What differs in things that are there: the plan names the fields, and what they are now is asked for.
async fn differences(api: &Api, plan: &Value, wanted: &Value) -> Result<Vec<Difference>, Failure> {
    let mut found = Vec::new();
    for (what, list) in [("group", "groups"), ("manifest", "manifests")] {
        for changed in
            plan.pointer(&format!("/{list}/changed")).and_then(Value::as_array).into_iter().flatten()
        {
            let name = changed.get("name").and_then(Value::as_str).unwrap_or_default();
            let now = api.get(&format!("{list}/{}", piece(name))).await?;
            let (now, then) = match what {
                "group" => (now, group(wanted, name)),
                _ => {
                    let now = now.get("manifest").cloned().unwrap_or_default();
                    let then = manifest(wanted, name, &now);
                    (now, then)
                }
            };
            let mut fields = Vec::new();
            for field in changed.get("fields").and_then(Value::as_array).into_iter().flatten() {
                let field = field.as_str().unwrap_or_default();
                compare(field, now.get(field), then.get(field), &mut fields);
            }
            found.push(Difference { what, name: name.to_owned(), fields });
        }
    }
    Ok(found)
}

/// A group as the files have it, with what they leave to be understood.
fn group(wanted: &Value, name: &str) -> Value {
    let said = wanted.get("group").and_then(|groups| groups.get(name)).cloned().unwrap_or_default();
    serde_json::from_value::<GroupSpec>(said).map_or(Value::Null, |group| json!(group))
}

/// A manifest as the files have it; what is secret in either is dots.
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

/// Goes down to what differs. What looks the same differs where it is not shown.
fn compare(name: &str, from: Option<&Value>, to: Option<&Value>, fields: &mut Vec<Field>) {
    if let (Some(Value::Object(before)), Some(Value::Object(after))) = (from, to)
        && from != to
    {
        let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for inner in names.into_iter().filter(|inner| before.get(*inner) != after.get(*inner)) {
            compare(&format!("{name}.{inner}"), before.get(inner), after.get(inner), fields);
        }
        return;
    }
    fields.push(Field { name: name.to_owned(), from: from.cloned(), to: to.cloned() });
}

fn names<'a>(plan: &'a Value, what: &'a str) -> impl Iterator<Item = (&'static str, &'a str)> {
    [("group", "groups"), ("manifest", "manifests")].into_iter().flat_map(move |(word, list)| {
        let all = plan.pointer(&format!("/{list}/{what}")).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(move |name| (word, name))
    })
}

fn told(plan: &Value, differences: &[Difference], arrow: &str) -> String {
    let mut text = String::new();
    for (sign, list) in [("+", "created"), ("-", "removed")] {
        for (word, name) in names(plan, list) {
            text.push_str(&format!("{sign} {word} {}\n", plain(name)));
        }
    }
    for Difference { what, name, fields } in differences {
        text.push_str(&format!("~ {what} {}\n", plain(name)));
        for Field { name, from, to } in fields {
            let hidden = if from == to { " (a secret, or the way it is written)" } else { "" };
            text.push_str(&format!("    {}: {} {arrow} {}{hidden}\n", plain(name), shown(from), shown(to)));
        }
    }
    let same = names(plan, "unchanged").count();
    match text.is_empty() {
        true => format!("all is as it should be ({same} unchanged)\n"),
        false => text + &format!("{same} unchanged\n"),
    }
}

fn shown(value: &Option<Value>) -> String {
    value
        .as_ref()
        .filter(|value| !value.is_null())
        .map_or("not said".to_owned(), |value| plain(&value.to_string()))
}

/// Adds the values to the API's own answer.
fn add(plan: &mut Value, Difference { what, name, fields }: &Difference) {
    let list = plan.pointer_mut(&format!("/{what}s/changed")).and_then(Value::as_array_mut);
    let one = list.into_iter().flatten().find(|one| one.get("name").and_then(Value::as_str) == Some(name));
    if let Some(object) = one.and_then(Value::as_object_mut) {
        let values =
            fields.iter().map(|Field { name, from, to }| (name.clone(), json!({"from": from, "to": to})));
        object.insert("values".to_owned(), values.collect::<Map<String, Value>>().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_compared_down_to_what_differs() {
        let (from, to) =
            (json!({"cron": "a", "tz": "UTC"}), json!({"cron": "b", "tz": "UTC", "gap": "skip"}));
        let mut fields = Vec::new();
        compare("schedule", Some(&from), Some(&to), &mut fields);
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["schedule.cron", "schedule.gap"]);
        fields.clear();
        compare("input", Some(&json!({"password": "•••"})), Some(&json!({"password": "•••"})), &mut fields);
        assert_eq!(fields.len(), 1, "it differs, although it looks the same");
        fields.clear();
        compare("retries", None, Some(&json!(3)), &mut fields);
        assert_eq!(fields[0].from, None);
    }
}
