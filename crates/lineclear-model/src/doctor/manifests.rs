//! Checks of manifests: those that make no jobs.

use super::{Check, CheckName, HealthFacts, ManifestHealth, a_few, length, many};

/// Whether due manifests are planned.
pub fn late(facts: &HealthFacts) -> Check {
    let (name, trouble) = (CheckName::Late, &facts.trouble);
    if let Some(why) = &facts.not_checked.trouble {
        return Check::not_checked(name, why);
    }
    if trouble.late == 0 {
        return Check::ok(name, "every manifest that was due is planned");
    }
    let ago = trouble.late_since.map(|at| length(facts.now.get() - at.get())).unwrap_or_default();
    let verb = if trouble.late == 1 { "was" } else { "were" };
    Check::failure(
        name,
        format!(
            "{} {verb} due and not planned, the first {ago} ago",
            many(trouble.late, facts.count_max, "manifest")
        ),
        "a live node with the role planner plans them; is one alive, and what does its log say? lineclear api GET /nodes",
    )
}

/// Checks of manifests.
pub fn manifests(facts: &HealthFacts, health: &ManifestHealth) -> Vec<Check> {
    let looked = match health.more {
        true => format!(" (of the newest {})", health.looked_at),
        false => String::new(),
    };
    let unsure = match health.unsure {
        0 => String::new(),
        n => format!("; {} with exclusions could not be checked in time", many(n, 0, "other")),
    };
    let never = match health.never.as_slice() {
        [] => Check::ok(
            CheckName::Never,
            format!("every schedule that is switched on fires again{looked}{unsure}"),
        ),
        some => {
            let named: Vec<String> =
                some.iter().map(|(key, schedule)| format!("{key} ({schedule})")).collect();
            Check::warning(
                CheckName::Never,
                format!(
                    "{} switched on and never fires again{looked}: {}{unsure}",
                    many(some.len() as u64, 0, "manifest"),
                    a_few(&named)
                ),
                "fix its schedule (lineclear schedule explain '…'), or pause or delete it: lineclear manifest delete KEY",
            )
        }
    };
    let unreadable = match health.unreadable.as_slice() {
        [] => Check::ok(CheckName::Unreadable, format!("every manifest can be read{looked}")),
        some => {
            let named: Vec<String> = some.iter().map(|(key, why)| format!("{key} ({why})")).collect();
            Check::failure(
                CheckName::Unreadable,
                format!(
                    "{} cannot be read, and so is not planned{looked}: {}",
                    many(some.len() as u64, 0, "manifest"),
                    a_few(&named)
                ),
                "write it again: lineclear manifest apply -f FILE; or was it written by a newer version?",
            )
        }
    };
    vec![late(facts), never, unreadable]
}
