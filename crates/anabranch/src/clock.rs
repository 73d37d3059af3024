//! How far streams have followed each other.

use smallvec::SmallVec;

/// How far a stream has followed others: the number of the last thing of each that it comes after.
#[derive(Clone, Default)]
pub(crate) struct Clock {
    /// By stream, in order. Few streams follow each other in most programs, and a clock is copied often.
    numbers: SmallVec<[(u64, u64); 4]>,
}

impl Clock {
    /// Numbers begin at 1; 0 for a stream that was not followed.
    pub(crate) fn get(&self, stream: u64) -> u64 {
        let place = self.numbers.binary_search_by_key(&stream, |&(other, _)| other);
        place.ok().and_then(|place| self.numbers.get(place)).map_or(0, |&(_, number)| number)
    }

    pub(crate) fn advance(&mut self, stream: u64, number: u64) {
        match self.numbers.binary_search_by_key(&stream, |&(other, _)| other) {
            Ok(place) => {
                if let Some((_, own)) = self.numbers.get_mut(place) {
                    *own = (*own).max(number);
                }
            }
            Err(place) => self.numbers.insert(place, (stream, number)),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for &(stream, number) in &other.numbers {
            self.advance(stream, number);
        }
    }

    /// How many streams it knows.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
    }

    /// Becomes equal to another, in the room that it has.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.numbers.clear();
        self.numbers.extend_from_slice(&other.numbers);
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn what_is_merged_is_the_later_of_both() {
        let (mut own, mut other) = (Clock::default(), Clock::default());
        own.advance(7, 3);
        own.advance(2, 9);
        other.advance(7, 5);
        other.advance(2, 1);
        other.advance(4, 4);
        own.merge(&other);
        assert_eq!([2, 4, 7, 8].map(|stream| own.get(stream)), [9, 4, 5, 0]);
        other.copy_from(&own);
        assert_eq!((other.len(), other.get(2)), (3, 9));
        other.clear();
        assert_eq!((other.len(), other.get(2)), (0, 0));
    }
}
