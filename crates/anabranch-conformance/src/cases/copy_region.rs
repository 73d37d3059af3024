//! Copies of rows and slices.

use super::memory_raw::{Raw, address, numbers};
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::hal::{Copy3d, CopyPlace};
use anabranch::{Capabilities, DevicePointer, Region, Status, Volume, VolumeMut};

pub(super) const CASES: &[Case] = &[
    Case::new("copy_region.of_two_dimensions", "S1", of_two_dimensions),
    Case::new("copy_region.of_three_dimensions", "S1", of_three_dimensions),
    Case::new("copy_region.from_and_to_the_host", "M2", from_and_to_the_host),
    Case::new("copy_region.pinned", "M1", pinned),
    Case::new("copy_region.returns_at_once", "M1", returns_at_once),
    Case::new("copy_region.waits_for_the_writer", "M3", waits_for_the_writer),
    Case::new("copy_region.of_nothing", "X2", of_nothing),
    Case::new("copy_region.outside_of_a_volume", "X2", outside_of_a_volume),
    Case::new("copy_region.extents_of_the_driver", "X2", extents_of_the_driver),
    Case::new("copy_region.limits_of_the_driver", "X2", limits_of_the_driver),
    Case::new("copy_region.pitches_and_heights_of_the_driver", "X2", pitches_and_heights_of_the_driver),
    Case::new("copy_region.pitches_and_heights_in_pools", "M1", pitches_and_heights_in_pools)
        .needs(&[Need::Capability(Capabilities::MEMORY_POOLS)]),
    Case::new("copy_region.close_together", "S1", close_together),
    Case::new("copy_region.close_together_from_an_origin", "S1", close_together_from_an_origin),
];

/// A volume's extents: row length, rows and slices.
type Extents = [usize; 3];

/// The extents of the source and the destination, and the region.
const SHAPES: [(Extents, Extents, Region); 5] = [
    ([64, 8, 1], [64, 8, 1], Region { source_origin: [0; 3], destination_origin: [0; 3], extent: [64, 8, 1] }),
    ([61, 9, 1], [17, 5, 1], Region { source_origin: [40, 3, 0], destination_origin: [2, 1, 0], extent: [13, 4, 1] }),
    ([7, 5, 4], [9, 6, 3], Region { source_origin: [1, 2, 1], destination_origin: [3, 0, 0], extent: [5, 3, 3] }),
    ([1, 100, 3], [100, 1, 3], Region { source_origin: [0, 7, 1], destination_origin: [50, 0, 2], extent: [1, 1, 1] }),
    ([33, 3, 5], [33, 3, 5], Region { source_origin: [0, 1, 0], destination_origin: [0, 1, 0], extent: [33, 1, 5] }),
];

fn size(extents: Extents) -> usize {
    extents.iter().product()
}

/// Computes the contents of the destination after the copy.
fn expected(to: &[u16], to_extents: Extents, from: &[u16], from_extents: Extents, region: &Region) -> Vec<u16> {
    let mut to = to.to_vec();
    let index = |extents: Extents, [x, y, z]: Extents| (z * extents[1] + y) * extents[0] + x;
    let [width, rows, slices] = region.extent;
    for z in 0..slices {
        for y in 0..rows {
            for x in 0..width {
                let at = |origin: Extents| [origin[0] + x, origin[1] + y, origin[2] + z];
                to[index(to_extents, at(region.destination_origin))] =
                    from[index(from_extents, at(region.source_origin))];
            }
        }
    }
    to
}

fn elements(count: usize, first: u16) -> Vec<u16> {
    (0..count).map(|index| first.wrapping_add(index as u16 * 3)).collect()
}

fn check_device(environment: &Environment, shapes: &[(Extents, Extents, Region)]) -> Verdict {
    let stream = environment.stream()?;
    for (source, destination, region) in shapes {
        let (from, to) = (elements(size(*source), 1), elements(size(*destination), 30_000));
        let (from_device, mut to_device) = (stream.upload(&from)?, stream.upload(&to)?);
        let target = VolumeMut::new(&mut to_device, destination[0], destination[1]);
        stream.copy_region(target, Volume::new(&from_device, source[0], source[1]), region)?;
        let expected = expected(&to, *destination, &from, *source, region);
        equal(&format!("{region:?}"), stream.download(&to_device)?, expected)?;
    }
    Ok(())
}

fn of_two_dimensions(environment: &Environment) -> Verdict {
    check_device(environment, &SHAPES[..2])
}

fn of_three_dimensions(environment: &Environment) -> Verdict {
    check_device(environment, &SHAPES[2..])
}

fn from_and_to_the_host(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    for (source, destination, region) in &SHAPES {
        let (from, to) = (elements(size(*source), 1), elements(size(*destination), 30_000));
        let expected = expected(&to, *destination, &from, *source, region);
        let mut to_device = stream.upload(&to)?;
        let target = VolumeMut::new(&mut to_device, destination[0], destination[1]);
        stream.copy_region_from_host(target, &from, source[0], source[1], region)?;
        equal(&format!("from the host: {region:?}"), stream.download(&to_device)?, expected.clone())?;
        let (from_device, mut back) = (stream.upload(&from)?, to);
        let volume = Volume::new(&from_device, source[0], source[1]);
        stream.copy_region_to_host(&mut back, destination[0], destination[1], volume, region)?;
        equal(&format!("to the host: {region:?}"), back, expected)?;
    }
    Ok(())
}

fn pinned(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    for (source, destination, region) in &SHAPES {
        let (from, to) = (elements(size(*source), 1), elements(size(*destination), 30_000));
        let expected = expected(&to, *destination, &from, *source, region);
        let (mut from_pinned, mut to_pinned) =
            (context.allocate_pinned::<u16>(from.len())?, context.allocate_pinned::<u16>(to.len())?);
        from_pinned.as_mut_slice()?.copy_from_slice(&from);
        to_pinned.as_mut_slice()?.copy_from_slice(&to);
        let mut to_device = stream.upload(&to)?;
        let target = VolumeMut::new(&mut to_device, destination[0], destination[1]);
        stream.copy_region(target, Volume::new(&from_pinned, source[0], source[1]), region)?;
        equal(&format!("from pinned memory: {region:?}"), stream.download(&to_device)?, expected.clone())?;
        let from_device = stream.upload(&from)?;
        let target = VolumeMut::new(&mut to_pinned, destination[0], destination[1]);
        stream.copy_region(target, Volume::new(&from_device, source[0], source[1]), region)?;
        equal(&format!("to pinned memory: {region:?}"), to_pinned.as_slice()?.to_vec(), expected)?;
    }
    Ok(stream.synchronize()?)
}

fn returns_at_once(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let source = stream.upload(&numbers(10_000))?;
    let mut destination = environment.context().allocate_pinned::<u8>(100)?;
    let gate = Gate::shut(environment, &stream)?;
    let region = Region { source_origin: [50, 0, 0], extent: [1, 100, 1], ..Region::default() };
    stream.copy_region(VolumeMut::new(&mut destination, 1, 100), Volume::new(&source, 100, 100), &region)?;
    equal("complete while blocked", stream.query()?, false)?;
    gate.open();
    let column: Vec<u8> = numbers(10_000).into_iter().skip(50).step_by(100).collect();
    equal("column", destination.as_slice()?.to_vec(), column)?;
    Ok(stream.synchronize()?)
}

fn waits_for_the_writer(environment: &Environment) -> Verdict {
    let (writer, reader) = (environment.stream()?, environment.stream()?);
    let mut source = writer.upload(&[0u8; 64])?;
    let mut destination = environment.context().allocate_pinned::<u8>(8)?;
    let gate = Gate::shut(environment, &writer)?;
    writer.fill(&mut source, 3)?;
    let region = Region { extent: [4, 2, 1], ..Region::default() };
    reader.copy_region(VolumeMut::new(&mut destination, 4, 2), Volume::new(&source, 8, 8), &region)?;
    equal("read before the write", reader.query()?, false)?;
    gate.open();
    equal("contents", destination.as_slice()?.to_vec(), vec![3; 8])?;
    writer.synchronize()?;
    Ok(reader.synchronize()?)
}

fn of_nothing(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (source, mut destination) = (stream.upload(&[1u8; 8])?, stream.allocate_zeroed::<u8>(8)?);
    for extent in [[0, 2, 2], [2, 0, 2], [2, 2, 0], [0, 0, 0]] {
        let region = Region { extent, ..Region::default() };
        stream.copy_region(VolumeMut::new(&mut destination, 2, 2), Volume::new(&source, 2, 2), &region)?;
    }
    equal("contents", stream.download(&destination)?, vec![0; 8])
}

fn outside_of_a_volume(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (source, mut destination) = (stream.upload(&[1u8; 24])?, stream.allocate_zeroed::<u8>(24)?);
    let regions = [
        ("a row too long", [0, 0, 0], [5, 1, 1]),
        ("a row beyond the end", [1, 0, 0], [4, 1, 1]),
        ("too many rows", [0, 0, 0], [1, 4, 1]),
        ("rows beyond the end", [0, 2, 0], [1, 2, 1]),
        ("too many slices", [0, 0, 0], [1, 1, 3]),
        ("slices beyond the end", [0, 0, 1], [4, 3, 2]),
        ("an origin without bounds", [usize::MAX, 0, 0], [2, 1, 1]),
        ("slices without bounds", [0, 0, usize::MAX], [1, 1, 2]),
    ];
    for (what, origin, extent) in regions {
        let from = Region { source_origin: origin, extent, ..Region::default() };
        let to = Region { destination_origin: origin, extent, ..Region::default() };
        for region in [from, to] {
            let target = VolumeMut::new(&mut destination, 4, 3);
            let result = stream.copy_region(target, Volume::new(&source, 4, 3), &region);
            refused(what, result, Status::INVALID_VALUE)?;
        }
    }
    holds("nothing was copied", stream.download(&destination)? == [0; 24])
}

const PITCH: usize = 256;
const ROWS: usize = 16;
/// The driver allocates multiples of 2 MiB, so no other allocation begins directly after this one.
const BYTES: usize = 2 << 20;

fn volume(memory: DevicePointer, pitch: usize, height: usize) -> CopyPlace {
    CopyPlace { address: memory.0, host: false, pitch, height, origin: [0; 3] }
}

/// Makes copies between two allocations of 2 MiB, and compares the statuses that the driver returns.
fn ask(
    environment: &Environment,
    questions: impl Fn(DevicePointer, DevicePointer) -> Vec<(&'static str, Copy3d, Status)>,
) -> Verdict {
    let raw = Raw::new(environment)?;
    let (from, to) = (address("allocating", raw.allocate(BYTES))?, address("allocating", raw.allocate(BYTES))?);
    let questions = questions(from, to);
    // SAFETY: what is not within the memory is refused.
    let found: Vec<Status> = questions.iter().map(|(_, copy, _)| unsafe { raw.copy_region(copy) }).collect();
    raw.synchronize()?;
    // SAFETY: nothing uses the memory any more.
    let freed = unsafe { [raw.free(from), raw.free(to)] };
    let wrong = questions.iter().zip(&found).find(|((_, _, expected), found)| expected != *found);
    if let Some(((what, _, expected), found)) = wrong {
        return Err(Failed(format!("{what}: found {found:?}, expected {expected:?}")));
    }
    equal("frees", freed, [Status::SUCCESS; 2])
}

fn extents_of_the_driver(environment: &Environment) -> Verdict {
    ask(environment, |from, to| {
        let copy = |pitch: usize, height: usize, extent: [usize; 3]| Copy3d {
            source: volume(from, pitch, height),
            destination: volume(to, PITCH, ROWS),
            extent,
        };
        let null = Copy3d {
            source: volume(DevicePointer::NULL, PITCH, ROWS),
            destination: volume(DevicePointer::NULL, PITCH, ROWS),
            extent: [0, 4, 1],
        };
        vec![
            ("all is well", copy(PITCH, ROWS, [64, 4, 2]), Status::SUCCESS),
            ("a pitch less than the width", copy(32, ROWS, [64, 4, 1]), Status::INVALID_VALUE),
            ("a slice's height less than the rows", copy(PITCH, 2, [64, 4, 2]), Status::INVALID_VALUE),
            ("a width of 0", copy(PITCH, ROWS, [0, 4, 1]), Status::SUCCESS),
            ("a depth of 0", copy(PITCH, ROWS, [64, 4, 0]), Status::SUCCESS),
            ("a width of 0 between null addresses", null, Status::SUCCESS),
        ]
    })
}

fn limits_of_the_driver(environment: &Environment) -> Verdict {
    ask(environment, |from, to| {
        let rows = BYTES / PITCH;
        let copy = |address: DevicePointer, pitch: usize, extent: [usize; 3]| Copy3d {
            source: volume(address, pitch, extent[1]),
            destination: volume(to, pitch, extent[1]),
            extent,
        };
        let inside = from.byte_add(64);
        let from_inside = Copy3d {
            source: volume(inside, PITCH, rows),
            destination: volume(to, PITCH, rows),
            extent: [PITCH - 64, rows, 1],
        };
        let far = Copy3d { source: volume(from, 1 << 32, 1), destination: volume(to, PITCH, 1), extent: [64, 1, 1] };
        vec![
            ("as much as there is", copy(from, PITCH, [PITCH, rows, 1]), Status::SUCCESS),
            ("a row more than there is", copy(from, PITCH, [PITCH, rows + 1, 1]), Status::INVALID_VALUE),
            ("a width of more than there is", copy(from, 2 * BYTES, [2 * BYTES, 1, 1]), Status::INVALID_VALUE),
            ("a last row that ends where its pitch does not", from_inside, Status::SUCCESS),
            ("one row of a pitch of 4 GiB", far, Status::SUCCESS),
        ]
    })
}

/// 0 stands for as much as the region needs. What is given must be enough, also where there is a single row or slice.
fn pitches_and_heights_of_the_driver(environment: &Environment) -> Verdict {
    ask(environment, |from, to| {
        let copy = |pitch: usize, height: usize, origin: [usize; 3], extent: [usize; 3]| Copy3d {
            source: CopyPlace { origin, ..volume(from, pitch, height) },
            destination: volume(to, PITCH, ROWS),
            extent,
        };
        let (good, bad) = (Status::SUCCESS, Status::INVALID_VALUE);
        vec![
            ("no pitch for a row", copy(0, ROWS, [0; 3], [64, 1, 1]), good),
            ("no pitch for rows", copy(0, ROWS, [0; 3], [64, 4, 1]), good),
            ("no pitch for slices", copy(0, ROWS, [0; 3], [64, 1, 3]), good),
            ("no pitch for rows and slices", copy(0, ROWS, [0; 3], [64, 4, 3]), good),
            ("no height for rows", copy(PITCH, 0, [0; 3], [64, 4, 1]), good),
            ("no height for slices", copy(PITCH, 0, [0; 3], [64, 1, 3]), good),
            ("no height for rows and slices", copy(PITCH, 0, [0; 3], [64, 4, 3]), good),
            ("neither for rows and slices", copy(0, 0, [0; 3], [64, 4, 3]), good),
            ("neither from an origin", copy(0, 0, [16, 2, 1], [64, 4, 3]), good),
            ("too small a pitch for a row", copy(32, ROWS, [0; 3], [64, 1, 1]), bad),
            ("too small a pitch for slices", copy(32, ROWS, [0; 3], [64, 1, 3]), bad),
            ("too small a pitch from an origin", copy(64, ROWS, [16, 0, 0], [64, 1, 1]), bad),
            ("too small a height for a slice", copy(PITCH, 2, [0; 3], [64, 4, 1]), bad),
            ("too small a height for slices", copy(PITCH, 2, [0; 3], [64, 4, 3]), bad),
            ("too small a height from an origin", copy(PITCH, 4, [0, 2, 0], [64, 4, 1]), bad),
        ]
    })
}

fn pitches_and_heights_in_pools(environment: &Environment) -> Verdict {
    let (raw, stream) = (Raw::new(environment)?, environment.stream()?);
    let (from, to) = (stream.allocate_zeroed::<u8>(BYTES)?, stream.allocate_zeroed::<u8>(BYTES)?);
    stream.synchronize()?;
    let copy = |pitch: usize, height: usize, origin: [usize; 3], extent: [usize; 3]| {
        let copy = Copy3d {
            source: CopyPlace { origin, ..volume(from.device_pointer(), pitch, height) },
            destination: volume(to.device_pointer(), PITCH, ROWS),
            extent,
        };
        // SAFETY: what is not within the buffers is refused.
        unsafe { raw.copy_region(&copy) }
    };
    equal("a pitch for the row", copy(64, ROWS, [16, 0, 0], [64, 1, 1]), Status::SUCCESS)?;
    equal("a pitch for less", copy(63, ROWS, [16, 0, 0], [64, 1, 1]), Status::INVALID_VALUE)?;
    equal("a height for the slice", copy(PITCH, 4, [0, 2, 0], [64, 4, 1]), Status::SUCCESS)?;
    equal("a height for less", copy(PITCH, 3, [0, 2, 0], [64, 4, 1]), Status::INVALID_VALUE)?;
    raw.synchronize()
}

/// Copies a region of 2 x 3 x 2 bytes from a buffer of consecutive numbers, and returns the copy.
fn copied(environment: &Environment, pitch: usize, height: usize, origin: [usize; 3]) -> Result<Vec<u8>, Failed> {
    let raw = Raw::new(environment)?;
    let stream = environment.stream()?;
    let source = stream.upload(&(0..=255).collect::<Vec<u8>>())?;
    let destination = stream.allocate_zeroed::<u8>(12)?;
    stream.synchronize()?;
    let copy = Copy3d {
        source: CopyPlace { origin, ..volume(source.device_pointer(), pitch, height) },
        destination: volume(destination.device_pointer(), 2, 3),
        extent: [2, 3, 2],
    };
    // SAFETY: both volumes lie in the buffers, which outlive the copy.
    equal("the copy", unsafe { raw.copy_region(&copy) }, Status::SUCCESS)?;
    raw.synchronize()?;
    Ok(stream.download(&destination)?)
}

fn close_together(environment: &Environment) -> Verdict {
    let all: Vec<u8> = (0..12).collect();
    equal("neither", copied(environment, 0, 0, [0; 3])?, all)?;
    equal("no pitch", copied(environment, 0, 4, [0; 3])?, vec![0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13])?;
    equal("no height", copied(environment, 4, 0, [0; 3])?, vec![0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21])
}

/// The origin lies in the rows and slices.
fn close_together_from_an_origin(environment: &Environment) -> Verdict {
    // Rows of 3 bytes, slices of 4 rows.
    let row = |number: u8| [number * 3 + 1, number * 3 + 2];
    let expected: Vec<u8> = [1, 2, 3, 5, 6, 7].into_iter().flat_map(row).collect();
    equal("the region", copied(environment, 0, 0, [1, 1, 0])?, expected)
}
