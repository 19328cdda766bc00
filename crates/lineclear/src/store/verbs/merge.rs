//! What code declares and what operators edited, put together field by field.

use serde_json::{Map, Value};

/// A field that the declaration changed takes the declared value; any other keeps what is there now, so that an
/// operator's edit outlives a restart, and a release that changes the code's mind is obeyed.
pub(crate) fn merge(
    declared_before: &Map<String, Value>,
    declared_now: &Map<String, Value>,
    current: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = current.clone();
    let fields = declared_before.keys().chain(declared_now.keys());
    for field in fields {
        if declared_before.get(field) == declared_now.get(field) {
            continue;
        }
        match declared_now.get(field) {
            Some(value) => merged.insert(field.clone(), value.clone()),
            None => merged.remove(field),
        };
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(json: Value) -> Map<String, Value> {
        json.as_object().expect("an object").clone()
    }

    #[test]
    fn an_edit_outlives_a_restart_and_a_new_declaration_wins() {
        let before = map(serde_json::json!({"retries": 3, "priority": 1, "group": "etl"}));
        let edited = map(serde_json::json!({"retries": 9, "priority": 1, "group": "etl"}));
        assert_eq!(merge(&before, &before, &edited), edited, "nothing new was declared");

        let now = map(serde_json::json!({"retries": 3, "priority": 2}));
        let merged = map(serde_json::json!({"retries": 9, "priority": 2}));
        assert_eq!(merge(&before, &now, &edited), merged);
    }
}
