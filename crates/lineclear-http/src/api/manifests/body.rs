//! The form of a manifest in JSON, for the document alone: it is read by the model, which the document's library must not get into. A
//! test holds both together, field by field.
#![expect(dead_code, reason = "only its shape is used")]

use serde::Deserialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A manifest, in the form of a manifest file. Lengths of time are texts such as `90s`, `5m` or `1h30m`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ManifestBody {
    /// Its name.
    #[schema(required = false, pattern = "^[a-z0-9][a-z0-9._-]{0,127}$")]
    key: String,
    /// Its owner.
    owner: Option<String>,
    /// Which code runs.
    #[schema(pattern = "^[a-z0-9][a-z0-9._-]{0,127}$")]
    kind: String,
    /// The lane in which its jobs wait; `main` if nothing is said.
    #[schema(required = false, pattern = "^[a-z0-9][a-z0-9._-]{0,127}$")]
    route: String,
    /// The group whose limit, priority and switch it shares.
    group: Option<String>,
    /// What the code is given: any JSON.
    #[schema(required = false)]
    input: serde_json::Value,
    schedule: ScheduleBody,
    #[schema(required = false)]
    misfire: MisfireBody,
    /// What happens to a tick that comes while the last job is not over. If nothing is said, `skip`, and `queue_one` for what waits for others.
    /// What is read shows the rule that holds: leave it out where another schedule shall have its own default.
    overlap: Option<OverlapWord>,
    /// When it does not fire: 400 at most.
    #[schema(required = false)]
    exclude: Vec<ExclusionBody>,
    /// What becomes of excluded ticks; `skip` if nothing is said.
    #[schema(required = false)]
    excluded: ExcludedWord,
    /// How far its ticks are spread.
    #[schema(required = false)]
    jitter: String,
    /// Tries after the first; if nothing is said, as its kind says.
    retries: Option<u32>,
    retry: Option<RetryDelays>,
    /// How long a job may run; if nothing is said, as long as its kind says.
    timeout: Option<String>,
    /// What a dead letter of it means for it; `hold` if nothing is said.
    #[schema(required = false)]
    on_dead: OnDeadWord,
    /// 0 to 31; higher goes first. The group's priority is added.
    #[schema(required = false, maximum = 31)]
    priority: u8,
    /// Whether it fires at all; it does if nothing is said.
    #[schema(required = false)]
    enabled: bool,
    /// Words to find its jobs by, names, 16 at most; each job keeps those that it was accepted with.
    #[schema(required = false, max_items = 16)]
    tags: Vec<String>,
    /// Fields of its input, and of the outputs of its jobs, that are shown as dots: JSON pointers, `*` for any one step.
    #[schema(required = false)]
    secret: Vec<String>,
}

/// When it is due: one of `cron`, `every`, `once`, `on_demand` and `after`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleBody {
    /// A cron expression of 5 fields, or 6 with seconds first.
    cron: Option<String>,
    /// An interval, counted from the Unix epoch plus `phase`.
    every: Option<String>,
    /// One moment; RFC 3339.
    once: Option<String>,
    /// Only when triggered.
    on_demand: Option<bool>,
    /// After these manifests.
    after: Option<Vec<String>>,
    /// With `after`: all of them, or any. `all` if nothing is said.
    need: Option<NeedWord>,
    /// With `after`: only when a running parent activates it.
    #[schema(required = false)]
    dormant: bool,
    /// IANA time zone; UTC if nothing is said.
    tz: Option<String>,
    /// With `cron`: what to do with a local time that does not exist.
    gap: Option<GapWord>,
    /// With `cron`: what to do with a local time that occurs twice.
    fold: Option<FoldWord>,
    /// No tick before this moment; RFC 3339.
    start: Option<String>,
    /// No tick after this moment; RFC 3339.
    end: Option<String>,
    /// With `every`: how far the interval's grid is moved.
    phase: Option<String>,
}

/// What happens to missed ticks.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MisfireBody {
    /// `once` if nothing is said.
    #[schema(required = false)]
    policy: MisfireWord,
    /// A tick that is older than this is missed; a younger one is late, and fires. A minute if nothing is said.
    #[schema(required = false)]
    threshold: String,
    /// With `catch_up`: how many fire.
    max: Option<u32>,
}

/// How long to wait before each retry; if nothing is said, as its kind says.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryDelays {
    /// The wait before the first retry.
    #[schema(required = false)]
    delay: String,
    /// How much longer each wait is than the one before.
    #[schema(required = false)]
    factor: f64,
    /// The longest wait.
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

/// The same with its key, where no path has it.
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
    fn the_document_knows_the_fields_of_a_manifest_that_the_model_knows() {
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
    fn the_document_knows_the_words_that_the_model_knows() {
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
