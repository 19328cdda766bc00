//! Three-way merge of a declaration with the edits of operators, field by field.

use crate::manifests::declared_fields::DeclaredFields;

/// A field that the declaration changed takes the declared value; any other field keeps its current value. An operator's edit
/// survives a restart, and a release that declares another value wins.
pub(crate) fn merge(
    declared_before: &DeclaredFields,
    declared_now: &DeclaredFields,
    current: &DeclaredFields,
) -> DeclaredFields {
    let mut merged = current.clone();
    for field in declared_before.0.keys().chain(declared_now.0.keys()) {
        match (declared_before.0.get(field), declared_now.0.get(field)) {
            (Some(before), Some(now)) if before.means(now) => {}
            (_, Some(value)) => drop(merged.0.insert(field.clone(), value.clone())),
            (_, None) => drop(merged.0.remove(field)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: serde_json::Value) -> DeclaredFields {
        DeclaredFields::of(&json)
    }

    #[test]
    fn an_edit_survives_a_restart_and_a_new_declaration_wins() {
        let before = fields(serde_json::json!({"retries": 3, "priority": 1, "group": "etl"}));
        let edited = fields(serde_json::json!({"retries": 9, "priority": 1, "group": "etl"}));
        assert_eq!(merge(&before, &before, &edited), edited, "nothing new was declared");

        let now = fields(serde_json::json!({"retries": 3, "priority": 2}));
        let merged = fields(serde_json::json!({"retries": 9, "priority": 2}));
        assert_eq!(merge(&before, &now, &edited), merged);
    }
}
