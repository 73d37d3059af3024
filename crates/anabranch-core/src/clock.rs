//! What a timeline has followed: a bounded vector clock.
//!
//! A clock stores up to `SLOTS` other timelines, each with the greatest value that was followed. The key of a timeline
//! determines its slot. When two timelines have the same slot, the one that was followed earlier is forgotten. A
//! [`Followed`], which events carry, contains the `MOST_CARRIED` timelines that were followed last. All operations
//! therefore take constant time and memory, however many streams there are. A timeline that was forgotten is only
//! ordered again.

use smallvec::SmallVec;

/// How many timelines a clock knows.
const SLOTS: usize = 64;

/// The number of timelines that a point on a timeline carries to those who wait for it.
const MOST_CARRIED: usize = 16;

/// What a timeline has followed.
#[derive(Default)]
pub struct Clock {
    table: Option<Box<Table>>,
}

struct Table {
    /// The key of the timeline in each slot, or 0, with its value.
    slots: [(u64, u64); SLOTS],
    recent: Recent,
}

/// The slots that were followed last, most recent first.
struct Recent {
    slots: [u8; MOST_CARRIED],
    len: usize,
}

impl Recent {
    fn new() -> Self {
        Self { slots: [0; MOST_CARRIED], len: 0 }
    }

    fn as_slice(&self) -> &[u8] {
        &self.slots[..self.len]
    }

    /// Adds a slot, unless there are as many as are carried.
    #[inline]
    fn push(&mut self, slot: usize) {
        if let Some(place) = self.slots.get_mut(self.len) {
            *place = slot as u8;
            self.len += 1;
        }
    }
}

/// What a timeline had followed before a point: timelines by key, with values.
#[derive(Clone, Default)]
pub struct Followed {
    entries: SmallVec<[(u64, u64); 4]>,
}

impl Followed {
    /// Forgets everything, and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The value up to which a timeline is followed, or 0.
    pub fn get(&self, key: u64) -> u64 {
        self.entries.iter().find(|(other, _)| *other == key).map_or(0, |&(_, value)| value)
    }
}

fn slot(key: u64) -> usize {
    key as usize % SLOTS
}

impl Table {
    fn new() -> Box<Self> {
        Box::new(Self { slots: [(0, 0); SLOTS], recent: Recent::new() })
    }

    #[inline]
    fn follow(&mut self, key: u64, value: u64) {
        let slot = &mut self.slots[slot(key)];
        *slot = (key, if slot.0 == key { slot.1.max(value) } else { value });
    }
}

impl Clock {
    /// The value up to which a timeline is followed, or 0. Values begin at 1.
    #[inline]
    pub fn get(&self, key: u64) -> u64 {
        match &self.table {
            Some(table) if table.slots[slot(key)].0 == key => table.slots[slot(key)].1,
            _ => 0,
        }
    }

    /// Notes that a timeline is followed up to a value, together with what it had followed before. `own`: the key of
    /// the timeline of this clock.
    pub fn follow(&mut self, own: u64, key: u64, value: u64, followed: &Followed) {
        let table = self.table.get_or_insert_with(Table::new);
        let mut recent = Recent::new();
        let mut taken = 1u64 << slot(key);
        table.follow(key, value);
        recent.push(slot(key));
        for &(key, value) in followed.entries.iter().filter(|(key, _)| *key != own) {
            let bit = 1 << slot(key);
            // Of two timelines in one slot, the one that comes first was followed later.
            if taken & bit == 0 {
                taken |= bit;
                table.follow(key, value);
                recent.push(slot(key));
            }
        }
        let before = table.recent.as_slice().iter().map(|&slot| usize::from(slot));
        before.filter(|slot| taken & (1 << slot) == 0).for_each(|slot| recent.push(slot));
        table.recent = recent;
    }

    /// Writes what a point that follows all this carries.
    pub fn copy_to(&self, followed: &mut Followed) {
        followed.entries.clear();
        if let Some(table) = &self.table {
            let entry = |&slot: &u8| table.slots[usize::from(slot) % SLOTS];
            followed.entries.extend(table.recent.as_slice().iter().map(entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Followed, MOST_CARRIED, SLOTS};

    fn carried(clock: &Clock) -> Followed {
        let mut followed = Followed::default();
        clock.copy_to(&mut followed);
        followed
    }

    #[test]
    fn following_a_point_follows_what_it_has_followed() {
        let (mut first, mut second) = (Clock::default(), Clock::default());
        first.follow(1, 7, 3, &Followed::default());
        first.follow(1, 9, 4, &Followed::default());
        second.follow(2, 7, 5, &Followed::default());
        second.follow(2, 1, 6, &carried(&first));
        assert_eq!([1, 7, 9, 2, 8].map(|key| second.get(key)), [6, 5, 4, 0, 0]);
        first.follow(1, 2, 1, &carried(&second));
        assert_eq!(first.get(1), 0, "nothing follows itself");
        assert_eq!([2, 7, 9].map(|key| carried(&first).get(key)), [1, 5, 4]);
    }

    #[test]
    fn the_timelines_that_were_followed_last_are_carried() {
        let mut clock = Clock::default();
        for key in 1..=SLOTS as u64 {
            clock.follow(1000, key, key, &Followed::default());
        }
        assert!((1..=SLOTS as u64).all(|key| clock.get(key) == key));
        clock.follow(1000, 1, 100, &Followed::default());
        let carried = carried(&clock);
        assert_eq!(carried.entries.len(), MOST_CARRIED);
        assert_eq!((carried.get(1), carried.get(SLOTS as u64), carried.get(2)), (100, SLOTS as u64, 0));
    }

    #[test]
    fn a_timeline_takes_the_slot_of_another_and_forgets_it() {
        let (mut clock, shared) = (Clock::default(), SLOTS as u64 + 3);
        clock.follow(1000, 3, 8, &Followed::default());
        clock.follow(1000, shared, 2, &Followed::default());
        assert_eq!((clock.get(3), clock.get(shared)), (0, 2));
        assert_eq!(carried(&clock).entries.len(), 1);
        // The one that is followed directly stays, although the other is carried along.
        let mut other = Clock::default();
        other.follow(2000, 3, 9, &Followed::default());
        clock.follow(1000, shared, 4, &carried(&other));
        assert_eq!((clock.get(3), clock.get(shared)), (0, 4));
    }
}
