//! The search language: `state:failed group:etl since:24h kind:import-* -node:web-2 error:"connect timeout"`.
//!
//! Space is AND, comma is OR, `-` is NOT, `*` at the end of a name is any ending. The same for the API, the command line and pages.

mod parse;
mod render;

pub use parse::BadQuery;

use serde::{Deserialize, Serialize};

use crate::{JobState, Micros, Origin, job::words};

/// Longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 1_024;
/// Most values of one term.
pub const VALUES_MAX: usize = 100;

words! {
    /// The field of a term.
    Field {
        /// Where the job is: a state, or `failed`, `waiting`, `over`.
        State = "state",
        /// The kind of work.
        Kind = "kind",
        /// Its group.
        Group = "group",
        /// The key of its manifest.
        Manifest = "manifest",
        /// One of its tags.
        Tag = "tag",
        /// The lane it waits in.
        Route = "route",
        /// The name of the node that runs or ran it.
        Node = "node",
        /// What made it.
        Origin = "origin",
        /// A part of its last error.
        Error = "error",
        /// The family of errors that it died of.
        Fingerprint = "fingerprint",
        /// Why it became a dead letter.
        Reason = "reason",
        /// Its id.
        Id = "id",
        /// How often it was claimed.
        Claims = "claims",
        /// How long its last claim ran, or has run.
        Duration = "duration",
        /// Accepted since a moment, or within a length of time.
        Since = "since",
        /// Accepted before a moment, or longer ago than a length of time.
        Until = "until",
    }
}

/// Which values of a name, or which parts of a text, are wanted, and which are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// One of these; empty: any. One that ends in `*` is a prefix.
    pub any_of: Vec<String>,
    /// And none of these.
    pub none_of: Vec<String>,
}

/// From one number to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The least.
    pub min: i64,
    /// The most.
    pub max: i64,
}

impl Span {
    /// All numbers.
    pub const ALL: Span = Span { min: i64::MIN, max: i64::MAX };

    fn and(self, other: Span) -> Span {
        Span { min: self.min.max(other.min), max: self.max.min(other.max) }
    }

    /// Whether a number is in it.
    pub fn has(self, number: i64) -> bool {
        (self.min..=self.max).contains(&number)
    }
}

/// A moment as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Exactly.
    At(Micros),
    /// A length of time before now.
    Ago(std::time::Duration),
}

impl Moment {
    /// The moment, when it is `now`.
    pub fn at(self, now: Micros) -> Micros {
        match self {
            Moment::At(at) => at,
            Moment::Ago(length) => now.offset(-crate::duration::micros(length)),
        }
    }
}

/// A search for jobs. All conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// In one of these states; `None`: in any. May be empty: then nothing is found.
    pub states: Option<Vec<JobState>>,
    /// Made by one of these; `None`: by any.
    pub origins: Option<Vec<Origin>>,
    /// The kind of work.
    pub kind: Names,
    /// Its group. A job without one has none of the names.
    pub group: Names,
    /// The key of its manifest.
    pub manifest: Names,
    /// One of its tags.
    pub tag: Names,
    /// The lane it waits in.
    pub route: Names,
    /// The name of the node that runs or ran it.
    pub node: Names,
    /// Parts of its last error.
    pub error: Names,
    /// The family of errors that it died of, or ended with.
    pub fingerprint: Names,
    /// Why it became a dead letter, in the words of [`crate::DeadReason`]. Other jobs have no reason.
    pub reason: Names,
    /// Of dead letters only those that await a person. The language has no word for it: an action that resolves dead letters sets
    /// it, so that the count matches the jobs that it changes.
    pub only_awaiting: bool,
    /// One of these jobs; empty: any.
    pub ids: Vec<i64>,
    /// None of these jobs.
    pub not_ids: Vec<i64>,
    /// Ids in this span.
    pub id_span: Span,
    /// The number of its claims.
    pub claims: Span,
    /// Microseconds that its last claim ran; `None`: whether it ran or not.
    pub duration: Option<Span>,
    /// Accepted at or after this moment.
    pub since: Option<Moment>,
    /// Accepted before this moment.
    pub until: Option<Moment>,
}

impl Default for Query {
    /// All jobs.
    fn default() -> Query {
        Query {
            states: None,
            origins: None,
            kind: Names::default(),
            group: Names::default(),
            manifest: Names::default(),
            tag: Names::default(),
            route: Names::default(),
            node: Names::default(),
            error: Names::default(),
            fingerprint: Names::default(),
            reason: Names::default(),
            only_awaiting: false,
            ids: Vec::new(),
            not_ids: Vec::new(),
            id_span: Span::ALL,
            claims: Span::ALL,
            duration: None,
            since: None,
            until: None,
        }
    }
}

impl Query {
    /// Reads a query; an empty text means all jobs.
    pub fn parse(text: &str) -> Result<Query, BadQuery> {
        parse::query(text)
    }

    /// Whether a job in this state could be found.
    pub fn wants(&self, state: JobState) -> bool {
        let can_be = state == JobState::Dead || self.reason.any_of.is_empty();
        can_be && self.states.as_ref().is_none_or(|states| states.contains(&state))
    }

    /// Replaces every length of time, such as `24h`, by a moment: a search that continues later, or elsewhere, finds the same
    /// jobs.
    pub fn fixed_at(mut self, now: Micros) -> Query {
        let fix = |moment: Moment| Moment::At(moment.at(now));
        (self.since, self.until) = (self.since.map(fix), self.until.map(fix));
        self
    }
}

#[cfg(test)]
mod tests;
