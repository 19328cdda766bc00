//! Cycles among manifests that depend on each other: none of them would ever run.

use std::collections::{HashMap, HashSet};

/// The members of a cycle among dependencies (child, parent), if there is one.
pub(crate) fn find_cycle(edges: &[(i64, i64)]) -> Vec<i64> {
    let mut parents: HashMap<i64, Vec<i64>> = HashMap::new();
    for (child, parent) in edges {
        parents.entry(*child).or_default().push(*parent);
    }
    // Removes nodes without children one after the other: cycles and their ancestors remain.
    let mut children: HashMap<i64, usize> = parents.keys().map(|child| (*child, 0)).collect();
    for (_, parent) in edges {
        *children.entry(*parent).or_default() += 1;
    }
    let mut leaves: Vec<i64> = children.iter().filter(|(_, n)| **n == 0).map(|(id, _)| *id).collect();
    while let Some(id) = leaves.pop() {
        children.remove(&id);
        for parent in parents.get(&id).into_iter().flatten() {
            if let Some(n) = children.get_mut(parent) {
                *n -= 1;
                if *n == 0 {
                    leaves.push(*parent);
                }
            }
        }
    }
    // Every remaining node has a child that remains. Following children visits a node twice: it is on a cycle.
    let mut child_of: HashMap<i64, i64> = HashMap::new();
    for (child, parent) in edges.iter().filter(|(child, _)| children.contains_key(child)) {
        child_of.insert(*parent, *child);
    }
    let Some(mut at) = children.keys().next().copied() else { return Vec::new() };
    let mut path: Vec<i64> = Vec::new();
    let mut visited: HashSet<i64> = HashSet::new();
    while visited.insert(at) {
        path.push(at);
        match child_of.get(&at) {
            Some(child) => at = *child,
            None => return Vec::new(),
        }
    }
    path.iter().position(|id| *id == at).map(|from| path.split_off(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::find_cycle;

    #[test]
    fn cycles_are_found_and_nothing_else_is() {
        let sorted = |edges: &[(i64, i64)]| {
            let mut found = find_cycle(edges);
            found.sort_unstable();
            found
        };
        assert!(sorted(&[]).is_empty());
        assert_eq!(sorted(&[(1, 1)]), [1]);
        assert_eq!(sorted(&[(1, 2), (2, 3), (3, 1)]), [1, 2, 3]);
        // Descendants and ancestors of a cycle are not on it, and several paths to one node are no cycle.
        assert_eq!(sorted(&[(9, 1), (1, 2), (2, 1), (2, 7), (7, 8)]), [1, 2]);
        assert!(sorted(&[(1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (1, 5)]).is_empty());
        let chain: Vec<(i64, i64)> = (0..100_000).map(|n| (n, n + 1)).collect();
        assert!(sorted(&chain).is_empty());
    }
}
