//! Checks of access: tokens that are about to expire.

use super::{Check, CheckName, a_few, length, many};
use crate::Micros;

/// How long before its end a token is reported, in microseconds.
const SOON: i64 = 14 * 86_400_000_000;

/// Whether valid tokens expire soon. `tokens`: their names and ends.
pub fn tokens(now: Micros, tokens: &[(String, Option<Micros>)]) -> Check {
    let left = |end: &Micros| end.get().saturating_sub(now.get());
    let mut ending: Vec<(i64, &String)> = tokens
        .iter()
        .filter_map(|(name, end)| end.as_ref().map(|end| (left(end), name)))
        .filter(|(left, _)| *left <= SOON)
        .collect();
    ending.sort();
    if ending.is_empty() {
        return Check::ok(CheckName::Tokens, "no valid token expires within 14 days");
    }
    let named: Vec<String> =
        ending.iter().map(|(left, name)| format!("{name} (in {})", length(*left))).collect();
    let verb = if ending.len() == 1 { "expires" } else { "expire" };
    Check::warning(
        CheckName::Tokens,
        format!("{} {verb} within 14 days: {}", many(ending.len() as u64, 0, "token"), a_few(&named)),
        "create a new one under another name (lineclear token create), give it to the clients, and revoke the old one",
    )
}
