//! Circles among manifests that wait for each other: none of them would ever run.

use std::collections::{HashMap, HashSet};

/// The members of a circle among those who wait (child, parent), if there is one.
pub(crate) fn circle(waits: &[(i64, i64)]) -> Vec<i64> {
    let mut parents: HashMap<i64, Vec<i64>> = HashMap::new();
    for (child, parent) in waits {
        parents.entry(*child).or_default().push(*parent);
    }
    // Leaves one after the other whom nobody waits for: what is left are circles, and what they wait for.
    let mut waiting: HashMap<i64, usize> = parents.keys().map(|child| (*child, 0)).collect();
    for (_, parent) in waits {
        *waiting.entry(*parent).or_default() += 1;
    }
    let mut free: Vec<i64> = waiting.iter().filter(|(_, n)| **n == 0).map(|(id, _)| *id).collect();
    while let Some(id) = free.pop() {
        waiting.remove(&id);
        for parent in parents.get(&id).into_iter().flatten() {
            if let Some(n) = waiting.get_mut(parent) {
                *n -= 1;
                if *n == 0 {
                    free.push(*parent);
                }
            }
        }
    }
    // From anyone who is left, children lead round; whoever is met twice is on a circle.
    let mut child_of: HashMap<i64, i64> = HashMap::new();
    for (child, parent) in waits.iter().filter(|(child, _)| waiting.contains_key(child)) {
        child_of.insert(*parent, *child);
    }
    let Some(mut at) = waiting.keys().next().copied() else { return Vec::new() };
    let mut met: Vec<i64> = Vec::new();
    let mut seen: HashSet<i64> = HashSet::new();
    while seen.insert(at) {
        met.push(at);
        match child_of.get(&at) {
            Some(child) => at = *child,
            None => return Vec::new(),
        }
    }
    met.iter().position(|id| *id == at).map(|from| met.split_off(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::circle;

    #[test]
    fn circles_are_found_and_nothing_else_is() {
        let sorted = |waits: &[(i64, i64)]| {
            let mut found = circle(waits);
            found.sort_unstable();
            found
        };
        assert!(sorted(&[]).is_empty());
        assert_eq!(sorted(&[(1, 1)]), [1]);
        assert_eq!(sorted(&[(1, 2), (2, 3), (3, 1)]), [1, 2, 3]);
        // Those before and behind a circle are not on it, and many ways to one are no circle.
        assert_eq!(sorted(&[(9, 1), (1, 2), (2, 1), (2, 7), (7, 8)]), [1, 2]);
        assert!(sorted(&[(1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (1, 5)]).is_empty());
        let chain: Vec<(i64, i64)> = (0..100_000).map(|n| (n, n + 1)).collect();
        assert!(sorted(&chain).is_empty());
    }
}
