//! Where in a file something is wrong: the line, the manifest's key, the field.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use toml::de::{DeTable, DeValue};

use super::{BadManifest, Manifest};

/// The place of a TOML error.
pub(super) fn of_toml_error(text: &str, error: &toml::de::Error) -> BadManifest {
    let message = one_line(error.message());
    let Some(at) = error.span().map(|span| span.start) else {
        return BadManifest { message, ..BadManifest::default() };
    };
    let line = Some(line_of(text, at));
    let Ok(table) = DeTable::parse(text) else {
        return BadManifest { line, message, ..BadManifest::default() };
    };
    let path = path_to(table.get_ref(), at).unwrap_or_default();
    match path.split_first() {
        Some((first, rest)) if first == "manifest" => {
            let key = rest.first().and_then(|index| key_of(table.get_ref(), index.parse().ok()?));
            let field = rest.get(1..).filter(|rest| !rest.is_empty()).map(|rest| rest.join("."));
            BadManifest { manifest: key, field, line, message }
        }
        Some(_) => BadManifest { field: Some(path.join(".")), line, message, manifest: None },
        None => BadManifest { line, message, ..BadManifest::default() },
    }
}

/// Adds the line to an error that only knows the manifest and the field.
pub(super) fn add_line(text: &str, mut bad: BadManifest) -> BadManifest {
    let Ok(table) = DeTable::parse(text) else { return bad };
    let Some(DeValue::Array(manifests)) = table.get_ref().get("manifest").map(|value| value.get_ref()) else {
        return bad;
    };
    // The last one with the key: of two equal keys it is the second that is wrong.
    let manifest = manifests.iter().rev().filter_map(|entry| entry.get_ref().as_table()).find(|entry| {
        let key = entry.get("key").and_then(|key| key.get_ref().as_str());
        key.is_some() && key == bad.manifest.as_deref()
    });
    let Some(mut table) = manifest else { return bad };
    for name in bad.field.as_deref().unwrap_or("key").split('.') {
        let Some(value) = table.get(name) else { break };
        bad.line = Some(line_of(text, value.span().start));
        match value.get_ref().as_table() {
            Some(inner) => table = inner,
            None => break,
        }
    }
    bad
}

/// The place of a JSON error. The parser gives the line; the manifest and field are found by trying.
pub(super) fn of_json_error(text: &str, error: &serde_json::Error) -> BadManifest {
    let message = without_place(error);
    let line = Some(error.line()).filter(|&line| line > 0);
    let (manifest, field) = culprit(text).unwrap_or_default();
    BadManifest { manifest, field, line, message }
}

/// The manifest and the field of a JSON file without which the error would be gone.
fn culprit(text: &str) -> Option<(Option<String>, Option<String>)> {
    #[derive(serde::Deserialize)]
    struct Entries<'a> {
        #[serde(borrow)]
        manifest: Vec<&'a RawValue>,
    }
    let refused =
        |text: &str| serde_json::from_str::<Manifest>(text).err().map(|error| without_place(&error));
    let file: Entries = serde_json::from_str(text).ok()?;
    let (entry, error) = file.manifest.iter().find_map(|entry| Some((entry, refused(entry.get())?)))?;
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(entry.get()).ok()?;
    let key = fields.get("key").and_then(|key| serde_json::from_str(key.get()).ok());
    let field = fields.keys().find(|&field| {
        let without: BTreeMap<_, _> = fields.iter().filter(|(name, _)| *name != field).collect();
        let text = serde_json::to_string(&without).unwrap_or_default();
        refused(&text).is_none_or(|other| other != error)
    });
    Some((key, field.cloned()))
}

fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// The names that lead to the innermost value at a place; entries of a list are named by their number.
fn path_to(table: &DeTable, at: usize) -> Option<Vec<String>> {
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref().to_string();
        let inside = match value.get_ref() {
            DeValue::Table(inner) => path_to(inner, at),
            DeValue::Array(entries) => entries.iter().enumerate().find_map(|(index, entry)| {
                let inner = entry
                    .get_ref()
                    .as_table()
                    .and_then(|inner| path_to(inner, at))
                    .or_else(|| entry.span().contains(&at).then(Vec::new))?;
                Some([vec![index.to_string()], inner].concat())
            }),
            _ => None,
        };
        match inside {
            Some(inside) => Some([vec![name], inside].concat()),
            None => (value.span().contains(&at) || key.span().contains(&at)).then(|| vec![name]),
        }
    })
}

fn key_of(table: &DeTable, index: usize) -> Option<String> {
    let manifest = table.get("manifest")?.get_ref().as_array()?.get(index)?.get_ref().as_table()?;
    manifest.get("key")?.get_ref().as_str().map(str::to_owned)
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

fn one_line(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}
