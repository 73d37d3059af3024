//! The kernels: PTX made from `kernels.cu`, which runs on either kind of device, and twins of those in Rust, which take less
//! time on the software device.
//!
//! A twin does a block's work row by row, and not thread by thread, which lets the compiler use vector instructions.

use anabranch::{Block, Context, DualModule, HostArguments, LaunchConfig, Result};
use std::ops::Range;

/// Threads of a block in x and y: a warp for a piece of a row.
const BLOCK: [usize; 2] = [32, 8];

anabranch::kernels! {
    /// The kernels, loaded. What they do is said in `kernels.cu`.
    pub(crate) struct Kernels {
        pub(crate) fn blur(blurred: &mut [u8], source: &[u8], width: u32, rows: u32);
        pub(crate) fn gradient(
            edges: &mut [u16], peak: &mut [u32], blurred: &[u8], width: u32, blurred_rows: u32, first: u32, rows: u32,
        );
        pub(crate) fn choose_scale(scale: &mut [u32], peaks: &[u32], count: u32);
        pub(crate) fn stretch(result: &mut [u8], edges: &[u16], scale: &[u32], count: u32);
    }
}

impl Kernels {
    /// Loads those of the context's device. `ptx`: the software device runs the PTX too, and not the twins.
    pub(crate) fn load_for(context: &Context, ptx: bool) -> Result<Self> {
        let program = DualModule::new()
            .ptx(include_str!("kernels.ptx"))
            .host_function(Self::host_function("blur", blur))
            .host_function(Self::host_function("gradient", gradient))
            .host_function(Self::host_function("choose_scale", choose_scale))
            .host_function(Self::host_function("stretch", stretch));
        let program = if ptx { program.prefer_ptx() } else { program };
        Self::load(&program.load(context)?)
    }
}

/// A thread for each pixel of `rows` rows.
pub(crate) fn for_pixels(width: u32, rows: u32) -> LaunchConfig<'static> {
    let [across, down] = BLOCK.map(|extent| extent as u32);
    LaunchConfig::new((width.div_ceil(across), rows.div_ceil(down)), (across, down))
}

/// The pixels of a block: columns and rows, none if the block lies beyond the picture. No two blocks have the same.
fn tile(block: &Block<'_>, width: usize, rows: usize) -> (Range<usize>, Range<usize>) {
    let [x, y, z] = block.index().map(|value| value as usize);
    let rows = if z == 0 { rows } else { 0 };
    let range = |number: usize, length: usize, end: usize| (number * length).min(end)..((number + 1) * length).min(end);
    (range(x, BLOCK[0], width), range(y, BLOCK[1], rows))
}

/// The tile's columns with `RADIUS` more on either side, as far as there are any.
fn widened<const RADIUS: usize>(columns: &Range<usize>, width: usize) -> Range<usize> {
    columns.start.saturating_sub(RADIUS)..(columns.end + RADIUS).min(width)
}

/// One value for each column of a tile and `RADIUS` more on either side. Beyond the picture it is that of the nearest.
fn padded<const RADIUS: usize, const LENGTH: usize>(
    columns: &Range<usize>,
    width: usize,
    values: impl Iterator<Item = i32>,
) -> [i32; LENGTH] {
    let mut all = [0; LENGTH];
    let present = widened::<RADIUS>(columns, width);
    let first = present.start + RADIUS - columns.start;
    let last = first + present.len() - 1;
    for (place, value) in all[first..=last].iter_mut().zip(values) {
        *place = value;
    }
    let (left, right) = (all[first], all[last]);
    all[..first].fill(left);
    all[last + 1..].fill(right);
    all
}

/// The part `columns` of row `y + offset - RADIUS`, or of the nearest row that there is.
fn row<'a, const RADIUS: usize>(
    picture: &'a [u8],
    width: usize,
    rows: usize,
    y: usize,
    columns: &Range<usize>,
) -> impl Fn(usize) -> &'a [u8] {
    let columns = columns.clone();
    move |offset| {
        let start = (y + offset).saturating_sub(RADIUS).min(rows - 1) * width;
        &picture[start + columns.start..][..columns.len()]
    }
}

fn blur(block: &mut Block<'_>, arguments: &HostArguments<'_>) {
    let (blurred, source) = (arguments.slice::<u8>(0), arguments.slice::<u8>(1));
    let [width, rows] = [2, 3].map(|index| arguments.scalar::<u32>(index) as usize);
    let (columns, tile_rows) = tile(block, width, rows);
    // SAFETY: a launch is lent its arguments, and the kernel does not write this one, so nobody does while it runs.
    let source = unsafe { source.as_slice(0..width * rows) };
    let wide = widened::<2>(&columns, width);
    for y in tile_rows {
        let at = row::<2>(source, width, rows, y, &wide);
        let rows = at(0).iter().zip(at(1)).zip(at(2)).zip(at(3)).zip(at(4));
        let sums = rows.map(|((((&a, &b), &c), &d), &e)| weigh([a, b, c, d, e].map(i32::from)));
        let sums: [i32; BLOCK[0] + 4] = padded::<2, _>(&columns, width, sums);
        // SAFETY: the launch is lent this memory to write, and in it no other block writes or reads these pixels.
        let pixels = unsafe { blurred.as_mut_slice(y * width + columns.start..y * width + columns.end) };
        for (pixel, near) in pixels.iter_mut().zip(sums.windows(5)) {
            *pixel = ((weigh([near[0], near[1], near[2], near[3], near[4]]) + 128) >> 8) as u8;
        }
    }
}

fn weigh([a, b, c, d, e]: [i32; 5]) -> i32 {
    a + 4 * b + 6 * c + 4 * d + e
}

fn gradient(block: &mut Block<'_>, arguments: &HostArguments<'_>) {
    let (edges, peak, blurred) = (arguments.slice::<u16>(0), arguments.slice::<u32>(1), arguments.slice::<u8>(2));
    let [width, blurred_rows, first, rows] = [3, 4, 5, 6].map(|index| arguments.scalar::<u32>(index) as usize);
    let (columns, tile_rows) = tile(block, width, rows);
    // SAFETY: a launch is lent its arguments, and the kernel does not write this one, so nobody does while it runs.
    let blurred = unsafe { blurred.as_slice(0..width * blurred_rows) };
    let wide = widened::<1>(&columns, width);
    let mut largest = 0;
    for y in tile_rows {
        let at = row::<1>(blurred, width, blurred_rows, first + y, &wide);
        let all = || at(0).iter().zip(at(1)).zip(at(2)).map(|((&a, &b), &c)| [a, b, c].map(i32::from));
        let sums: [i32; BLOCK[0] + 2] = padded::<1, _>(&columns, width, all().map(|[a, b, c]| a + 2 * b + c));
        let drops: [i32; BLOCK[0] + 2] = padded::<1, _>(&columns, width, all().map(|[a, _, c]| c - a));
        // SAFETY: the launch is lent this memory to write, and in it no other block writes or reads these pixels.
        let strengths = unsafe { edges.as_mut_slice(y * width + columns.start..y * width + columns.end) };
        for ((strength, sums), drops) in strengths.iter_mut().zip(sums.windows(3)).zip(drops.windows(3)) {
            let (across, down) = (sums[2] - sums[0], drops[0] + 2 * drops[1] + drops[2]);
            *strength = (across.abs() + down.abs()) as u16;
        }
        largest = strengths.iter().copied().fold(largest, u16::max);
    }
    peak.fetch_update(0, |peak| peak.max(u32::from(largest)));
}

fn choose_scale(_: &mut Block<'_>, arguments: &HostArguments<'_>) {
    let (scale, peaks) = (arguments.slice::<u32>(0), arguments.slice::<u32>(1));
    let largest = (0..arguments.scalar::<u32>(2) as usize).map(|index| peaks.get(index)).fold(1, u32::max);
    scale.set(0, (255 << 16) / largest);
}

fn stretch(block: &mut Block<'_>, arguments: &HostArguments<'_>) {
    let (result, edges) = (arguments.slice::<u8>(0), arguments.slice::<u16>(1));
    let (scale, count) = (arguments.slice::<u32>(2).get(0), arguments.scalar::<u32>(3) as usize);
    let length = block.thread_count();
    let [x, y, z] = block.index();
    let count = if (y, z) == (0, 0) { count } else { 0 };
    let begin = (x as usize * length).min(count);
    let place = begin..(begin + length).min(count);
    // SAFETY: a launch is lent its arguments, the result to write; the kernel does not write the edges, and no other block
    // has these elements of the result.
    let (result, edges) = unsafe { (result.as_mut_slice(place.clone()), edges.as_slice(place)) };
    for (pixel, &strength) in result.iter_mut().zip(edges) {
        *pixel = ((u32::from(strength) * scale + 32768) >> 16) as u8;
    }
}
