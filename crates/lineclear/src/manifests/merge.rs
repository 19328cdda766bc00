//! What code declares and what operators edited, put together field by field.

use crate::manifests::declared_fields::Said;

/// A field that the declaration changed takes the declared value; any other keeps what is there now, so that an
/// operator's edit outlives a restart, and a release that changes the code's mind is obeyed.
pub(crate) fn merge(declared_before: &Said, declared_now: &Said, current: &Said) -> Said {
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

    fn said(json: serde_json::Value) -> Said {
        Said::by(&json)
    }

    #[test]
    fn an_edit_outlives_a_restart_and_a_new_declaration_wins() {
        let before = said(serde_json::json!({"retries": 3, "priority": 1, "group": "etl"}));
        let edited = said(serde_json::json!({"retries": 9, "priority": 1, "group": "etl"}));
        assert_eq!(merge(&before, &before, &edited), edited, "nothing new was declared");

        let now = said(serde_json::json!({"retries": 3, "priority": 2}));
        let merged = said(serde_json::json!({"retries": 9, "priority": 2}));
        assert_eq!(merge(&before, &now, &edited), merged);
    }
}
