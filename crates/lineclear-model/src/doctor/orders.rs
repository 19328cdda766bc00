//! Standing orders that make no jobs.

use super::{Check, CheckName, Condition, Orders, a_few, length, many};

/// Whether those that are due are planned.
pub fn late(facts: &Condition) -> Check {
    let (name, trouble) = (CheckName::Late, &facts.trouble);
    if let Some(why) = &facts.unseen.trouble {
        return Check::unseen(name, why);
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
        "a live node with the role planner does so; is one alive, and what does its log say? lineclear api GET /nodes",
    )
}

/// Checks of manifests.
pub fn orders(facts: &Condition, orders: &Orders) -> Vec<Check> {
    let looked = match orders.more {
        true => format!(" (of the newest {})", orders.looked_at),
        false => String::new(),
    };
    let unsure = match orders.unsure {
        0 => String::new(),
        n => format!("; {} with exclusions could not be looked at in time", many(n, 0, "other")),
    };
    let never = match orders.never.as_slice() {
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
                "mend its schedule (lineclear schedule explain '…'), or pause or delete it: lineclear manifest delete KEY",
            )
        }
    };
    let unreadable = match orders.unreadable.as_slice() {
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
                "write it anew: lineclear manifest apply -f FILE; or was it written by a newer version?",
            )
        }
    };
    vec![late(facts), never, unreadable]
}
