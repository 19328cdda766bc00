//! Beside the journey: what operators change while nodes run.

use std::collections::BTreeMap;

use crate::store::verbs::setting;
use crate::store::{Seen, Setting, Settings, Store, StoreError, StoreResult, door};

impl Store {
    /// What operators changed over what nodes were started with.
    pub async fn settings(&self) -> StoreResult<Settings> {
        self.db.read(setting::ReadSettings).await
    }

    /// Changes settings for all nodes, all or none; `None` takes a change back. If something was seen of them, only if it is
    /// still so; otherwise it is refused (`changed_since`).
    pub async fn change_settings(
        &self,
        changes: BTreeMap<Setting, Option<u64>>,
        seen: Option<Seen>,
        by: &str,
    ) -> StoreResult<Settings> {
        door::check_text(by)?;
        for (setting, value) in &changes {
            let [least, most] = setting.bounds();
            if value.is_some_and(|value| value < least || value > most) {
                let why = format!("{} lies between {least} and {most}", setting.as_str());
                return Err(StoreError::refused("setting", why));
            }
        }
        let advisory_key = self.options.advisory_key("settings");
        self.run(setting::ChangeSettings { changes, by: by.to_owned(), seen, advisory_key }).await
    }
}
