//! Words and rules of Lineclear. Pure: no I/O, no clock, no async; the caller passes the time.
#![forbid(unsafe_code)]

// The words.
pub mod job;
pub mod name;
pub mod network;
pub mod scope;
pub mod tag;
pub mod text;
pub mod time;

pub mod duration;

// When: a schedule has ticks, exclusions and rules take some away, the plan says what to do now.
pub mod schedule;

pub mod exclude;

pub mod rules;

pub mod plan;

// What: the payload of a job, and the rules that decide what happens when its run ends.
pub mod payload;

pub mod retry;

pub mod outcome;
pub mod outcome_object;

// Manifests, which combine all of these.
pub mod manifest;

// Answers to questions of operators.
pub mod explain;

pub mod doctor;

pub mod query;

// Secrets, which they must not see.
pub mod secret;

pub use exclude::Exclusion;
pub use job::{DeadReason, ExecutionOutcome, JobState, Origin};
pub use manifest::{BadField, BadManifest, GroupSpec, Manifest, ManifestFile, Spec};
pub use name::{BadName, Name};
pub use network::Network;
pub use outcome::{Failure, Outcome, Verdict, fingerprint, judge, judge_lost};
pub use payload::{BadPayload, Payload};
pub use plan::{Decision, PlanStart, Preview, Skip, Tick, decide, plan_start, preview, ticks_between};
pub use retry::{Backoff, RetryPolicy};
pub use rules::{Excluded, Misfire, MisfirePolicy, OnDead, Overlap, Rules, SkipReason};
pub use schedule::{BadSchedule, Schedule, ScheduleFields};
pub use scope::{BadScopes, Scope, Scopes};
pub use time::Micros;
