//! Cycles of dependents, which would wait for each other for ever.

use std::collections::{BTreeMap, BTreeSet};

use super::Manifest;
use crate::Name;

/// A cycle of manifests: each depends on the next, and the last on the first.
pub(super) fn find(manifests: &[Manifest]) -> Option<Vec<Name>> {
    let parents: BTreeMap<&Name, &[Name]> =
        manifests.iter().map(|m| (&m.key, m.schedule.parents())).collect();
    let mut cleared = BTreeSet::new();
    for manifest in manifests {
        // An explicit stack: a chain of a hundred thousand manifests must not overflow the thread's.
        let mut path: Vec<(&Name, std::slice::Iter<Name>)> = Vec::new();
        let mut next = Some(&manifest.key);
        while let Some(key) = next.take() {
            if let Some(start) = path.iter().position(|(on_path, _)| *on_path == key) {
                return Some(path[start..].iter().map(|(key, _)| (*key).clone()).collect());
            }
            if !cleared.contains(key)
                && let Some(parents) = parents.get(key)
            {
                path.push((key, parents.iter()));
            }
            while let Some((key, left)) = path.last_mut() {
                next = left.next();
                if next.is_some() {
                    break;
                }
                cleared.insert(*key);
                path.pop();
            }
        }
    }
    None
}
