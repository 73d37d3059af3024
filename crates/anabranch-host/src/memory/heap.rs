//! The heap of a context, from which kernels allocate with `malloc`.
//!
//! It is one piece of memory, made when a kernel asks for some of it, and stays until the context and all kernels that use it
//! are no more. So kernels may go on to use an address that another thread frees meanwhile, with no harm to the process.

use super::block::Block;
use super::{Account, fill_racing};
use crate::limits::MALLOC_HEAP_BYTES;
use crate::ranks;
use anabranch_hal::FillPattern;
use anabranch_sync::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Addresses that `malloc` returns are multiples of this.
const ALIGNMENT: u64 = 16;

/// Bytes behind an allocation, where memory is checked.
const GAP: u64 = 16;

/// What memory is filled with when it is allocated and freed, where it is checked.
const FRESH_PATTERN: FillPattern = FillPattern::U8(0xCD);
const FREED_PATTERN: FillPattern = FillPattern::U8(0xDD);

#[derive(Debug, Default)]
struct State {
    /// Memory that is not allocated: by address, and by size.
    by_address: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    /// By their addresses, how many bytes were asked for, and how many they take.
    live: BTreeMap<u64, (u64, u64)>,
    /// What was freed, where memory is checked: it is not allocated again as long as there is other memory.
    freed: BTreeMap<u64, (u64, u64)>,
    oldest: VecDeque<u64>,
}

impl State {
    /// Takes memory in that is not allocated any more, together with what is beside it.
    fn give_back(&mut self, mut address: u64, mut bytes: u64) {
        if let Some((&before, &size)) = self.by_address.range(..address).next_back()
            && before + size == address
        {
            self.remove(before, size);
            (address, bytes) = (before, bytes + size);
        }
        if let Some(&size) = self.by_address.get(&(address + bytes)) {
            self.remove(address + bytes, size);
            bytes += size;
        }
        self.by_address.insert(address, bytes);
        self.by_size.insert((bytes, address));
    }

    fn remove(&mut self, address: u64, bytes: u64) {
        self.by_address.remove(&address);
        self.by_size.remove(&(bytes, address));
    }

    /// The smallest part that is large enough.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let (size, address) = self.by_size.range((bytes, 0)..).next().copied()?;
        self.remove(address, size);
        if size > bytes {
            self.by_address.insert(address + bytes, size - bytes);
            self.by_size.insert((size - bytes, address + bytes));
        }
        Some(address)
    }
}

/// The heap of a context.
#[derive(Debug)]
pub(crate) struct DeviceHeap {
    account: Arc<Account>,
    /// Whether memory is checked.
    checked: bool,
    /// All of it, once a kernel has asked for some.
    block: OnceLock<Block>,
    state: Mutex<State>,
}

impl DeviceHeap {
    pub(crate) fn new(account: &Arc<Account>, checked: bool) -> Self {
        let state = Mutex::new(ranks::HEAP, State::default());
        Self { account: Arc::clone(account), checked, block: OnceLock::new(), state }
    }

    /// Where it is, if it has been made.
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        let block = self.block.get()?;
        Some(block.address()..block.address() + block.bytes() as u64)
    }

    /// Allocates memory. `None`: there is not as much left.
    pub(crate) fn allocate(&self, bytes: u64) -> Option<u64> {
        if bytes > MALLOC_HEAP_BYTES as u64 {
            return None;
        }
        let gap = if self.checked { GAP } else { 0 };
        let taken = bytes.max(1).next_multiple_of(ALIGNMENT) + gap;
        let mut state = self.state.lock();
        if self.block.get().is_none() {
            let block = Block::allocate(&self.account, MALLOC_HEAP_BYTES).ok()?;
            state.give_back(block.address(), block.bytes() as u64);
            // The lock is held, so that nobody else has made it.
            let _ = self.block.set(block);
        }
        let address = loop {
            if let Some(address) = state.take(taken) {
                break address;
            }
            let oldest = state.oldest.pop_front()?;
            if let Some((_, taken)) = state.freed.remove(&oldest) {
                state.give_back(oldest, taken);
            }
        };
        state.live.insert(address, (bytes, taken));
        drop(state);
        if self.checked {
            // SAFETY: the bytes are in the heap, which kernels access atomically, and nobody else has them.
            unsafe { fill_racing(address, FRESH_PATTERN, bytes as usize) };
        }
        Some(address)
    }

    /// Frees memory. The error says what is wrong with it.
    pub(crate) fn free(&self, address: u64) -> Result<(), String> {
        let mut state = self.state.lock();
        let Some((bytes, taken)) = state.live.remove(&address) else {
            let freed = state.freed.contains_key(&address);
            let what = if freed { "has been freed already" } else { "is no address that malloc has returned" };
            return Err(format!("free of {address:#x}, which {what}"));
        };
        if !self.checked {
            state.give_back(address, taken);
            return Ok(());
        }
        // SAFETY: as in `allocate`; kernels that still use it have a race.
        unsafe { fill_racing(address, FREED_PATTERN, bytes as usize) };
        state.freed.insert(address, (bytes, taken));
        state.oldest.push_back(address);
        Ok(())
    }

    /// Checks an access of memory of the heap. The error says what is wrong with it.
    pub(crate) fn check(&self, address: u64, bytes: u64) -> Result<(), String> {
        if self.range().is_none_or(|range| !range.contains(&address)) {
            return Ok(());
        }
        let state = self.state.lock();
        let last = |map: &BTreeMap<u64, (u64, u64)>| {
            let (&start, &(size, taken)) = map.range(..=address).next_back()?;
            (address < start + taken).then_some((start, size))
        };
        if let Some((start, size)) = last(&state.live) {
            return match address + bytes <= start + size {
                true => Ok(()),
                false => Err(format!("beyond the {size} bytes that malloc has returned at {start:#x}")),
            };
        }
        Err(match last(&state.freed) {
            Some((start, _)) => format!("in memory that malloc has returned at {start:#x} and that has been freed"),
            None => "in memory of the heap that malloc has not returned".to_owned(),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{DeviceHeap, MALLOC_HEAP_BYTES};
    use crate::memory::Account;
    use std::sync::Arc;

    fn heap(checked: bool) -> DeviceHeap {
        DeviceHeap::new(&Arc::new(Account::new(1 << 30, None)), checked)
    }

    #[test]
    fn what_is_freed_can_be_allocated_as_a_whole_again() {
        for checked in [false, true] {
            let heap = heap(checked);
            let mut random = 1u64;
            for _ in 0..3 {
                let mut all = Vec::new();
                loop {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let bytes = (random >> 40) % 100_000;
                    let Some(address) = heap.allocate(bytes) else { break };
                    assert!(address.is_multiple_of(16));
                    assert!(all.iter().all(|&(other, size)| address + bytes <= other || other + size <= address));
                    all.push((address, bytes.max(1)));
                }
                assert!(all.iter().map(|&(_, bytes)| bytes).sum::<u64>() > MALLOC_HEAP_BYTES as u64 * 3 / 4);
                while let Some((address, _)) = (!all.is_empty()).then(|| all.swap_remove(random as usize % all.len())) {
                    heap.free(address).expect("it is allocated");
                }
            }
            let gap = if checked { super::GAP } else { 0 };
            assert!(heap.allocate(MALLOC_HEAP_BYTES as u64 - gap).is_some());
            assert!(heap.allocate(1).is_none());
        }
    }

    #[test]
    fn accesses_are_of_memory_that_is_allocated() {
        let heap = heap(true);
        assert_eq!(heap.check(0x1000, 4), Ok(()));
        let address = heap.allocate(20).expect("there is memory");
        assert_eq!(heap.check(address + 16, 4), Ok(()));
        for (wrong, says) in
            [(address + 18, "beyond the 20 bytes"), (address + 24, "beyond"), (address + 4096, "not returned")]
        {
            assert!(heap.check(wrong, 4).is_err_and(|text| text.contains(says)));
        }
        assert!(heap.free(address + 8).is_err_and(|text| text.contains("no address that malloc")));
        heap.free(address).expect("it is allocated");
        assert!(heap.check(address, 4).is_err_and(|text| text.contains("has been freed")));
        assert!(heap.free(address).is_err_and(|text| text.contains("freed already")));
        assert!(heap.allocate(u64::MAX).is_none());
    }
}
