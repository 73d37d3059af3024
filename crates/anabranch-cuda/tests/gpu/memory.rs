//! Memory: allocated in every way, copied, filled.

use crate::support::{DEVICE, Gpu, live};
use anabranch_hal::{
    Copy3d, CopyKind, CopyPlace, DevicePointer, FillPattern, Memory, MemoryPoolAttribute, MemoryPoolOptions,
    PinnedFlags, Status,
};

#[test]
fn what_is_uploaded_is_downloaded() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let data: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let memory = gpu.allocate(data.len());
        gpu.upload(memory, &data);
        assert_eq!(gpu.download(memory, data.len()), data);

        let other = gpu.allocate(data.len());
        for kind in [CopyKind::DeviceToDevice, CopyKind::Inferred] {
            gpu.copy_async(&gpu.context.into(), kind, other.0, memory.0, data.len(), gpu.stream).expect("a copy");
            assert_eq!(gpu.download(other, data.len()), data);
        }
        let mut back = vec![0; data.len()];
        let to = back.as_mut_ptr().expose_provenance() as u64;
        gpu.copy(&gpu.context.into(), CopyKind::DeviceToHost, to, memory.0, data.len()).expect("a copy");
        assert_eq!(back, data);
        for memory in [memory, other, DevicePointer::NULL] {
            gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
        }
    }
}

#[test]
fn zero_bytes_are_refused_by_allocation_and_not_by_copies_and_fills() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        assert_eq!(Memory::allocate(&*gpu, &gpu.context.into(), 0).unwrap_err().status, Status::INVALID_VALUE);
        let memory = gpu.allocate(64);
        gpu.copy_async(&gpu.context.into(), CopyKind::DeviceToDevice, memory.0, memory.0, 0, gpu.stream)
            .expect("nothing to copy");
        for pattern in [FillPattern::U8(1), FillPattern::U16(1), FillPattern::U32(1), FillPattern::U64(1)] {
            gpu.fill_async(&gpu.context.into(), memory, pattern, 0, gpu.stream).expect("nothing to fill");
        }
        gpu.synchronize();
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
    }
}

#[test]
fn every_pattern_fills_its_width_and_no_more() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let memory = gpu.allocate(256);
        let patterns = [
            (FillPattern::U8(0xa1), vec![0xa1]),
            (FillPattern::U16(0xa1b2), 0xa1b2_u16.to_le_bytes().to_vec()),
            (FillPattern::U32(0xa1b2_c3d4), 0xa1b2_c3d4_u32.to_le_bytes().to_vec()),
            (FillPattern::U64(0x0123_4567_89ab_cdef), 0x0123_4567_89ab_cdef_u64.to_le_bytes().to_vec()),
            (FillPattern::U64(0x5566_7788_5566_7788), 0x5566_7788_5566_7788_u64.to_le_bytes().to_vec()),
        ];
        for (pattern, unit) in patterns {
            gpu.upload(memory, &[0xee; 256]);
            let count = 13;
            gpu.fill_async(&gpu.context.into(), memory.byte_add(16), pattern, count, gpu.stream).expect("a fill");
            let filled = gpu.download(memory, 256);
            let end = 16 + count * unit.len();
            assert!(filled[16..end].chunks(unit.len()).all(|chunk| chunk == unit), "{pattern:?}: {filled:x?}");
            assert!(filled[..16].iter().chain(&filled[end..]).all(|&byte| byte == 0xee), "{pattern:?}: {filled:x?}");
        }
        let misaligned =
            gpu.fill_async(&gpu.context.into(), memory.byte_add(4), FillPattern::U64(7), 1, gpu.stream).unwrap_err();
        assert_eq!(misaligned.status, Status::INVALID_VALUE);
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
    }
}

#[test]
fn a_large_fill_of_64_bits_reaches_the_end() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let count = 5_000_003;
        let memory = gpu.allocate(count * 8);
        let value = 0x0123_4567_89ab_cdef_u64;
        gpu.fill_async(&gpu.context.into(), memory, FillPattern::U64(value), count, gpu.stream).expect("a fill");
        let filled = gpu.download(memory, count * 8);
        assert!(filled.chunks(8).all(|chunk| chunk == value.to_le_bytes()));
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
    }
}

#[test]
fn a_region_is_copied_by_rows_and_slices() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        // A volume of 8 bytes by 4 rows by 2 slices, of which 3 bytes by 2 rows by 2 slices go elsewhere.
        let data: Vec<u8> = (0..64).collect();
        let memory = gpu.allocate(64);
        gpu.upload(memory, &data);
        let mut region = vec![0_u8; 3 * 2 * 2];
        let copy = Copy3d {
            source: CopyPlace { address: memory.0, host: false, pitch: 8, height: 4, origin: [5, 1, 0] },
            destination: CopyPlace {
                address: region.as_mut_ptr().expose_provenance() as u64,
                host: true,
                pitch: 3,
                height: 2,
                origin: [0, 0, 0],
            },
            extent: [3, 2, 2],
        };
        gpu.copy_3d_async(&gpu.context.into(), &copy, gpu.stream).expect("a copy");
        gpu.synchronize();
        assert_eq!(region, [13, 14, 15, 21, 22, 23, 45, 46, 47, 53, 54, 55]);
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
    }
}

#[test]
fn memory_comes_and_goes_in_stream_order() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let pool = {
            let options = MemoryPoolOptions { max_bytes: 64 << 20, interprocess: false };
            live(gpu.memory_pool_create(DEVICE, &options).expect("a pool"))
        };
        for pool in [None, Some(pool)] {
            let memory = gpu.allocate_async(&gpu.context.into(), 4096, pool, gpu.stream).expect("memory of a pool");
            gpu.fill_async(&gpu.context.into(), memory, FillPattern::U8(7), 4096, gpu.stream).expect("a fill");
            assert!(gpu.download(memory, 4096).iter().all(|&byte| byte == 7));
            if let Some(pool) = pool {
                let used = gpu.memory_pool_attribute(pool, MemoryPoolAttribute::UsedCurrent);
                assert!(used.expect("a number") >= 4096);
            }
            gpu.free_async(&gpu.context.into(), memory, gpu.stream).expect("the memory is free to go");
        }
        gpu.synchronize();
        let threshold = MemoryPoolAttribute::ReleaseThreshold;
        gpu.memory_pool_set_attribute(pool, threshold, 1 << 20).expect("it can be set");
        assert_eq!(gpu.memory_pool_attribute(pool, threshold), Ok(1 << 20));
        let fixed = gpu.memory_pool_set_attribute(pool, MemoryPoolAttribute::ReservedCurrent, 0).unwrap_err();
        assert_eq!(fixed.status, Status::INVALID_VALUE);
        gpu.memory_pool_set_attribute(pool, MemoryPoolAttribute::UsedHigh, 0).expect("it can start anew");
        gpu.memory_pool_trim(pool, 0).expect("nothing is in use");
        assert_eq!(gpu.memory_pool_attribute(pool, MemoryPoolAttribute::ReservedCurrent), Ok(0));
        gpu.memory_pool_destroy(pool.handle()).expect("it is ours");
        let own = live(gpu.default_memory_pool(DEVICE).expect("the device has pools"));
        assert_eq!(gpu.memory_pool_destroy(own.handle()).unwrap_err().status, Status::INVALID_VALUE);
    }
}

#[test]
fn pinned_and_managed_memory_is_the_hosts_too() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let info = gpu.memory_info(&gpu.context.into()).expect("the device has memory");
        assert!(info.free <= info.total && info.total > 0);
        let pinned = gpu.allocate_pinned(&gpu.context.into(), 4096, PinnedFlags::PORTABLE).expect("pinned memory");
        let memory = gpu.allocate_managed(&gpu.context.into(), 4096).expect("managed memory");
        gpu.prefetch_async(&gpu.context.into(), memory, 4096, Some(DEVICE), gpu.stream).expect("a prefetch");
        gpu.fill_async(&gpu.context.into(), memory, FillPattern::U32(7), 1024, gpu.stream).expect("a fill");
        gpu.prefetch_async(&gpu.context.into(), memory, 4096, None, gpu.stream).expect("a prefetch");
        let to = pinned.expose_provenance() as u64;
        gpu.copy_async(&gpu.context.into(), CopyKind::Inferred, to, memory.0, 4096, gpu.stream).expect("a copy");
        gpu.synchronize();
        assert!(std::slice::from_raw_parts(pinned.cast::<u32>(), 1024).iter().all(|&value| value == 7));
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
        gpu.free_pinned(&gpu.context.into(), pinned).expect("the memory is free to go");
    }
}
