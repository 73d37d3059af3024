//! Circles in a graph of names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who uses whom, with the places where it does.
pub(crate) type Edges = BTreeMap<(String, String), Vec<String>>;

/// Circles that have no edge in common, shortest first, such that without their edges there is none. So at least one edge
/// of each must go. Each begins with its first name in the order of the alphabet, and does not end with it again.
pub(crate) fn circles(edges: &Edges) -> Vec<Vec<String>> {
    let mut left: BTreeSet<(&str, &str)> = edges.keys().map(|(from, to)| (&**from, &**to)).collect();
    let mut found = Vec::new();
    while let Some(circle) = shortest(&left) {
        for position in 0..circle.len() {
            left.remove(&(circle[position], circle[(position + 1) % circle.len()]));
        }
        found.push(circle.into_iter().map(str::to_owned).collect());
    }
    found
}

/// Whether a chain of edges leads from one to the other.
pub(crate) fn reaches(edges: &Edges, from: &str, to: &str) -> bool {
    path(&edges.keys().map(|(from, to)| (&**from, &**to)).collect(), from, to).is_some()
}

fn shortest<'a>(edges: &BTreeSet<(&'a str, &'a str)>) -> Option<Vec<&'a str>> {
    // The first name of a circle is found as such: a circle found from another of its names is as long, and comes later.
    let names: BTreeSet<&str> = edges.iter().map(|&(from, _)| from).collect();
    names.into_iter().filter_map(|name| path(edges, name, name)).min_by_key(Vec::len)
}

/// The names on a shortest way of at least one edge, without the last.
fn path<'a>(edges: &BTreeSet<(&'a str, &'a str)>, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut reached: BTreeMap<&str, &str> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(name) = next.pop_front() {
        for &(_, target) in edges.range((name, "")..).take_while(|(source, _)| *source == name) {
            if target == to {
                let mut names = vec![name];
                while names[names.len() - 1] != from {
                    names.push(reached[names[names.len() - 1]]);
                }
                names.reverse();
                return Some(names);
            }
            if target != from && !reached.contains_key(target) {
                reached.insert(target, name);
                next.push_back(target);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Edges, circles, reaches};

    fn edges(list: &[&str]) -> Edges {
        let pair = |pair: &str| (pair[..1].to_owned(), pair[1..].to_owned());
        list.iter().map(|&names| (pair(names), Vec::new())).collect()
    }

    fn found(list: &[&str]) -> Vec<String> {
        circles(&edges(list)).into_iter().map(|circle| circle.concat()).collect()
    }

    #[test]
    fn arrows_that_point_down_make_no_circle() {
        assert!(found(&["ab", "ac", "bd", "cd", "de"]).is_empty());
    }

    #[test]
    fn circles_are_found_shortest_first() {
        assert_eq!(found(&["ab", "bc", "ca"]), ["abc"]);
        assert_eq!(found(&["ab", "bc", "ca", "xa", "de", "ed"]), ["de", "abc"]);
        assert_eq!(found(&["ab", "ca", "ac", "cd", "de", "ec"]), ["ac", "cde"]);
    }

    #[test]
    fn circles_have_no_edge_in_common() {
        // Both go through ab; without it there is none.
        assert_eq!(found(&["ab", "bc", "ca", "bd", "de", "ea"]), ["abc"]);
    }

    #[test]
    fn chains_are_followed() {
        let edges = edges(&["ab", "bc", "de"]);
        assert!(reaches(&edges, "a", "c"));
        assert!(!reaches(&edges, "c", "a"));
        assert!(!reaches(&edges, "a", "e"));
    }
}
