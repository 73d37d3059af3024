//! Cutting a picture into bands of rows.

use std::ops::Range;

/// Rows beside a band that its edges depend on: two for the blur, and one for the gradient.
const HALO: usize = 3;

/// A band of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Band {
    /// Its own rows.
    pub(crate) rows: Range<usize>,
    /// Those rows, and the rows beside them that its edges depend on, as far as the picture has them.
    pub(crate) with_halo: Range<usize>,
}

impl Band {
    /// Rows of the halo above the band.
    pub(crate) fn above(&self) -> usize {
        self.rows.start - self.with_halo.start
    }
}

/// Cuts `height` rows into `count` bands of nearly equal height, or fewer, so that each has at least one row.
pub(crate) fn cut(height: usize, count: usize) -> Vec<Band> {
    let count = count.min(height);
    let band = |number: usize| {
        let rows = number * height / count..(number + 1) * height / count;
        let with_halo = rows.start.saturating_sub(HALO)..(rows.end + HALO).min(height);
        Band { rows, with_halo }
    };
    (0..count).map(band).collect()
}
