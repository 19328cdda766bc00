//! settings: what operators change while nodes run.
//!
//! Sparse: a setting that nobody changed is what each node was started with. Nodes hear of a change with their next heartbeat.

use std::collections::BTreeMap;
use std::time::Duration;

use lineclear_model::Micros;

use super::clean::Retention;
use crate::store::db::{Column, Params, Session, Value, Verb};
use crate::store::sql::Statement;
use crate::store::{StoreError, StoreResult};

/// Something that operators may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// How long completed jobs are kept.
    RetentionCompleted,
    /// How long jobs that ended otherwise are kept.
    RetentionFailed,
    /// How long resolved dead letters are kept.
    RetentionDeadLetters,
    /// How long the ledger of ticks is kept.
    RetentionTicks,
    /// How long events of locks are kept.
    RetentionLockEvents,
    /// How long figures are kept.
    RetentionStats,
}

impl Setting {
    /// All of them.
    pub const ALL: &[Setting] = &[
        Setting::RetentionCompleted,
        Setting::RetentionFailed,
        Setting::RetentionDeadLetters,
        Setting::RetentionTicks,
        Setting::RetentionLockEvents,
        Setting::RetentionStats,
    ];
    /// The shortest and the longest time that can be set: a minute, and ten years.
    pub const BOUNDS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(3_650 * 86_400)];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Setting::RetentionCompleted => "retention.completed_ms",
            Setting::RetentionFailed => "retention.failed_ms",
            Setting::RetentionDeadLetters => "retention.dead_letters_ms",
            Setting::RetentionTicks => "retention.ticks_ms",
            Setting::RetentionLockEvents => "retention.lock_events_ms",
            Setting::RetentionStats => "retention.stats_ms",
        }
    }

    /// The setting of this name.
    pub fn from_word(word: &str) -> Option<Setting> {
        Setting::ALL.iter().copied().find(|setting| setting.as_str() == word)
    }

    /// What it is in `retention`.
    pub fn of(self, retention: &Retention) -> Duration {
        let mut retention = *retention;
        *self.place(&mut retention)
    }

    fn place(self, retention: &mut Retention) -> &mut Duration {
        match self {
            Setting::RetentionCompleted => &mut retention.completed,
            Setting::RetentionFailed => &mut retention.failed,
            Setting::RetentionDeadLetters => &mut retention.dead_letters,
            Setting::RetentionTicks => &mut retention.ticks,
            Setting::RetentionLockEvents => &mut retention.lock_events,
            Setting::RetentionStats => &mut retention.stats,
        }
    }
}

/// A setting that somebody changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// What it is now.
    pub value: Duration,
    /// Since when.
    pub updated_at: Micros,
    /// Who changed it.
    pub updated_by: String,
}

/// What operators changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Grows with every change.
    pub version: i64,
    /// Those that are not as nodes were started.
    pub overrides: BTreeMap<Setting, Override>,
}

impl Settings {
    /// What a node that was started with `retention` keeps.
    pub fn over(&self, mut retention: Retention) -> Retention {
        for (setting, changed) in &self.overrides {
            *setting.place(&mut retention) = changed.value;
        }
        retention
    }
}

/// Verb: what operators changed.
pub(crate) struct ReadSettings;

impl Verb for ReadSettings {
    type Answer = Settings;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Settings> {
        read(session).await
    }
}

/// A name that this version does not know is another version's, and left alone.
async fn read(session: &mut Session) -> StoreResult<Settings> {
    let mut settings = Settings::default();
    for row in session.rows(Statement::SettingList, Vec::<Value>::new()).await? {
        settings.version = settings.version.max(row.get("version")?);
        let setting = Setting::from_word(&row.get::<String>("key")?);
        let value = row.get::<Option<String>>("value")?.and_then(|text| text.parse().ok());
        if let (Some(setting), Some(ms)) = (setting, value) {
            let changed = Override {
                value: Duration::from_millis(ms),
                updated_at: row.get("updated_at")?,
                updated_by: row.get("updated_by")?,
            };
            settings.overrides.insert(setting, changed);
        }
    }
    Ok(settings)
}

/// Verb: changes settings, all or none.
pub(crate) struct ChangeSettings {
    pub(crate) changes: BTreeMap<Setting, Option<Duration>>,
    pub(crate) by: String,
    /// Only if this is the version.
    pub(crate) seen: Option<i64>,
    pub(crate) advisory_key: i64,
}

impl Verb for ChangeSettings {
    type Answer = Settings;

    async fn run(&self, session: &mut Session) -> StoreResult<Settings> {
        session.rows(Statement::DeclareLock, vec![Value::Int(Some(self.advisory_key))]).await?;
        let before = read(session).await?;
        if self.seen.is_some_and(|seen| seen != before.version) {
            let why = "they have changed since they were looked at; look again";
            return Err(StoreError::refused("changed_since", why));
        }
        if self.changes.is_empty() {
            return Ok(before);
        }
        let version = before.version + 1;
        let text = |value: &Option<Duration>| value.map(|value| value.as_millis().to_string());
        let keys = self.changes.keys().map(|setting| Some(setting.as_str().to_owned())).collect();
        let values = self.changes.values().map(text).collect();
        let params = Params {
            values: vec![Value::Int(Some(version)), Value::Text(Some(self.by.clone()))],
            batch: vec![Column::Texts(keys), Column::Texts(values)],
        };
        session.rows(Statement::SettingWrite, params).await?;
        read(session).await
    }
}
