//! A block of a launch, its threads and its shared memory.

use super::KernelFault;
use bytemuck::AnyBitPattern;
use bytemuck::NoUninit;

/// One thread of a launch: where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    index: [u32; 3],
    block_index: [u32; 3],
    block_dimensions: [u32; 3],
}

impl Thread {
    /// The thread's place in its block, in x, y and z (`threadIdx`).
    pub fn index(&self) -> [u32; 3] {
        self.index
    }

    /// The block's place in the grid (`blockIdx`).
    pub fn block_index(&self) -> [u32; 3] {
        self.block_index
    }

    /// The thread's number in its block, x running fastest.
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

/// The shared memory of a block, aligned to 16 bytes: the kernel's static part, then the launch's dynamic part. Its
/// contents at the start of a block are unspecified, and never uninitialised.
#[derive(Debug)]
pub struct SharedMemory<'a> {
    bytes: &'a mut [u8],
}

impl SharedMemory<'_> {
    /// All of it as elements of `T`; what is left over at the end is left out.
    pub fn slice<T: AnyBitPattern + NoUninit>(&mut self) -> &mut [T] {
        let count = self.bytes.len() / size_of::<T>().max(1);
        self.slice_at(0, count)
    }

    /// `count` elements from byte `offset` on. Out of range or misaligned is a fault of the kernel.
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
        match bytemuck::try_cast_slice_mut(bytes) {
            Ok(slice) => slice,
            Err(_) => KernelFault::illegal_address(format!(
                "byte {offset} of shared memory is not aligned to {} bytes",
                align_of::<T>()
            ))
            .raise(),
        }
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is none.
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
    /// A block as a driver makes it. `shared` is aligned to 16 bytes.
    pub fn new(index: [u32; 3], dimensions: [u32; 3], grid_dimensions: [u32; 3], shared: &'a mut [u8]) -> Self {
        Self { index, dimensions, grid_dimensions, shared: SharedMemory { bytes: shared } }
    }

    /// The block's place in the grid (`blockIdx`).
    pub fn index(&self) -> [u32; 3] {
        self.index
    }

    /// Threads of the block in x, y and z (`blockDim`).
    pub fn dimensions(&self) -> [u32; 3] {
        self.dimensions
    }

    /// Blocks of the grid in x, y and z (`gridDim`).
    pub fn grid_dimensions(&self) -> [u32; 3] {
        self.grid_dimensions
    }

    /// The number of threads of the block.
    pub fn thread_count(&self) -> usize {
        self.dimensions.iter().map(|&value| value as usize).product()
    }

    /// The block's shared memory, for work that is done once a block.
    pub fn shared(&mut self) -> &mut SharedMemory<'a> {
        &mut self.shared
    }

    /// Calls `body` once for every thread of the block, x running fastest. Its end is a barrier: what the threads of
    /// one phase write, those of the next read. A value that a thread keeps from phase to phase belongs in an array of
    /// the kernel's own, with [`Thread::linear`] as its index.
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
