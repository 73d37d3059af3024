//! A block of a launch, with its threads and its shared memory.

use super::KernelFault;
use bytemuck::AnyBitPattern;
use bytemuck::NoUninit;

/// The position of one thread of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    index: [u32; 3],
    block_index: [u32; 3],
    block_dimensions: [u32; 3],
}

impl Thread {
    /// The position of the thread in its block, in x, y and z (`threadIdx`).
    pub fn index(&self) -> [u32; 3] {
        self.index
    }

    /// The position of the block in the grid (`blockIdx`).
    pub fn block_index(&self) -> [u32; 3] {
        self.block_index
    }

    /// The index of the thread in its block. x varies fastest.
    pub fn linear(&self) -> usize {
        let [x, y, z] = self.index.map(|value| value as usize);
        let [width, height, _] = self.block_dimensions.map(|value| value as usize);
        (z * height + y) * width + x
    }

    /// `blockIdx.x * blockDim.x + threadIdx.x`.
    pub fn global_x(&self) -> usize {
        self.global(0)
    }

    /// `blockIdx.y * blockDim.y + threadIdx.y`.
    pub fn global_y(&self) -> usize {
        self.global(1)
    }

    /// `blockIdx.z * blockDim.z + threadIdx.z`.
    pub fn global_z(&self) -> usize {
        self.global(2)
    }

    fn global(&self, axis: usize) -> usize {
        self.block_index[axis] as usize * self.block_dimensions[axis] as usize + self.index[axis] as usize
    }
}

/// The shared memory of a block, aligned to 16 bytes: the static part of the kernel, then the dynamic part of the
/// launch. Its contents at the start of a block are initialised but unspecified.
#[derive(Debug)]
pub struct SharedMemory<'a> {
    bytes: &'a mut [u8],
}

impl SharedMemory<'_> {
    /// Returns all of the shared memory as elements of `T`. A remainder at the end is omitted.
    pub fn slice<T: AnyBitPattern + NoUninit>(&mut self) -> &mut [T] {
        let count = self.bytes.len() / size_of::<T>().max(1);
        self.slice_at(0, count)
    }

    /// Returns `count` elements that begin at byte `offset`. It is a fault of the kernel if they are out of range or
    /// misaligned.
    pub fn slice_at<T: AnyBitPattern + NoUninit>(&mut self, offset: usize, count: usize) -> &mut [T] {
        let total = self.bytes.len();
        let end = count.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(offset));
        let Some(bytes) = end.and_then(|end| self.bytes.get_mut(offset..end)) else {
            KernelFault::illegal_address(format!(
                "{count} elements of {} bytes from byte {offset} on are outside of the block's {total} bytes of shared memory",
                size_of::<T>()
            ))
            .raise()
        };
        if bytes.is_empty() {
            // Nothing has no alignment.
            return &mut [];
        }
        match bytemuck::try_cast_slice_mut(bytes) {
            Ok(slice) => slice,
            Err(_) => KernelFault::illegal_address(format!(
                "byte {offset} of shared memory is not aligned to {} bytes",
                align_of::<T>()
            ))
            .raise(),
        }
    }

    /// The size in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the block has no shared memory.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// One block of a launch.
#[derive(Debug)]
pub struct Block<'a> {
    index: [u32; 3],
    dimensions: [u32; 3],
    grid_dimensions: [u32; 3],
    shared: SharedMemory<'a>,
}

impl<'a> Block<'a> {
    /// Creates a block. For drivers. `shared` must be aligned to 16 bytes.
    pub fn new(index: [u32; 3], dimensions: [u32; 3], grid_dimensions: [u32; 3], shared: &'a mut [u8]) -> Self {
        Self { index, dimensions, grid_dimensions, shared: SharedMemory { bytes: shared } }
    }

    /// The position of the block in the grid (`blockIdx`).
    pub fn index(&self) -> [u32; 3] {
        self.index
    }

    /// The extents of the block in x, y and z, in threads (`blockDim`).
    pub fn dimensions(&self) -> [u32; 3] {
        self.dimensions
    }

    /// The extents of the grid in x, y and z, in blocks (`gridDim`).
    pub fn grid_dimensions(&self) -> [u32; 3] {
        self.grid_dimensions
    }

    /// The number of threads in the block.
    pub fn thread_count(&self) -> usize {
        self.dimensions.iter().fold(1, |count: usize, &extent| count.saturating_mul(extent as usize))
    }

    /// The shared memory of the block, for code that runs once per block.
    pub fn shared(&mut self) -> &mut SharedMemory<'a> {
        &mut self.shared
    }

    /// Calls `body` once for every thread of the block. x varies fastest.
    ///
    /// The end of a phase is a barrier: a phase sees everything that the threads wrote in earlier phases. To keep a
    /// value of a thread from one phase to the next, store it in a local array indexed by [`Thread::linear`].
    pub fn phase(&mut self, mut body: impl FnMut(Thread, &mut SharedMemory<'a>)) {
        let [width, height, depth] = self.dimensions;
        for z in 0..depth {
            for y in 0..height {
                for x in 0..width {
                    let thread =
                        Thread { index: [x, y, z], block_index: self.index, block_dimensions: self.dimensions };
                    body(thread, &mut self.shared);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_visit_every_thread_in_order() {
        let mut memory = [0u8; 0];
        let mut block = Block::new([1, 2, 0], [3, 2, 1], [4, 4, 1], &mut memory);
        let mut seen = Vec::new();
        block.phase(|thread, _| seen.push((thread.linear(), thread.global_x(), thread.global_y())));
        assert_eq!(seen, [(0, 3, 4), (1, 4, 4), (2, 5, 4), (3, 3, 5), (4, 4, 5), (5, 5, 5)]);
    }

    #[test]
    fn no_shared_memory_is_a_slice_of_nothing() {
        let mut memory = [0u8; 0];
        let mut block = Block::new([0; 3], [1; 3], [1; 3], &mut memory);
        assert!(block.shared().slice::<u128>().is_empty());
        assert!(block.shared().slice_at::<u64>(0, 0).is_empty());
    }

    #[test]
    fn shared_memory_outside_of_its_size_is_a_fault() {
        let fault = std::panic::catch_unwind(|| {
            let mut memory = [0u128; 4];
            let mut block = Block::new([0; 3], [1; 3], [1; 3], bytemuck::cast_slice_mut(&mut memory));
            block.shared().slice_at::<u32>(60, 2)[0] = 1;
        })
        .unwrap_err();
        assert_eq!(fault.downcast_ref::<KernelFault>().unwrap().status, crate::Status::ILLEGAL_ADDRESS);
    }
}
