//! Manifests, and the file they are written in.

mod dependency_cycle;
mod file;
mod location;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use file::{BadManifest, FILE_BYTES_MAX, GroupSpec, ManifestFile};

use crate::{
    Backoff, Excluded, Exclusion, Misfire, Name, OnDead, Overlap, Payload, Rules, Schedule, duration, secret,
    tag,
};

/// Highest priority of a manifest, a group or a job.
pub const PRIORITY_MAX: u8 = 31;

/// Most bytes of an owner.
pub const OWNER_BYTES_MAX: usize = 255;

/// A standing order: which kind to run, with which input, when, under which rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Its name, unique in a database.
    pub key: Name,
    /// Who is responsible for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Which code runs.
    pub kind: Name,
    /// The lane in which its jobs wait.
    #[serde(default = "main_route")]
    pub route: Name,
    /// The group whose limit, priority and switch it shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Name>,
    /// The input of its jobs.
    #[serde(default)]
    pub input: Payload,
    /// When it is due.
    pub schedule: Schedule,
    /// What happens to missed ticks.
    #[serde(default)]
    pub misfire: Misfire,
    /// What happens to a tick that comes while the last job is not over; see [`Manifest::overlap`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// When it does not fire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Exclusion>,
    /// What becomes of excluded ticks.
    #[serde(default = "skip_excluded", skip_serializing_if = "is_skip")]
    pub excluded: Excluded,
    /// How far its ticks are spread.
    #[serde(default, with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub jitter: Duration,
    /// How many times a failed job is tried again; `None`: as often as its kind says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// How long to wait before each retry; `None`: as its kind says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Backoff>,
    /// How long a job may run; `None`: as long as its kind says.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Whether a dead letter of it holds it.
    #[serde(default = "hold", skip_serializing_if = "is_hold")]
    pub on_dead: OnDead,
    /// 0 to 31; higher goes first. The group's priority is added.
    #[serde(default)]
    pub priority: u8,
    /// Whether it fires at all.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Words to find its jobs by; each job keeps those that it was accepted with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Name>,
    /// Fields of its input, and of the outputs of its jobs, that are shown as dots: JSON pointers, `*` for any one step. Fields
    /// whose names say that they are secrets need not be named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret: Vec<String>,
}

fn main_route() -> Name {
    Name::new("main").expect("a name")
}

fn skip_excluded() -> Excluded {
    Excluded::Skip
}

fn is_skip(excluded: &Excluded) -> bool {
    *excluded == Excluded::Skip
}

fn hold() -> OnDead {
    OnDead::Hold
}

fn is_hold(on_dead: &OnDead) -> bool {
    *on_dead == OnDead::Hold
}

fn yes() -> bool {
    true
}

/// A field of a manifest that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct BadField {
    /// The field as manifests spell it, such as `retry.factor`.
    pub field: &'static str,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl BadField {
    pub(crate) fn new(field: &'static str, message: impl Into<String>) -> BadField {
        BadField { field, message: message.into() }
    }
}

impl Manifest {
    /// A manifest with the defaults for everything else.
    pub fn new(key: Name, kind: Name, schedule: Schedule) -> Manifest {
        Manifest {
            key,
            owner: None,
            kind,
            route: main_route(),
            group: None,
            input: Payload::empty(),
            schedule,
            misfire: Misfire::default(),
            overlap: None,
            exclude: Vec::new(),
            excluded: Excluded::Skip,
            jitter: Duration::ZERO,
            retries: None,
            retry: None,
            timeout: None,
            on_dead: OnDead::Hold,
            priority: 0,
            enabled: true,
            tags: Vec::new(),
            secret: Vec::new(),
        }
    }

    /// Checks what the types cannot express.
    pub fn check(&self) -> Result<(), BadField> {
        self.rules().check()?;
        self.retry.unwrap_or_default().policy(self.retries.unwrap_or_default()).check()?;
        if self.timeout.is_some_and(|timeout| timeout.is_zero() || timeout > duration::DURATION_MAX) {
            return Err(BadField::new("timeout", "must be above zero and at most 3650d"));
        }
        check_priority(self.priority)?;
        tag::check_field(&self.tags)?;
        secret::check(&self.secret)?;
        if let Some(pointer) = secret::find_mask(self.input.as_str()) {
            let message =
                format!("{pointer} is {}, which masks a secret; write the secret itself", secret::MASK);
            return Err(BadField::new("input", message));
        }
        secret::places(self.input.as_str()).map_err(|bad| BadField::new("input", bad.to_string()))?;
        if self.schedule.parents().contains(&self.key) {
            return Err(BadField::new("schedule.after", format!("{} waits for itself", self.key)));
        }
        match &self.owner {
            Some(owner) if owner.len() > OWNER_BYTES_MAX || owner.chars().any(char::is_control) => {
                let message = format!("must be plain text of at most {OWNER_BYTES_MAX} bytes");
                Err(BadField::new("owner", message))
            }
            _ => Ok(()),
        }
    }

    /// The rules for the planner.
    pub fn rules(&self) -> Rules {
        self.spec().rules()
    }

    /// The overlap rule in effect. By default, a dependent queues one firing: a parent that completes while it runs must count.
    /// Other manifests skip a tick that comes while a job is not over: the next tick will come.
    pub fn overlap(&self) -> Overlap {
        let default = if self.schedule.parents().is_empty() { Overlap::Skip } else { Overlap::QueueOne };
        self.overlap.unwrap_or(default)
    }

    /// The fields that a database keeps as text in one column, because they have no column.
    pub fn spec(&self) -> Spec {
        Spec {
            schedule: self.schedule.clone(),
            misfire: self.misfire.clone(),
            exclude: self.exclude.clone(),
            excluded: self.excluded,
            jitter: self.jitter,
            retry: self.retry,
            tags: self.tags.clone(),
            secret: self.secret.clone(),
            was_secret: Vec::new(),
        }
    }
}

pub(crate) fn check_priority(priority: u8) -> Result<(), BadField> {
    if priority > PRIORITY_MAX {
        return Err(BadField::new(
            "priority",
            format!("must be between 0 and {PRIORITY_MAX}, not {priority}"),
        ));
    }
    Ok(())
}

/// The part of a manifest that a database keeps as one text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// When it is due.
    pub schedule: Schedule,
    /// What happens to missed ticks.
    #[serde(default)]
    pub misfire: Misfire,
    /// When it does not fire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Exclusion>,
    /// What becomes of excluded ticks.
    #[serde(default = "skip_excluded", skip_serializing_if = "is_skip")]
    pub excluded: Excluded,
    /// How far its ticks are spread.
    #[serde(default, with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub jitter: Duration,
    /// How long to wait before each retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Backoff>,
    /// Words to find its jobs by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Name>,
    /// Fields that are shown as dots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret: Vec<String>,
    /// Fields that were marked before and are not now: the inputs of earlier jobs still show dots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub was_secret: Vec<String>,
}

/// Only the marks of a spec, which can be read even if other fields cannot.
#[derive(Deserialize)]
struct Marks {
    #[serde(default)]
    secret: Vec<String>,
    #[serde(default)]
    was_secret: Vec<String>,
}

impl Spec {
    /// All fields that a stored spec marks, or marked before; the whole payload if that cannot be read.
    pub fn secret_fields(text: &str) -> Vec<String> {
        match serde_json::from_str(text) {
            Ok(Marks { mut secret, was_secret }) => {
                secret.extend(was_secret);
                secret
            }
            Err(_) => vec![String::new()],
        }
    }

    /// Adds the marks of the spec that it replaces.
    pub fn with_past_secrets(mut self, fields: &[String]) -> Spec {
        let is_gone = |mark: &&String| !self.secret.contains(mark);
        self.was_secret = fields.iter().filter(is_gone).cloned().collect();
        self.was_secret.sort_unstable();
        self.was_secret.dedup();
        if self.was_secret.len() > secret::PAST_SECRET_FIELDS_MAX {
            self.was_secret = vec![String::new()];
        }
        self
    }

    /// Its text: equal specs have equal texts, so that a comparison shows a change.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a spec has only text, numbers and lists")
    }

    /// Reads what [`Spec::to_json`] wrote.
    pub fn from_json(text: &str) -> Result<Spec, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The rules for the planner.
    pub fn rules(&self) -> Rules {
        Rules {
            schedule: self.schedule.clone(),
            misfire: self.misfire.clone(),
            exclude: self.exclude.clone(),
            excluded: self.excluded,
            jitter: self.jitter,
        }
    }
}

#[cfg(test)]
mod tests;
