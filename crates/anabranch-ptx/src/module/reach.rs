//! What functions reach by calls and by taking addresses, in time that grows with the number of calls.

/// Groups of functions of which each reaches all others of its group.
pub(super) struct Groups {
    /// The group of each function. A group reaches only itself and groups before it.
    of: Vec<usize>,
    /// The functions of each group.
    members: Vec<Vec<u32>>,
}

/// A function whose callees are being visited.
struct Visit {
    function: u32,
    /// How many of its callees have been visited.
    callees: usize,
}

impl Groups {
    /// Follows the lists of functions that each function names, as Tarjan's algorithm does, without recursion.
    pub(super) fn new(named: &[Vec<u32>]) -> Groups {
        let count = named.len();
        let mut groups = Groups { of: vec![usize::MAX; count], members: Vec::new() };
        // When each function was met first, from 1, and the earliest of those that it reaches and that have no group yet.
        let (mut met, mut earliest, mut clock) = (vec![0usize; count], vec![0usize; count], 0);
        let (mut open, mut path) = (Vec::new(), Vec::new());
        for first in 0..count as u32 {
            if met[first as usize] == 0 {
                path.push(Visit { function: first, callees: 0 });
            }
            while let Some(visit) = path.last_mut() {
                let function = visit.function as usize;
                if visit.callees == 0 && met[function] == 0 {
                    clock += 1;
                    (met[function], earliest[function]) = (clock, clock);
                    open.push(visit.function);
                }
                if let Some(&callee) = named[function].get(visit.callees) {
                    visit.callees += 1;
                    let callee_number = callee as usize;
                    if met[callee_number] == 0 {
                        path.push(Visit { function: callee, callees: 0 });
                    } else if groups.of[callee_number] == usize::MAX {
                        earliest[function] = earliest[function].min(met[callee_number]);
                    }
                    continue;
                }
                path.pop();
                if let Some(caller) = path.last() {
                    let caller = caller.function as usize;
                    earliest[caller] = earliest[caller].min(earliest[function]);
                }
                if earliest[function] == met[function] {
                    groups.close(&mut open, function as u32);
                }
            }
        }
        groups
    }

    /// Makes a group of the functions that were met since `first`, and of `first`.
    fn close(&mut self, open: &mut Vec<u32>, first: u32) {
        let begin = open.iter().rposition(|&function| function == first).unwrap_or(0);
        let members = open.split_off(begin);
        for &member in &members {
            self.of[member as usize] = self.members.len();
        }
        self.members.push(members);
    }

    /// Combines what each function has with what all functions have that it reaches. The results are those of groups.
    pub(super) fn combine<T: Default>(
        &self,
        named: &[Vec<u32>],
        own: impl Fn(u32) -> T,
        add: impl Fn(&mut T, &T),
    ) -> Combined<'_, T> {
        let mut results: Vec<T> = Vec::with_capacity(self.members.len());
        for (number, members) in self.members.iter().enumerate() {
            let mut result = T::default();
            for &member in members {
                add(&mut result, &own(member));
                let others = named[member as usize].iter().map(|&callee| self.of[callee as usize]);
                others.filter(|&group| group != number).for_each(|group| add(&mut result, &results[group]));
            }
            results.push(result);
        }
        Combined { groups: self, results }
    }
}

/// A result for each group.
pub(super) struct Combined<'g, T> {
    groups: &'g Groups,
    results: Vec<T>,
}

impl<T> Combined<'_, T> {
    /// That of a function's group.
    pub(super) fn of(&self, function: u32) -> &T {
        &self.results[self.groups.of[function as usize]]
    }
}

#[cfg(test)]
mod tests {
    use super::Groups;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn reached(named: &[Vec<u32>], function: u32) -> BTreeSet<u32> {
        let (mut found, mut left) = (BTreeSet::from([function]), vec![function]);
        while let Some(next) = left.pop() {
            left.extend(named[next as usize].iter().filter(|&&callee| found.insert(callee)));
        }
        found
    }

    proptest! {
        #[test]
        fn all_that_is_reached_is_combined_and_nothing_else(
            named in (1u32..12).prop_flat_map(|count| vec(vec(0..count, 0..4), count as usize)),
        ) {
            let groups = Groups::new(&named);
            let all = groups.combine(&named, |function| BTreeSet::from([function]), |all, more| all.extend(more));
            for function in 0..named.len() as u32 {
                prop_assert_eq!(all.of(function), &reached(&named, function));
            }
        }
    }

    #[test]
    fn long_chains_take_no_stack() {
        let count = 200_000;
        let named: Vec<Vec<u32>> =
            (0..count).map(|function| (function + 1..count.min(function + 2)).collect()).collect();
        let groups = Groups::new(&named);
        let last = groups.combine(&named, |function| function, |all, more| *all = (*all).max(*more));
        assert_eq!(*last.of(0), count - 1);
    }
}
