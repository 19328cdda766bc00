//! Settings that operators change while nodes run.
//!
//! The table is sparse: a setting without a row has the value that each node was started with. Nodes follow a change with their
//! next heartbeat.

use std::collections::BTreeMap;
use std::time::Duration;

use lineclear_model::Micros;

use crate::db::statements::Statement;
use crate::db::{Column, Params, Query, Row, Session, Verb, values};
use crate::journey::clean::Retention;
use crate::manifests::expected_version::ExpectedVersion;
use crate::store::{Store, StoreError, StoreResult};
use crate::validate;

/// The options of a node that operators can change while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Jobs it runs at once.
    pub slots: u32,
    /// Jobs of a route that a dispatcher without workers dispatches before they are claimed.
    pub dispatch_ahead: u32,
    /// Manifests that one planning cycle takes.
    pub plan_batch: u32,
    /// The poll interval when no notification arrives.
    pub poll: Duration,
    /// What cleaning keeps.
    pub retention: Retention,
}

/// A setting that operators can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// Jobs that each node runs at once.
    Slots,
    /// Jobs of a route that are dispatched before they are claimed.
    DispatchAhead,
    /// Manifests that one planning cycle takes.
    PlanBatch,
    /// The poll interval when no notification arrives.
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
    /// How long statistics are kept.
    RetentionStats,
}

/// The bounds of retentions: a minute and ten years.
const RETENTION_BOUNDS: [u64; 2] = [60_000, 3_650 * 86_400_000];

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
            _ => RETENTION_BOUNDS,
        }
    }

    /// Its value in `tunable`: a number, or milliseconds.
    pub fn of(self, tunable: &Tunable) -> u64 {
        let mut tunable = *tunable;
        match self.field(&mut tunable) {
            Field::Number(number) => u64::from(*number),
            Field::Time(time) => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn set(self, tunable: &mut Tunable, value: u64) {
        match self.field(tunable) {
            Field::Number(number) => *number = u32::try_from(value).unwrap_or(u32::MAX),
            Field::Time(time) => *time = Duration::from_millis(value),
        }
    }

    fn field(self, tunable: &mut Tunable) -> Field<'_> {
        let retention = &mut tunable.retention;
        match self {
            Setting::Slots => Field::Number(&mut tunable.slots),
            Setting::DispatchAhead => Field::Number(&mut tunable.dispatch_ahead),
            Setting::PlanBatch => Field::Number(&mut tunable.plan_batch),
            Setting::Poll => Field::Time(&mut tunable.poll),
            Setting::RetentionCompleted => Field::Time(&mut retention.completed),
            Setting::RetentionFailed => Field::Time(&mut retention.failed),
            Setting::RetentionDeadLetters => Field::Time(&mut retention.dead_letters),
            Setting::RetentionTicks => Field::Time(&mut retention.ticks),
            Setting::RetentionLockEvents => Field::Time(&mut retention.lock_events),
            Setting::RetentionStats => Field::Time(&mut retention.stats),
        }
    }
}

enum Field<'a> {
    Number(&'a mut u32),
    Time(&'a mut Duration),
}

/// The changed value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// A number, or milliseconds.
    pub value: u64,
    /// When it was changed.
    pub updated_at: Micros,
    /// Who changed it.
    pub updated_by: String,
}

/// The settings that operators changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Grows with every change.
    pub version: i64,
    /// The changed settings.
    pub overrides: BTreeMap<Setting, Override>,
}

impl Settings {
    /// The options in force on a node that was started with `tunable`.
    pub fn over(&self, mut tunable: Tunable) -> Tunable {
        for (setting, changed) in &self.overrides {
            setting.set(&mut tunable, changed.value);
        }
        tunable
    }
}

/// Reads the changed settings. Skips names that this version does not know: another version wrote them.
fn read_settings() -> Query<Settings> {
    Query::new(Statement::SettingList, values![], |rows| {
        let mut settings = Settings::default();
        for row in &rows {
            settings.version = settings.version.max(row.get("version")?);
            settings.overrides.extend(override_of(row)?);
        }
        Ok(settings)
    })
}

fn override_of(row: &Row) -> StoreResult<Option<(Setting, Override)>> {
    let setting = Setting::from_word(&row.get::<String>("key")?);
    let value = row.get::<Option<String>>("value")?.and_then(|text| text.parse().ok());
    let (Some(setting), Some(value)) = (setting, value) else { return Ok(None) };
    let (updated_at, updated_by) = (row.get("updated_at")?, row.get("updated_by")?);
    Ok(Some((setting, Override { value, updated_at, updated_by })))
}

/// Changes settings, all or none.
struct ChangeSettings {
    changes: BTreeMap<Setting, Option<u64>>,
    by: String,
    /// The version that the caller expects.
    expected: Option<ExpectedVersion>,
    advisory_key: i64,
}

impl Verb for ChangeSettings {
    type Answer = Settings;

    async fn run(&self, session: &mut Session) -> StoreResult<Settings> {
        session.rows(Statement::DeclareLock, values![self.advisory_key]).await?;
        let before = read_settings().run(session).await?;
        if let Some(expected) = &self.expected {
            expected.check(Some(before.version))?;
        }
        if self.changes.is_empty() {
            return Ok(before);
        }
        let version = before.version + 1;
        let text = |value: &Option<u64>| value.map(|value| value.to_string());
        let keys = self.changes.keys().map(|setting| Some(setting.as_str().to_owned())).collect();
        let texts = self.changes.values().map(text).collect();
        let params = Params {
            values: values![version, &self.by],
            batch: vec![Column::Texts(keys), Column::Texts(texts)],
        };
        session.rows(Statement::SettingWrite, params).await?;
        read_settings().run(session).await
    }
}

impl Store {
    /// The settings that operators changed.
    pub async fn settings(&self) -> StoreResult<Settings> {
        self.db.read(read_settings()).await
    }

    /// Changes settings for all nodes, all or none; `None` resets one. If their version is not an expected one, the change is
    /// refused (`changed_since`).
    pub async fn change_settings(
        &self,
        changes: BTreeMap<Setting, Option<u64>>,
        expected: Option<ExpectedVersion>,
        by: &str,
    ) -> StoreResult<Settings> {
        validate::check_text(by)?;
        for (setting, value) in &changes {
            let [least, most] = setting.bounds();
            if value.is_some_and(|value| value < least || value > most) {
                let why = format!("`{}` must be between {least} and {most}", setting.as_str());
                return Err(StoreError::refused("setting", why));
            }
        }
        let advisory_key = self.options.advisory_key("settings");
        self.run(ChangeSettings { changes, by: by.to_owned(), expected, advisory_key }).await
    }
}
