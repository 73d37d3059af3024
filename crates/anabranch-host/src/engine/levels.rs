//! Tasks that are ready, by priority.

use std::collections::VecDeque;

/// The number of distinct priorities, from -5 to 0.
pub(crate) const LEVELS: usize = 6;

/// A queue that was passed over so often comes first once.
pub(super) const PASSES: u32 = 16;

/// Tasks of one level.
#[derive(Debug)]
struct Queue<T> {
    tasks: VecDeque<T>,
    /// How often a task of another queue was taken since one of this.
    passes: u32,
}

/// A queue of tasks for each level, of which 0 is the most urgent.
#[derive(Debug)]
pub(super) struct Levels<T>([Queue<T>; LEVELS]);

impl<T> Default for Levels<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Queue { tasks: VecDeque::new(), passes: 0 }))
    }
}

impl<T> Levels<T> {
    pub(super) fn push(&mut self, level: usize, task: T) {
        self.0[level].tasks.push_back(task);
    }

    /// Takes the next task out, with its level: of the most urgent queue, except that no queue is passed over for ever.
    pub(super) fn pop(&mut self) -> Option<(usize, T)> {
        let waiting = |queue: &Queue<T>| !queue.tasks.is_empty();
        let overdue = self.0.iter().rposition(|queue| waiting(queue) && queue.passes >= PASSES);
        let taken = overdue.or_else(|| self.0.iter().position(waiting))?;
        for (level, queue) in self.0.iter_mut().enumerate() {
            queue.passes = if level == taken || queue.tasks.is_empty() { 0 } else { queue.passes + 1 };
        }
        Some((taken, self.0[taken].tasks.pop_front()?))
    }

    /// How many tasks there are.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|queue| queue.tasks.len()).sum()
    }

    /// Takes out the task of a number below [`len`](Self::len).
    pub(super) fn remove(&mut self, mut index: usize) -> Option<T> {
        for Queue { tasks, .. } in &mut self.0 {
            if index < tasks.len() {
                return tasks.remove(index);
            }
            index -= tasks.len();
        }
        None
    }

    /// One bit for each queue that is not empty.
    pub(super) fn occupied(&self) -> u32 {
        let bits = self.0.iter().enumerate().map(|(level, queue)| u32::from(!queue.tasks.is_empty()) << level);
        bits.fold(0, |all, bit| all | bit)
    }

    /// Takes all tasks out.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.0.iter_mut().flat_map(|queue| std::mem::take(&mut queue.tasks)).collect()
    }
}

/// Whether a bit of `occupied` says that something more urgent than `level` waits.
pub(super) fn has_more_urgent(occupied: u32, level: usize) -> bool {
    occupied & ((1 << level) - 1) != 0
}
