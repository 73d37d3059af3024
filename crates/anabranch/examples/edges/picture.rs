//! Pictures in grey: loading, drawing and saving them.

use image::{DynamicImage, GrayImage, ImageError, ImageFormat, ImageReader, Limits};
use std::path::Path;

/// What goes wrong with a picture, as one sentence.
pub(crate) type PictureResult<T> = Result<T, String>;

/// A picture in grey, row by row without padding. It has at least one pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// Refuses a file name whose picture format cannot be written, before there is anything to write.
pub(crate) fn require_writable(path: &Path) -> PictureResult<()> {
    match ImageFormat::from_path(path) {
        Ok(format) if format.writing_enabled() => Ok(()),
        _ => Err(format!("cannot write {}: its name must end in .png or .jpg", path.display())),
    }
}

impl Picture {
    /// A picture of these pixels.
    pub(crate) fn new(width: usize, height: usize, pixels: Vec<u8>) -> PictureResult<Self> {
        // Kernels count in 32 bits.
        let count = width.checked_mul(height).filter(|&count| i32::try_from(count).is_ok());
        if count == Some(0) || count != Some(pixels.len()) {
            return Err(format!("cannot use a picture of {width} by {height} pixels"));
        }
        Ok(Self { width, height, pixels })
    }

    /// Reads a file, with so many bytes of memory for decoding it. Colours become grey, and what is transparent is seen
    /// before white.
    pub(crate) fn load(path: &Path, memory: u64) -> PictureResult<Self> {
        let explain = |error: ImageError| match error {
            ImageError::Limits(_) => {
                format!("cannot read {} in {} MiB of memory; --memory allows more", path.display(), memory >> 20)
            }
            other => format!("cannot read {}: {other}", path.display()),
        };
        let mut reader = ImageReader::open(path).map_err(|error| explain(error.into()))?;
        let mut limits = Limits::default();
        limits.max_alloc = Some(memory);
        reader.limits(limits);
        let image = reader.decode().map_err(explain)?;
        let (width, height) = (image.width() as usize, image.height() as usize);
        let pixels = match image {
            DynamicImage::ImageLuma8(grey) => grey.into_raw(),
            other => other.into_luma_alpha8().pixels().map(|pixel| before_white(pixel.0)).collect(),
        };
        Self::new(width, height, pixels).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Draws a detailed picture, the same every time: rings, tiles and stripes on a slope of grey, under some noise.
    pub(crate) fn draw(width: usize, height: usize) -> PictureResult<Self> {
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        let mut pixels = Vec::with_capacity(width * height);
        for y in 0..height {
            for x in 0..width {
                let slope = x * 96 / width + y * 64 / height;
                let (right, down) = (x % 480, y % 480);
                let distance = right.abs_diff(240).pow(2) + down.abs_diff(240).pow(2);
                let shape = match (x / 480 + y / 480) % 3 {
                    0 if distance < 200 * 200 => 90 * (distance / 2500 % 2),
                    1 if right.abs_diff(240) + down.abs_diff(240) < 220 => 75,
                    2 => 60 * ((right + 2 * down) / 37 % 2),
                    _ => 0,
                };
                pixels.push((slope + shape) as u8 + noise.next() % 6);
            }
        }
        Self::new(width, height, pixels)
    }

    /// Writes a file, in the format that its name ends in.
    pub(crate) fn save(&self, path: &Path) -> PictureResult<()> {
        let explain = |error: String| format!("cannot write {}: {error}", path.display());
        // Both fit, since their product does.
        GrayImage::from_raw(self.width as u32, self.height as u32, self.pixels.clone())
            .ok_or_else(|| explain("the picture has too few pixels".to_owned()))?
            .save(path)
            .map_err(|error| explain(error.to_string()))
    }

    /// That these pixels are the picture's, or where the first is that is not.
    pub(crate) fn require_equal(&self, others: &[u8], name: &str) -> PictureResult<()> {
        if self.pixels.len() != others.len() {
            return Err(format!("{name} gave {} pixels, and the picture has {}", others.len(), self.pixels.len()));
        }
        match self.pixels.iter().zip(others).position(|(own, other)| own != other) {
            None => Ok(()),
            Some(place) => Err(format!(
                "{name} gave a wrong result: pixel ({}, {}) is {}, and the serial computation gives {}",
                place % self.width,
                place / self.width,
                others[place],
                self.pixels[place]
            )),
        }
    }

    /// Pixels in a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub(crate) fn height(&self) -> usize {
        self.height
    }

    /// The pixels, row by row.
    pub(crate) fn pixels(&self) -> &[u8] {
        &self.pixels
    }
}

fn before_white([grey, alpha]: [u8; 2]) -> u8 {
    let (grey, alpha) = (u32::from(grey), u32::from(alpha));
    ((grey * alpha + 255 * (255 - alpha) + 127) / 255) as u8
}

/// Numbers that look random, by Marsaglia's xorshift.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 56) as u8
    }
}
