//! The same computation, serially on the processor, in the plainest way.

use crate::picture::Picture;

/// The edges of a picture, stretched to the full range of grey.
pub(crate) fn edges(picture: &Picture) -> Picture {
    let blurred = map(picture, |x, y| blur(picture, x, y));
    let blurred = with_pixels(picture, blurred);
    let strengths = map(picture, |x, y| strength(&blurred, x, y));
    let largest = strengths.iter().copied().max().unwrap_or(0).max(1);
    let scale = (255 << 16) / u32::from(largest);
    let stretched = strengths.iter().map(|&strength| ((u32::from(strength) * scale + 32768) >> 16) as u8);
    with_pixels(picture, stretched.collect())
}

fn map<T>(picture: &Picture, value: impl Fn(usize, usize) -> T) -> Vec<T> {
    let places = (0..picture.height()).flat_map(|y| (0..picture.width()).map(move |x| (x, y)));
    places.map(|(x, y)| value(x, y)).collect()
}

fn with_pixels(like: &Picture, pixels: Vec<u8>) -> Picture {
    // It has as many pixels as the other, so that this does not fail.
    Picture::new(like.width(), like.height(), pixels).unwrap_or_else(|_| like.clone())
}

/// The pixel at an offset from a place, or the nearest to that.
fn near(picture: &Picture, x: usize, y: usize, right: isize, down: isize) -> i32 {
    let x = x.saturating_add_signed(right).min(picture.width() - 1);
    let y = y.saturating_add_signed(down).min(picture.height() - 1);
    i32::from(picture.pixels()[y * picture.width() + x])
}

fn blur(picture: &Picture, x: usize, y: usize) -> u8 {
    const WEIGHTS: [i32; 5] = [1, 4, 6, 4, 1];
    let mut sum = 128;
    for (down, vertical) in (-2..).zip(WEIGHTS) {
        for (right, horizontal) in (-2..).zip(WEIGHTS) {
            sum += vertical * horizontal * near(picture, x, y, right, down);
        }
    }
    (sum >> 8) as u8
}

fn strength(blurred: &Picture, x: usize, y: usize) -> u16 {
    let (mut across, mut down) = (0, 0);
    for (offset, weight) in (-1..).zip([1, 2, 1]) {
        across += weight * (near(blurred, x, y, 1, offset) - near(blurred, x, y, -1, offset));
        down += weight * (near(blurred, x, y, offset, 1) - near(blurred, x, y, offset, -1));
    }
    (across.unsigned_abs() + down.unsigned_abs()) as u16
}
