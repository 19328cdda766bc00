//! Where the jobs of each kind go on a node, checked before it starts.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use lineclear_model::Name;

use crate::handler::{Kind, KindOptions, Kinds};
use crate::journey::execute::panic_message;
use crate::journey::submit::routes::pull_route;
use crate::options::BadOption;
use crate::store::NodeId;
use crate::submitters::{Submission, SubmitFuture, SubmittedJob, Submitter, SubmitterStatus, Unreachable};

/// The submitters that every node has: its own handlers, its handlers inside `enqueue`, and workers that pull.
const LOCAL: &str = "local";
pub(crate) const INLINE: &str = "inline";
const PULL: &str = "pull";

/// The first pause after a job was not handed over; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Where the jobs of a kind go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// To the handler, in a slot of the node.
    Local,
    /// To the handler, inside the call that enqueues the job.
    Inline,
    /// To a submitter, by its name.
    Submitter(Name),
    /// To workers that pull.
    Pull,
}

/// A submitter of a node.
pub(crate) struct Registered {
    pub(crate) name: Name,
    submitter: Arc<dyn Submitter>,
    /// Holds the leases of jobs that it has accepted. Set when the node starts.
    pub(crate) holder: std::sync::OnceLock<NodeId>,
    /// Jobs in a row that were not handed over.
    unreachable: AtomicU32,
    /// Its capacity panicked when it was last asked for.
    has_panicked: AtomicBool,
}

/// Runs code of the program's own. `Err`: it panicked, and this is what it said.
fn contained<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| panic_message(&*panic))
}

impl Registered {
    fn new(name: Name, submitter: Arc<dyn Submitter>) -> Registered {
        Registered {
            name,
            submitter,
            holder: std::sync::OnceLock::new(),
            unreachable: AtomicU32::new(0),
            has_panicked: AtomicBool::new(false),
        }
    }

    /// Tells the submitter which cluster it works for.
    pub(crate) fn join(&self, cluster: &str) {
        if let Err(panic) = contained(|| self.submitter.join(cluster)) {
            tracing::warn!(submitter = %self.name, panic, "`join` of a submitter panicked");
        }
    }

    /// Submits a job; if the submitter panics before its answer is awaited, it is unreachable.
    pub(crate) fn submit(&self, job: SubmittedJob) -> SubmitFuture {
        contained(|| self.submitter.submit(job)).unwrap_or_else(|why| {
            let why = format!("the submitter panicked: {why}");
            Box::pin(async { Submission::Unreachable(Unreachable::new(why)) })
        })
    }

    /// Jobs that may be with it at once. A submitter that panics gets none; the log says so once, until it answers again.
    pub(crate) fn capacity(&self) -> u32 {
        let capacity = contained(|| self.submitter.capacity());
        let had_panicked = self.has_panicked.swap(capacity.is_err(), Ordering::Relaxed);
        capacity.unwrap_or_else(|panic| {
            if !had_panicked {
                tracing::warn!(submitter = %self.name, panic, "`capacity` of a submitter panicked; the submitter gets no jobs until it answers");
            }
            0
        })
    }

    /// Its state; of one that panics: that it did.
    pub(crate) fn status(&self) -> SubmitterStatus {
        contained(|| self.submitter.status()).unwrap_or_else(|panic| {
            SubmitterStatus::not_ready("unknown", "its status panicked", Some(panic), None)
        })
    }

    pub(crate) fn reached(&self) {
        self.unreachable.store(0, Ordering::Relaxed);
    }

    /// The pause after one more job that was not handed over.
    pub(crate) fn pause(&self) -> Duration {
        let before = self.unreachable.fetch_add(1, Ordering::Relaxed).min(10);
        (PAUSE_MIN * 2_u32.pow(before)).min(PAUSE_MAX)
    }
}

/// The submitters of a node, by the name of their route.
#[derive(Default)]
pub(crate) struct Routing {
    pub(crate) submitters: BTreeMap<Name, Registered>,
    /// Where jobs of kinds go that the node does not know.
    pub(crate) default: Option<Destination>,
    /// Options of kinds that the node does not know.
    pub(crate) defaults: KindOptions,
    /// All handlers run inside the calls that enqueue their jobs, and nothing runs in the background.
    pub(crate) is_inline: bool,
}

impl Routing {
    /// The submitter whose route this is.
    pub(crate) fn submitter(&self, route: &Name) -> Option<&Registered> {
        self.submitters.get(route)
    }

    /// The route for a job of a kind that this node does not know, if it has a default submitter.
    pub(crate) fn default_route(&self, kind: &Name) -> Option<Name> {
        match self.default.as_ref()? {
            Destination::Submitter(name) => Some(name.clone()),
            Destination::Pull => pull_route(kind),
            Destination::Local | Destination::Inline => None,
        }
    }
}

/// What the program said about submitters.
#[derive(Default)]
pub(crate) struct Declared {
    pub(crate) submitters: Vec<(String, Arc<dyn Submitter>)>,
    /// Kind, submitter, and options if there are any.
    pub(crate) routed: Vec<(String, String, Option<KindOptions>)>,
    pub(crate) default: Option<String>,
    /// All handlers run inside the call that enqueues their job.
    pub(crate) inline: bool,
}

impl Declared {
    /// Checks all of it, and adds the kinds that go elsewhere. The error names everything that is wrong.
    pub(crate) fn check(self, kinds: &mut Kinds, defaults: &KindOptions) -> Result<Routing, BadOption> {
        let mut wrong: Vec<String> = Vec::new();
        let mut submitters = BTreeMap::new();
        for (name, submitter) in self.submitters {
            match Name::new(name.clone()) {
                Err(error) => wrong.push(format!("submitter {name:?}: {error}")),
                Ok(name) if is_reserved(&name) => {
                    wrong.push(format!("submitter {name}: this name is reserved; choose another"));
                }
                Ok(name) => {
                    let checked = contained(|| submitter.check());
                    if let Err(why) =
                        checked.unwrap_or_else(|panic| Err(format!("its check panicked: {panic}")))
                    {
                        wrong.push(format!("submitter {name}: {why}"));
                    }
                    let registered = Registered::new(name.clone(), submitter);
                    if submitters.insert(name.clone(), registered).is_some() {
                        wrong.push(format!("submitter {name} is registered twice"));
                    }
                }
            }
        }
        let destination = |submitter: &str| match submitter {
            LOCAL => Some(Destination::Local),
            INLINE => Some(Destination::Inline),
            PULL => Some(Destination::Pull),
            other => {
                submitters.keys().find(|name| name.as_str() == other).cloned().map(Destination::Submitter)
            }
        };
        let unknown = |submitter: &str| {
            let mut known: Vec<&str> = vec![LOCAL, INLINE, PULL];
            known.extend(submitters.keys().map(Name::as_str));
            format!("there is no submitter {submitter:?}; known are {}", known.join(", "))
        };
        let mut seen: HashMap<String, String> = HashMap::new();
        for (kind, submitter, options) in self.routed {
            if let Some(before) = seen.insert(kind.clone(), submitter.clone()) {
                wrong.push(format!("kind {kind} is routed twice: to {before} and to {submitter}"));
                continue;
            }
            match destination(&submitter) {
                None => wrong.push(format!("kind {kind}: {}", unknown(&submitter))),
                Some(to) => {
                    let options = options.unwrap_or_else(|| defaults.clone());
                    if let Err(why) = route(kinds, &kind, to, options) {
                        wrong.push(why);
                    }
                }
            }
        }
        if self.inline {
            for kind in kinds.values_mut().filter(|kind| kind.destination == Destination::Local) {
                kind.destination = Destination::Inline;
                kind.options.route = inline_route();
            }
        }
        // The routes of submitters are theirs alone.
        for (name, kind) in kinds.iter().filter(|(_, kind)| kind.destination == Destination::Local) {
            if submitters.contains_key(&kind.options.route) {
                let route = &kind.options.route;
                wrong.push(format!("kind {name}: its route {route} is the name of a submitter; rename one"));
            }
        }
        let default = self.default.as_deref().and_then(|name| {
            destination(name).or_else(|| {
                wrong.push(format!("default submitter: {}", unknown(name)));
                None
            })
        });
        match wrong.is_empty() {
            true => Ok(Routing { submitters, default, defaults: defaults.clone(), is_inline: self.inline }),
            false => Err(BadOption { option: "submitter", why: wrong.join("; ") }),
        }
    }
}

fn is_reserved(name: &Name) -> bool {
    let name = name.as_str();
    [LOCAL, INLINE, PULL, "main"].contains(&name) || name.starts_with("pull.")
}

pub(crate) fn inline_route() -> Name {
    Name::new(INLINE).expect("a name")
}

/// Routes one kind; the error says what is wrong.
fn route(kinds: &mut Kinds, kind: &str, to: Destination, options: KindOptions) -> Result<(), String> {
    let name = Name::new(kind).map_err(|error| format!("kind {kind:?}: {error}"))?;
    options.retry.check().map_err(|error| format!("kind {name}: {error}"))?;
    let with_handler = kinds.get_mut(&name);
    match (to, with_handler) {
        (Destination::Local, Some(_)) => {}
        (to @ Destination::Inline, Some(handled)) => {
            handled.options.route = inline_route();
            handled.destination = to;
        }
        (Destination::Local | Destination::Inline, None) => {
            return Err(format!("kind {name} has no handler; add one with `.kind({kind:?}, …)`"));
        }
        (_, Some(_)) => {
            return Err(format!("kind {name} has a handler that would never run; remove it, or its route"));
        }
        (to, None) => {
            let route = match &to {
                Destination::Submitter(submitter) => submitter.clone(),
                _ => pull_route(&name)
                    .ok_or_else(|| format!("kind {name}: its name is too long to be pulled"))?,
            };
            kinds.insert(name, Kind::elsewhere(KindOptions { route, ..options }, to));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nowhere;

    impl Submitter for Nowhere {
        fn submit(&self, _job: SubmittedJob) -> SubmitFuture {
            Box::pin(async { Submission::Unreachable(Unreachable::new("nowhere")) })
        }
    }

    fn kinds(names: &[&str]) -> Kinds {
        let kind = || Kind::new(KindOptions::default(), async || {});
        names.iter().map(|name| (Name::new(*name).unwrap(), kind())).collect()
    }

    fn declared(submitters: &[&str], routed: &[(&str, &str)]) -> Declared {
        let submitter = |name: &&str| ((*name).to_owned(), Arc::new(Nowhere) as Arc<dyn Submitter>);
        let routed = routed.iter().map(|(kind, to)| ((*kind).to_owned(), (*to).to_owned(), None));
        Declared {
            submitters: submitters.iter().map(submitter).collect(),
            routed: routed.collect(),
            ..Declared::default()
        }
    }

    #[test]
    fn every_error_of_the_routing_is_named_at_once() {
        let mut known = kinds(&["report", "sync"]);
        let bad = declared(
            &["billing", "billing", "local", "Not A Name"],
            &[
                ("invoice", "billing"),
                ("invoice", "pull"),
                ("refund", "nowhere"),
                ("report", "billing"),
                ("missing", "inline"),
            ],
        );
        let bad = Declared { default: Some("missing".to_owned()), ..bad };
        let error = bad.check(&mut known, &KindOptions::default()).err().expect("it is refused").to_string();
        for part in [
            "billing is registered twice",
            "submitter local: this name is reserved",
            "\"Not A Name\"",
            "kind invoice is routed twice: to billing and to pull",
            "there is no submitter \"nowhere\"; known are local, inline, pull, billing",
            "kind report has a handler that would never run",
            "kind missing has no handler",
            "default submitter: there is no submitter \"missing\"",
        ] {
            assert!(error.contains(part), "{part:?} is missing in {error}");
        }
    }

    #[test]
    fn kinds_go_where_the_program_says() {
        let mut known = kinds(&["report", "sync"]);
        let said = declared(&["billing"], &[("invoice", "billing"), ("thumb", "pull"), ("sync", "inline")]);
        let said = Declared { default: Some("pull".to_owned()), ..said };
        let routing = said.check(&mut known, &KindOptions::default()).expect("it is valid");
        let of = |kind: &str| {
            let kind = &known[&Name::new(kind).unwrap()];
            (kind.destination.clone(), kind.options.route.to_string(), kind.call.is_some())
        };
        assert_eq!(of("report"), (Destination::Local, "main".to_owned(), true));
        assert_eq!(of("sync"), (Destination::Inline, "inline".to_owned(), true));
        assert_eq!(of("thumb"), (Destination::Pull, "pull.thumb".to_owned(), false));
        let billing = Name::new("billing").unwrap();
        assert_eq!(of("invoice"), (Destination::Submitter(billing.clone()), "billing".to_owned(), false));
        assert!(routing.submitter(&billing).is_some());
        let other = Name::new("other").unwrap();
        assert_eq!(
            routing.default_route(&other).map(|route| route.to_string()).as_deref(),
            Some("pull.other")
        );
    }

    #[test]
    fn the_pause_doubles_up_to_a_minute_and_begins_anew() {
        let routing = declared(&["a"], &[]).check(&mut Kinds::new(), &KindOptions::default()).unwrap();
        let a = &routing.submitters[&Name::new("a").unwrap()];
        let seconds: Vec<u64> = (0..9).map(|_| a.pause().as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        a.reached();
        assert_eq!(a.pause().as_secs(), 1);
    }
}
