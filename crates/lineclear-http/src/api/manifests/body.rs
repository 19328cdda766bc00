//! The schema of a manifest, for the API document only; the model parses manifests.
//!
//! Not derived from the model, because that would not be simpler: nearly every field of a manifest has a type with its own text form
//! (names, durations, times, payloads, and schedules and exclusions that are checked while they are parsed), so the model would need an
//! override on each of them, and `utoipa` as a dependency. The tests below compare both, field by field and word by word.
#![expect(dead_code, reason = "only its shape is used")]

use serde::Deserialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A manifest, in the form of a manifest file. Durations are strings such as `90s`, `5m` or `1h30m`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ManifestBody {
    /// The key, unique in the database.
    #[schema(required = false, pattern = "^[a-z0-9][a-z0-9._-]{0,127}$")]
    key: String,
    /// The owner.
    owner: Option<String>,
    /// The kind: the registered name of the code that runs.
    #[schema(pattern = "^[a-z0-9][a-z0-9._-]{0,127}$")]
    kind: String,
    /// The route of its jobs; the default is `main`.
    #[schema(required = false, pattern = "^[a-z0-9][a-z0-9._-]{0,127}$")]
    route: String,
    /// The group, which must exist.
    group: Option<String>,
    /// The input of its jobs: any JSON.
    #[schema(required = false)]
    input: serde_json::Value,
    schedule: ScheduleBody,
    #[schema(required = false)]
    misfire: MisfireBody,
    /// What to do with a tick while the last job is not over. The default is `skip`, and `queue_one` with `after`. Responses have the effective
    /// rule: omit it when you write a manifest with another schedule.
    overlap: Option<OverlapWord>,
    /// Up to 400 exclusions: times when it does not fire.
    #[schema(required = false)]
    exclude: Vec<ExclusionBody>,
    /// What to do with excluded ticks; the default is `skip`.
    #[schema(required = false)]
    excluded: ExcludedWord,
    /// The longest random delay of a tick.
    #[schema(required = false)]
    jitter: String,
    /// Attempts after the first one; the default is that of the kind.
    retries: Option<u32>,
    retry: Option<RetryDelays>,
    /// The longest time that one attempt may run; the default is that of the kind.
    timeout: Option<String>,
    /// What a dead letter means for the manifest; the default is `hold`.
    #[schema(required = false)]
    on_dead: OnDeadWord,
    /// 0 to 31; higher goes first. The group's priority is added.
    #[schema(required = false, maximum = 31)]
    priority: u8,
    /// Whether it fires; the default is true.
    #[schema(required = false)]
    enabled: bool,
    /// Tags of its jobs, for searches: up to 16 names. A job keeps the tags that it was accepted with.
    #[schema(required = false, max_items = 16)]
    tags: Vec<String>,
    /// Fields of inputs and outputs that are masked: JSON pointers, with `*` for any one segment.
    #[schema(required = false)]
    secret: Vec<String>,
}

/// The schedule: one of `cron`, `every`, `once`, `on_demand` and `after`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleBody {
    /// A cron expression of 5 fields, or 6 with seconds first.
    cron: Option<String>,
    /// An interval, anchored at the Unix epoch plus `phase`.
    every: Option<String>,
    /// One time; RFC 3339.
    once: Option<String>,
    /// Only when triggered.
    on_demand: Option<bool>,
    /// After these manifests.
    after: Option<Vec<String>>,
    /// With `after`: all of them, or any; the default is `all`.
    need: Option<NeedWord>,
    /// With `after`: only when a running parent activates it.
    #[schema(required = false)]
    dormant: bool,
    /// The IANA time zone; the default is UTC.
    tz: Option<String>,
    /// With `cron`: what to do with a local time that does not exist.
    gap: Option<GapWord>,
    /// With `cron`: what to do with a local time that occurs twice.
    fold: Option<FoldWord>,
    /// No tick before this time; RFC 3339.
    start: Option<String>,
    /// No tick after this time; RFC 3339.
    end: Option<String>,
    /// With `every`: the offset of the interval.
    phase: Option<String>,
}

/// What to do with missed ticks.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MisfireBody {
    /// The default is `once`.
    #[schema(required = false)]
    policy: MisfireWord,
    /// A tick that is older than this is missed; a younger one fires late. The default is a minute.
    #[schema(required = false)]
    threshold: String,
    /// With `catch_up`: how many ticks fire.
    max: Option<u32>,
}

/// The waiting times before retries; the default is that of the kind.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryDelays {
    /// The waiting time before the first retry.
    #[schema(required = false)]
    delay: String,
    /// The factor from one waiting time to the next.
    #[schema(required = false)]
    factor: f64,
    /// The longest waiting time.
    #[schema(required = false)]
    max: String,
}

/// A time at which it does not fire: `weekdays`, `dates`, `from` and `to`, or `daily`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExclusionBody {
    weekdays: Option<Vec<DayWord>>,
    /// Dates such as `2026-12-25`.
    dates: Option<Vec<String>>,
    /// The first date.
    from: Option<String>,
    /// The last date.
    to: Option<String>,
    /// Times of day such as `22:00-06:00`.
    daily: Option<String>,
}

macro_rules! words {
    ($($name:ident: $($word:ident)+;)+) => { $(
        #[derive(Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum $name { $($word,)+ }
    )+ };
}

words! {
    OverlapWord: Skip QueueOne Allow Cancel;
    ExcludedWord: Skip Defer;
    OnDeadWord: Hold GoOn;
    NeedWord: All Any;
    GapWord: Skip NextValid Shift;
    FoldWord: First Second Both;
    MisfireWord: Once Skip CatchUp;
    DayWord: Mon Tue Wed Thu Fri Sat Sun;
}

/// A manifest with a required key, where no path has it.
pub(crate) struct KeyedManifest;

impl PartialSchema for KeyedManifest {
    fn schema() -> RefOr<Schema> {
        let mut schema = ManifestBody::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            object.required.insert(0, "key".to_owned());
            object.description = Some("A manifest with its key, in the form of a manifest file.".to_owned());
        }
        schema
    }
}

impl ToSchema for KeyedManifest {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        ManifestBody::schemas(schemas);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lineclear_model::schedule::{Fold, Gap, Need};
    use lineclear_model::{Excluded, Manifest, OnDead, Overlap};
    use serde_json::{Value, json};

    /// Fields that a reader knows: it names them all when it meets one that it does not.
    fn known(value: Value) -> BTreeSet<String> {
        let error = serde_json::from_value::<Manifest>(value).unwrap_err().to_string();
        let named = error.split("expected ").nth(1).unwrap_or_else(|| panic!("{error}"));
        named.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
    }

    fn schema(name: &str) -> Value {
        let document: Value = serde_json::from_str(&crate::openapi()).unwrap();
        document["components"]["schemas"][name].clone()
    }

    fn fields(name: &str) -> BTreeSet<String> {
        schema(name)["properties"].as_object().unwrap_or_else(|| panic!("{name}")).keys().cloned().collect()
    }

    #[test]
    fn the_document_lists_all_fields_of_a_manifest() {
        let with = |field: &str, value: Value| {
            let mut manifest = json!({"key": "a", "kind": "b", "schedule": {"on_demand": true}});
            manifest[field] = value;
            known(manifest)
        };
        let unknown = json!({"?": 1});
        for name in ["ManifestBody", "KeyedManifest"] {
            assert_eq!(fields(name), with("?", json!(1)), "{name}");
        }
        assert_eq!(fields("ScheduleBody"), with("schedule", unknown.clone()));
        assert_eq!(fields("MisfireBody"), with("misfire", unknown.clone()));
        assert_eq!(fields("RetryDelays"), with("retry", unknown.clone()));
        assert_eq!(fields("ExclusionBody"), with("exclude", json!([unknown])));
        assert_eq!(schema("KeyedManifest")["required"], json!(["key", "kind", "schedule"]));
        assert_eq!(schema("ManifestBody")["required"], json!(["kind", "schedule"]));
    }

    #[test]
    fn the_document_lists_all_values_of_enums() {
        let words = |name: &str| schema(name)["enum"].clone();
        let all = |words: Vec<&str>| json!(words);
        assert_eq!(words("OverlapWord"), all(Overlap::ALL.iter().map(|word| word.as_str()).collect()));
        assert_eq!(words("ExcludedWord"), all(Excluded::ALL.iter().map(|word| word.as_str()).collect()));
        assert_eq!(words("OnDeadWord"), all(OnDead::ALL.iter().map(|word| word.as_str()).collect()));
        assert_eq!(words("NeedWord"), all(Need::ALL.iter().map(|word| word.as_str()).collect()));
        assert_eq!(words("GapWord"), all(Gap::ALL.iter().map(|word| word.as_str()).collect()));
        assert_eq!(words("FoldWord"), all(Fold::ALL.iter().map(|word| word.as_str()).collect()));
        let misfire = lineclear_model::MisfirePolicy::ALL.iter().map(|word| word.as_str()).collect();
        assert_eq!(words("MisfireWord"), all(misfire));
        let days = lineclear_model::exclude::Weekday::ALL.iter().map(|word| word.as_str()).collect();
        assert_eq!(words("DayWord"), all(days));
    }
}
