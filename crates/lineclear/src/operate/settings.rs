//! settings: what operators change while nodes run.
//!
//! Sparse: a setting that nobody changed is what each node was started with. Nodes hear of a change with their next heartbeat.

use std::collections::BTreeMap;
use std::time::Duration;

use lineclear_model::Micros;

use crate::db::statements::Statement;
use crate::db::{Column, Params, Session, Value, Verb};
use crate::journey::clean::Retention;
use crate::manifests::expected_version::ExpectedVersion;
use crate::store::{Store, StoreError, StoreResult};
use crate::validate;

/// What a node does within, and operators may change while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Jobs it runs at once.
    pub slots: u32,
    /// Jobs of a route that a dispatcher without workers hands over before they are claimed.
    pub dispatch_ahead: u32,
    /// Manifests that one planning cycle takes.
    pub plan_batch: u32,
    /// How often it looks for work when nobody nudges it.
    pub poll: Duration,
    /// What cleaning keeps.
    pub retention: Retention,
}

/// Something that operators may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// Jobs that each node runs at once.
    Slots,
    /// Jobs of a route that are handed over before they are claimed.
    DispatchAhead,
    /// Manifests that one planning cycle takes.
    PlanBatch,
    /// How often nodes look for work when nobody nudges them.
    Poll,
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

/// A minute, and ten years.
const KEPT: [u64; 2] = [60_000, 3_650 * 86_400_000];

impl Setting {
    /// All of them.
    pub const ALL: &[Setting] = &[
        Setting::Slots,
        Setting::DispatchAhead,
        Setting::PlanBatch,
        Setting::Poll,
        Setting::RetentionCompleted,
        Setting::RetentionFailed,
        Setting::RetentionDeadLetters,
        Setting::RetentionTicks,
        Setting::RetentionLockEvents,
        Setting::RetentionStats,
    ];

    /// Its name. Times are in milliseconds, and their names say so.
    pub const fn as_str(self) -> &'static str {
        match self {
            Setting::Slots => "limits.slots",
            Setting::DispatchAhead => "limits.dispatch_ahead",
            Setting::PlanBatch => "limits.plan_batch",
            Setting::Poll => "limits.poll_ms",
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

    /// The least and the most that it can be set to.
    pub const fn bounds(self) -> [u64; 2] {
        match self {
            Setting::Slots | Setting::DispatchAhead | Setting::PlanBatch => [1, 10_000],
            Setting::Poll => [10, 60_000],
            _ => KEPT,
        }
    }

    /// What it is in `tunable`: a number, or milliseconds.
    pub fn of(self, tunable: &Tunable) -> u64 {
        let mut tunable = *tunable;
        match self.place(&mut tunable) {
            Place::Number(number) => u64::from(*number),
            Place::Time(time) => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn put(self, tunable: &mut Tunable, value: u64) {
        match self.place(tunable) {
            Place::Number(number) => *number = u32::try_from(value).unwrap_or(u32::MAX),
            Place::Time(time) => *time = Duration::from_millis(value),
        }
    }

    fn place(self, tunable: &mut Tunable) -> Place<'_> {
        let retention = &mut tunable.retention;
        match self {
            Setting::Slots => Place::Number(&mut tunable.slots),
            Setting::DispatchAhead => Place::Number(&mut tunable.dispatch_ahead),
            Setting::PlanBatch => Place::Number(&mut tunable.plan_batch),
            Setting::Poll => Place::Time(&mut tunable.poll),
            Setting::RetentionCompleted => Place::Time(&mut retention.completed),
            Setting::RetentionFailed => Place::Time(&mut retention.failed),
            Setting::RetentionDeadLetters => Place::Time(&mut retention.dead_letters),
            Setting::RetentionTicks => Place::Time(&mut retention.ticks),
            Setting::RetentionLockEvents => Place::Time(&mut retention.lock_events),
            Setting::RetentionStats => Place::Time(&mut retention.stats),
        }
    }
}

enum Place<'a> {
    Number(&'a mut u32),
    Time(&'a mut Duration),
}

/// A setting that somebody changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// What it is now: a number, or milliseconds.
    pub value: u64,
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
    /// What holds for a node that was started with `tunable`.
    pub fn over(&self, mut tunable: Tunable) -> Tunable {
        for (setting, changed) in &self.overrides {
            setting.put(&mut tunable, changed.value);
        }
        tunable
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
        if let (Some(setting), Some(value)) = (setting, value) {
            let changed =
                Override { value, updated_at: row.get("updated_at")?, updated_by: row.get("updated_by")? };
            settings.overrides.insert(setting, changed);
        }
    }
    Ok(settings)
}

/// Verb: changes settings, all or none.
pub(crate) struct ChangeSettings {
    pub(crate) changes: BTreeMap<Setting, Option<u64>>,
    pub(crate) by: String,
    /// Only if this was seen of them.
    pub(crate) seen: Option<ExpectedVersion>,
    pub(crate) advisory_key: i64,
}

impl Verb for ChangeSettings {
    type Answer = Settings;

    async fn run(&self, session: &mut Session) -> StoreResult<Settings> {
        session.rows(Statement::DeclareLock, vec![Value::Int(Some(self.advisory_key))]).await?;
        let before = read(session).await?;
        if let Some(seen) = &self.seen {
            seen.check(Some(before.version))?;
        }
        if self.changes.is_empty() {
            return Ok(before);
        }
        let version = before.version + 1;
        let text = |value: &Option<u64>| value.map(|value| value.to_string());
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

impl Store {
    /// What operators changed over what nodes were started with.
    pub async fn settings(&self) -> StoreResult<Settings> {
        self.db.read(ReadSettings).await
    }

    /// Changes settings for all nodes, all or none; `None` takes a change back. If something was seen of them, only if it is
    /// still so; otherwise it is refused (`changed_since`).
    pub async fn change_settings(
        &self,
        changes: BTreeMap<Setting, Option<u64>>,
        seen: Option<ExpectedVersion>,
        by: &str,
    ) -> StoreResult<Settings> {
        validate::check_text(by)?;
        for (setting, value) in &changes {
            let [least, most] = setting.bounds();
            if value.is_some_and(|value| value < least || value > most) {
                let why = format!("{} lies between {least} and {most}", setting.as_str());
                return Err(StoreError::refused("setting", why));
            }
        }
        let advisory_key = self.options.advisory_key("settings");
        self.run(ChangeSettings { changes, by: by.to_owned(), seen, advisory_key }).await
    }
}
