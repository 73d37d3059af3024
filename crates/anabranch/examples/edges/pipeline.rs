//! The pipeline: bands on several streams, that fork from one stream and join it again.

use crate::bands::Band;
use crate::kernels::{Kernels, for_pixels};
use crate::picture::Picture;
use anabranch::{
    Buffer, CaptureMode, Context, Event, ExecutableGraph, Graph, LaunchConfig, PinnedBuffer, Result, Stream,
};
use std::slice;
use std::sync::Arc;

/// Which streams the bands run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// All on the main stream.
    One,
    /// On streams of their own, in turns.
    Several,
}

/// Milliseconds of each stage, summed over the bands. They mean something where no two stages overlap: in one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StageTimes {
    pub(crate) upload: f32,
    pub(crate) blur: f32,
    pub(crate) gradient: f32,
    pub(crate) choose_scale: f32,
    pub(crate) stretch: f32,
    pub(crate) download: f32,
}

/// Everything that the runs need, made once.
#[derive(Debug)]
pub(crate) struct Pipeline {
    kernels: Kernels,
    width: u32,
    height: usize,
    /// The river: where a run begins, where the bands meet, and where it ends.
    main: Arc<Stream>,
    lanes: Vec<Stream>,
    source: PinnedBuffer<u8>,
    bands: Vec<BandWork>,
    peaks: Buffer<u32>,
    scale: Buffer<u32>,
    begin: Event,
    peaks_known: Event,
    scale_known: Event,
    end: Event,
}

/// One band, with memory and events of its own, so that no two streams have to take turns at them.
#[derive(Debug)]
struct BandWork {
    band: Band,
    source: Buffer<u8>,
    blurred: Buffer<u8>,
    edges: Buffer<u16>,
    peak: Buffer<u32>,
    stretched: Buffer<u8>,
    result: PinnedBuffer<u8>,
    marks: Marks,
}

/// Points in a band's work. The fourth and the last are also what others wait for.
#[derive(Debug)]
struct Marks {
    begin: Event,
    uploaded: Event,
    blurred: Event,
    searched: Event,
    resumed: Event,
    stretched: Event,
    downloaded: Event,
}

impl Pipeline {
    /// Allocates everything, and copies the picture to pinned memory. There is at least one band and one stream.
    pub(crate) fn new(
        context: &Context,
        kernels: Kernels,
        picture: &Picture,
        bands: &[Band],
        streams: usize,
    ) -> Result<Self> {
        let main = context.create_stream()?;
        let source = context.allocate_pinned(picture.pixels().len())?;
        let mut pipeline = Self {
            kernels,
            // A picture has fewer than 2³¹ pixels, and so in a row.
            width: picture.width() as u32,
            height: picture.height(),
            lanes: (0..streams).map(|_| context.create_stream()).collect::<Result<_>>()?,
            source,
            bands: bands.iter().map(|band| BandWork::new(&main, picture.width(), band)).collect::<Result<_>>()?,
            peaks: main.allocate_zeroed(bands.len())?,
            scale: main.allocate_zeroed(1)?,
            begin: context.create_event()?,
            peaks_known: context.create_event()?,
            scale_known: context.create_event()?,
            end: context.create_event()?,
            main: Arc::new(main),
        };
        pipeline.put_in(picture)?;
        Ok(pipeline)
    }

    /// Takes in a picture of the same size.
    pub(crate) fn put_in(&mut self, picture: &Picture) -> Result<()> {
        self.source.write(|pixels| pixels.copy_from_slice(picture.pixels()))
    }

    /// Runs once, to the end, and returns the milliseconds that passed on the device.
    pub(crate) fn run(&mut self, lanes: Lanes) -> Result<f32> {
        self.queue(lanes)?;
        self.main.synchronize()?;
        self.end.elapsed_since(&self.begin)
    }

    /// Captures a run in several streams.
    #[allow(dead_code, reason = "the example `replay` captures, and shares this file")]
    pub(crate) fn capture(&mut self) -> Result<Graph> {
        let main = Arc::clone(&self.main);
        main.capture(CaptureMode::ThreadLocal, |_scope| self.queue(Lanes::Several))
    }

    /// Runs what was captured, to the end.
    #[allow(dead_code, reason = "as above")]
    pub(crate) fn replay(&self, captured: &ExecutableGraph) -> Result<()> {
        captured.launch(&self.main)?;
        self.main.synchronize()
    }

    /// Queues a run.
    fn queue(&mut self, lanes: Lanes) -> Result<()> {
        let Self { kernels, main, source, bands, peaks, scale, .. } = self;
        let main = &**main;
        let lanes = match lanes {
            Lanes::One => slice::from_ref(main),
            Lanes::Several => &self.lanes[..],
        };

        // Fork: the lanes come after the beginning.
        self.begin.record(main)?;
        lanes.iter().try_for_each(|lane| lane.wait(&self.begin))?;
        for (band, lane) in bands.iter_mut().zip(lanes.iter().cycle()) {
            band.search(lane, kernels, source, self.width)?;
        }

        // Join: the scale depends on all bands.
        for (number, work) in bands.iter().enumerate() {
            main.wait(&work.marks.searched)?;
            main.copy(peaks.slice_mut(number..=number)?, &work.peak)?;
        }
        self.peaks_known.record(main)?;
        let choose_scale = kernels.choose_scale(&mut *scale, &*peaks, peaks.len() as u32);
        // SAFETY: `choose_scale` writes one number, reads as many as its argument says, and uses no other memory.
        unsafe { choose_scale.launch(main, &LaunchConfig::new(1, 256))? };
        self.scale_known.record(main)?;

        // Fork and join once more.
        lanes.iter().try_for_each(|lane| lane.wait(&self.scale_known))?;
        for (band, lane) in bands.iter_mut().zip(lanes.iter().cycle()) {
            band.finish(lane, kernels, scale)?;
        }
        bands.iter().try_for_each(|band| main.wait(&band.marks.downloaded))?;
        self.end.record(main)
    }

    /// How long the stages of the last run took.
    pub(crate) fn stage_times(&self) -> Result<StageTimes> {
        let choose_scale = self.scale_known.elapsed_since(&self.peaks_known)?;
        let mut times = StageTimes { choose_scale, ..StageTimes::default() };
        for Marks { begin, uploaded, blurred, searched, resumed, stretched, downloaded } in
            self.bands.iter().map(|work| &work.marks)
        {
            times.upload += uploaded.elapsed_since(begin)?;
            times.blur += blurred.elapsed_since(uploaded)?;
            times.gradient += searched.elapsed_since(blurred)?;
            times.stretch += stretched.elapsed_since(resumed)?;
            times.download += downloaded.elapsed_since(stretched)?;
        }
        Ok(times)
    }

    /// The edges that the last run found, row by row.
    pub(crate) fn edges(&self) -> Result<Vec<u8>> {
        let mut pixels = Vec::with_capacity(self.width as usize * self.height);
        for work in &self.bands {
            work.result.read(|result| pixels.extend_from_slice(result))?;
        }
        Ok(pixels)
    }
}

impl BandWork {
    fn new(stream: &Stream, width: usize, band: &Band) -> Result<Self> {
        let (own, with_halo) = (width * band.rows.len(), width * band.with_halo.len());
        Ok(Self {
            band: band.clone(),
            source: stream.allocate_zeroed(with_halo)?,
            blurred: stream.allocate_zeroed(with_halo)?,
            edges: stream.allocate_zeroed(own)?,
            peak: stream.allocate_zeroed(1)?,
            stretched: stream.allocate_zeroed(own)?,
            result: stream.context().allocate_pinned(own)?,
            marks: Marks::new(&stream.context())?,
        })
    }

    /// Uploads the band, blurs it and looks for its edges.
    fn search(&mut self, lane: &Stream, kernels: &Kernels, picture: &PinnedBuffer<u8>, width: u32) -> Result<()> {
        let Self { band, source, blurred, edges, peak, marks, .. } = self;
        // A picture has fewer than 2³¹ rows.
        let [rows, blurred_rows, above] = [band.rows.len(), band.with_halo.len(), band.above()].map(|rows| rows as u32);
        let pixels = band.with_halo.start * width as usize..band.with_halo.end * width as usize;
        lane.record(&marks.begin)?;
        lane.copy(&mut *source, picture.slice(pixels)?)?;
        lane.record(&marks.uploaded)?;
        let blur = kernels.blur(&mut *blurred, &*source, width, blurred_rows);
        // SAFETY: `blur` uses `width` times `blurred_rows` pixels of either buffer, which is all that they have.
        unsafe { blur.launch(lane, &for_pixels(width, blurred_rows))? };
        lane.record(&marks.blurred)?;
        lane.fill_zero(&mut *peak)?;
        let gradient = kernels.gradient(&mut *edges, peak, &*blurred, width, blurred_rows, above, rows);
        // SAFETY: `gradient` reads all of `blurred`, writes `width` times `rows` elements of `edges`, which is all that it
        // has, and one of `peak`.
        unsafe { gradient.launch(lane, &for_pixels(width, rows))? };
        lane.record(&marks.searched).map(drop)
    }

    /// Stretches the edges to the full range of grey, and downloads them.
    fn finish(&mut self, lane: &Stream, kernels: &Kernels, scale: &Buffer<u32>) -> Result<()> {
        let Self { edges, stretched, result, marks, .. } = self;
        let count = edges.len() as u32;
        lane.record(&marks.resumed)?;
        let stretch = kernels.stretch(&mut *stretched, &*edges, scale, count);
        // SAFETY: `stretch` uses `count` elements of `stretched` and `edges`, which is all that they have, and one of
        // `scale`.
        unsafe { stretch.launch(lane, &LaunchConfig::for_elements(count))? };
        lane.record(&marks.stretched)?;
        lane.copy(result, &*stretched)?;
        lane.record(&marks.downloaded).map(drop)
    }
}

impl Marks {
    fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            begin: context.create_event()?,
            uploaded: context.create_event()?,
            blurred: context.create_event()?,
            searched: context.create_event()?,
            resumed: context.create_event()?,
            stretched: context.create_event()?,
            downloaded: context.create_event()?,
        })
    }
}
