//! Regions of rows and slices that are copied between buffers, pinned memory and plain memory of the host.

use crate::captured::two;
use crate::environment::LENGTH;
use crate::tally::note;
use crate::world::{Place, Words, World};
use anabranch::{Region, Volume, VolumeMut};
use proptest::prelude::*;

/// Where a region is copied from or to, beside a buffer.
#[derive(Clone, Copy, Debug)]
enum Other {
    Buffer(usize),
    Pinned(usize),
    Host,
}

/// A copy between a buffer and something else.
#[derive(Clone, Debug)]
pub(crate) struct Regions {
    stream: usize,
    buffer: usize,
    other: Other,
    /// Whether the buffer is the destination.
    writes: bool,
    source: Shape,
    destination: Shape,
    /// Which region is copied, in numbers that are made to fit.
    extent: [usize; 3],
    value: u32,
}

/// The length of the rows of memory, how many of them a slice has, and where a region begins.
#[derive(Clone, Copy, Debug)]
struct Shape {
    row_length: usize,
    rows: usize,
    origin: [usize; 3],
}

impl Shape {
    fn slices(self) -> usize {
        LENGTH / (self.row_length * self.rows)
    }

    /// How many elements, rows and slices there are.
    fn size(self) -> [usize; 3] {
        [self.row_length, self.rows, self.slices()]
    }

    /// The place of an element of a region.
    fn index(self, origin: [usize; 3], at: [usize; 3]) -> usize {
        let [x, y, z] = [0, 1, 2].map(|axis| origin[axis] + at[axis]);
        (z * self.rows + y) * self.row_length + x
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let sizes = prop::sample::select(vec![(1, 8), (2, 4), (4, 2), (8, 1), (2, 2), (2, 1), (1, 2), (4, 1)]);
    (sizes, [0..8usize, 0..8usize, 0..8usize]).prop_map(|((row_length, rows), origin)| Shape {
        row_length,
        rows,
        origin,
    })
}

pub(crate) fn regions() -> impl Strategy<Value = Regions> {
    let n = || 0..4usize;
    let other = prop_oneof![
        2 => n().prop_map(Other::Buffer),
        1 => n().prop_map(Other::Pinned),
        4 => Just(Other::Host),
    ];
    (n(), n(), other, any::<bool>(), shape(), shape(), [1..9usize, 1..9usize, 1..9usize], any::<u32>()).prop_map(
        |(stream, buffer, other, writes, source, destination, extent, value)| Regions {
            stream,
            buffer,
            other,
            writes,
            source,
            destination,
            extent,
            value,
        },
    )
}

impl Regions {
    /// A region of both shapes.
    fn region(&self) -> Region {
        let sizes = [self.source.size(), self.destination.size()];
        let extent = [0, 1, 2].map(|axis| 1 + (self.extent[axis] - 1) % sizes[0][axis].min(sizes[1][axis]));
        let origin = |shape: Shape| [0, 1, 2].map(|axis| shape.origin[axis] % (shape.size()[axis] - extent[axis] + 1));
        Region { source_origin: origin(self.source), destination_origin: origin(self.destination), extent }
    }

    /// What a copy does.
    fn apply(&self, region: &Region, to: &mut Words, from: &Words) {
        let [width, rows, slices] = region.extent;
        for at in (0..slices).flat_map(|z| (0..rows).flat_map(move |y| (0..width).map(move |x| [x, y, z]))) {
            to[self.destination.index(region.destination_origin, at)] =
                from[self.source.index(region.source_origin, at)];
        }
    }
}

impl World<'_> {
    pub(crate) fn regions(&mut self, regions: &Regions) {
        let &Regions { other, writes, source: from, destination: to, value, .. } = regions;
        let region = regions.region();
        let stream = self.stream(regions.stream);
        let buffer = self.buffer(&stream, regions.buffer);
        let other_buffer = if let Other::Buffer(other) = other { self.buffer(&stream, other) } else { buffer };
        if let Other::Host = other {
            // The host waits for it.
            self.let_go();
        }
        let place = &mut self.places[stream.device];
        let number = place.buffers[buffer].number;
        let own = &stream.stream;
        let copied = match other {
            Other::Host => {
                let mut host: Words = std::array::from_fn(|index| value.wrapping_add(index as u32));
                let memory = place.buffers[buffer].buffer.as_mut().unwrap();
                let copied = if writes {
                    let destination = VolumeMut::new(memory, to.row_length, to.rows);
                    let copied = own.copy_region_from_host(destination, &host, from.row_length, from.rows, &region);
                    regions.apply(&region, &mut self.memories[number], &host);
                    copied
                } else {
                    let mut expected = host;
                    regions.apply(&region, &mut expected, &self.memories[number]);
                    let source = Volume::new(&*memory, from.row_length, from.rows);
                    let copied = own.copy_region_to_host(&mut host, to.row_length, to.rows, source, &region);
                    assert_eq!(host, expected, "in memory of the host");
                    copied
                };
                note("regions of the host");
                copied
            }
            Other::Buffer(_) => {
                let other = place.buffers[other_buffer].number;
                let Some([memory, source]) = two(place, buffer, other_buffer) else { return };
                let source = Volume::new(&*source, from.row_length, from.rows);
                let copied = own.copy_region(VolumeMut::new(memory, to.row_length, to.rows), source, &region);
                let source = self.memories[other];
                regions.apply(&region, &mut self.memories[number], &source);
                note("regions of buffers");
                copied
            }
            Other::Pinned(pinned) => {
                let Place { buffers, pinned: pins, .. } = place;
                let count = pins.len();
                let (memory, pinned) = (buffers[buffer].buffer.as_mut().unwrap(), &mut pins[pinned % count]);
                let (copied, to, from) = if writes {
                    let source = Volume::new(&pinned.buffer, from.row_length, from.rows);
                    let destination = VolumeMut::new(memory, to.row_length, to.rows);
                    (own.copy_region(destination, source, &region), number, pinned.number)
                } else {
                    let source = Volume::new(&*memory, from.row_length, from.rows);
                    let destination = VolumeMut::new(&mut pinned.buffer, to.row_length, to.rows);
                    (own.copy_region(destination, source, &region), pinned.number, number)
                };
                let source = self.memories[from];
                regions.apply(&region, &mut self.memories[to], &source);
                note("regions of pinned memory");
                copied
            }
        };
        // A wait of the host may report a panic of earlier work, when all is copied.
        stream.unless_panicked(copied);
    }
}
