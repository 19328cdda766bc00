//! Beside the journey: what operators change while nodes run.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::store::verbs::setting;
use crate::store::{Setting, Settings, Store, StoreError, StoreResult, door};

impl Store {
    /// What operators changed over what nodes were started with.
    pub async fn settings(&self) -> StoreResult<Settings> {
        self.db.read(setting::ReadSettings).await
    }

    /// Changes settings for all nodes, all or none; `None` takes a change back. With a version, only if it still holds; otherwise it is
    /// refused (`changed_since`).
    pub async fn change_settings(
        &self,
        changes: BTreeMap<Setting, Option<Duration>>,
        seen: Option<i64>,
        by: &str,
    ) -> StoreResult<Settings> {
        door::check_text(by)?;
        let [least, most] = Setting::BOUNDS;
        for (setting, value) in &changes {
            if value.is_some_and(|value| value < least || value > most) {
                let why = format!("{} lies between a minute and ten years", setting.as_str());
                return Err(StoreError::refused("setting", why));
            }
        }
        let advisory_key = self.options.advisory_key("settings");
        self.run(setting::ChangeSettings { changes, by: by.to_owned(), seen, advisory_key }).await
    }
}
