//! Checks of kinds and of inputs.

use lineclear_model::{Manifest, Name, Payload, secret};

use crate::handler::{Given, Kind, Kinds};
use crate::options::BadOption;
use crate::store::main_route;

/// Gives a manifest without a route the route of its kind.
pub(crate) fn with_route_of_kind(manifest: Manifest, kinds: &Kinds) -> Manifest {
    match kinds.get(&manifest.kind) {
        // The database knows the routes of the others.
        Some(kind) if kind.is_local() && manifest.route == main_route() => {
            Manifest { route: kind.options.route.clone(), ..manifest }
        }
        _ => manifest,
    }
}

/// Checks an input with the check of its kind, if it has one. Where it names a secret, the check gets the text `$secret`: the value is
/// known only where the job runs.
pub(crate) fn check_input(kinds: &Kinds, kind: &Name, input: &Payload) -> Result<(), String> {
    let Some(check) = kinds.get(kind).and_then(|kind| kind.check.as_ref()) else { return Ok(()) };
    let unfit = |why: String| format!("the input does not fit the kind {kind}: {why}");
    let places = secret::places(input.as_str()).map_err(|bad| unfit(bad.to_string()))?;
    if places.is_empty() {
        return check(input).map_err(unfit);
    }
    let filled = secret::fill(input.as_str(), &places, |_| secret::MARKER.to_owned()).unwrap_or_default();
    let filled = Payload::parse(&filled).map_err(|bad| unfit(bad.to_string()))?;
    check(&filled).map_err(unfit)
}

/// Checks kinds: their names, retry policies, and what their handlers need.
pub(crate) fn check_kinds(kinds: Vec<(String, Kind)>, given: Given<'_>) -> Result<Kinds, BadOption> {
    let mut known = Kinds::new();
    for (name, kind) in kinds {
        let bad = |why: String| BadOption { option: "kind", why };
        let name = Name::new(name.clone()).map_err(|e| bad(format!("{name:?}: {e}")))?;
        kind.options.retry.check().map_err(|e| bad(format!("{name}: {e}")))?;
        if let Some(missing) = (kind.missing)(&given) {
            let (option, place) =
                if given.is_remote { ("kind", " on a remote worker") } else { ("state", "") };
            return Err(BadOption { option, why: format!("kind {name} cannot run{place}: {missing}") });
        }
        if known.insert(name.clone(), kind).is_some() {
            return Err(bad(format!("{name} has two handlers; one of them would never run")));
        }
    }
    Ok(known)
}
