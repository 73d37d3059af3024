//! The pipeline of the example `edges` gives what the serial computation gives, for pictures of odd sizes and bands that
//! do not divide them, on the host device.
#![cfg(feature = "host")]

use anabranch::{Instance, Kernel};
use kernels::Kernels;
use pipeline::{Lanes, Pipeline};
use std::error::Error;

#[path = "../examples/edges/bands.rs"]
mod bands;
#[path = "../examples/edges/kernels.rs"]
mod kernels;
#[path = "../examples/edges/picture.rs"]
#[allow(dead_code, reason = "the example also loads and saves pictures")]
mod picture;
#[path = "../examples/edges/pipeline.rs"]
#[allow(dead_code, reason = "the example also prints times")]
mod pipeline;
#[path = "../examples/edges/serial.rs"]
mod serial;

use picture::Picture;

type TestResult = Result<(), Box<dyn Error>>;

#[test]
fn edges_are_those_of_the_serial_computation() -> TestResult {
    let context = Instance::new()?.device("host")?.context()?;
    let cases = [
        (1, 1, 1, 1),
        (1, 1, 16, 4),
        (7, 3, 16, 4),
        (3, 7, 2, 2),
        (2, 9, 9, 4),
        (31, 5, 5, 2),
        (33, 17, 4, 3),
        (640, 37, 16, 3),
        (640, 37, 1, 1),
        (97, 480, 7, 8),
    ];
    for (width, height, bands, streams) in cases {
        let picture = Picture::draw(width, height)?;
        let expected = serial::edges(&picture);
        let bands = bands::cut(height, bands);
        let mut pipeline = Pipeline::new(&context, Kernels::load_for(&context, false)?, &picture, &bands, streams)?;
        // Each mode twice, so that memory is used again, and by other streams.
        for lanes in [Lanes::Several, Lanes::Several, Lanes::One, Lanes::One, Lanes::Several] {
            assert!(pipeline.run(lanes)? >= 0.0);
            let name = format!("{width} x {height}, {} bands, {streams} streams, {lanes:?}", bands.len());
            expected.require_equal(&pipeline.edges()?, &name)?;
        }
    }
    Ok(())
}

/// The kernels are the same text as on GPUs.
#[test]
fn edges_of_the_ptx_are_those_of_the_serial_computation() -> TestResult {
    let context = Instance::new()?.device("host")?.context()?;
    for (width, height, bands, streams) in [(1, 1, 1, 1), (7, 3, 16, 4), (3, 7, 2, 2), (33, 17, 4, 3), (131, 37, 5, 2)]
    {
        let picture = Picture::draw(width, height)?;
        let bands = bands::cut(height, bands);
        let kernels = Kernels::load_for(&context, true)?;
        let mut pipeline = Pipeline::new(&context, kernels, &picture, &bands, streams)?;
        pipeline.run(Lanes::Several)?;
        serial::edges(&picture).require_equal(&pipeline.edges()?, &format!("{width} x {height}"))?;
        let captured = pipeline.capture()?.instantiate()?;
        pipeline.replay(&captured)?;
        serial::edges(&picture).require_equal(&pipeline.edges()?, &format!("{width} x {height}, replayed"))?;
    }
    Ok(())
}

#[test]
fn a_picture_that_takes_more_memory_than_allowed_is_refused() -> TestResult {
    let folder = tempfile::tempdir()?;
    for name in ["picture.png", "picture.jpg"] {
        let path = folder.path().join(name);
        Picture::draw(1100, 1000)?.save(&path)?;
        let error = Picture::load(&path, 1 << 20).expect_err("it takes more than a million bytes");
        assert!(error.ends_with("in 1 MiB of memory; --memory allows more"), "{error}");
        assert_eq!(Picture::load(&path, 16 << 20)?.pixels().len(), 1_100_000);
    }
    Ok(())
}

#[test]
fn a_flat_picture_has_no_edges() -> TestResult {
    let context = Instance::new()?.device("host")?.context()?;
    let picture = Picture::new(50, 20, vec![200; 1000])?;
    let kernels = Kernels::load_for(&context, false)?;
    let mut pipeline = Pipeline::new(&context, kernels, &picture, &bands::cut(20, 3), 2)?;
    pipeline.run(Lanes::Several)?;
    assert_eq!(pipeline.edges()?, [0; 1000]);
    Ok(())
}

#[test]
fn bands_cover_every_row_once_and_reach_three_rows_beyond() {
    for (height, count) in [(1, 1), (1, 9), (5, 2), (37, 16), (2160, 7)] {
        let bands = bands::cut(height, count);
        assert_eq!(bands.len(), count.min(height));
        assert!(bands.iter().flat_map(|band| band.rows.clone()).eq(0..height));
        for band in &bands {
            assert!(!band.rows.is_empty());
            assert_eq!(band.with_halo.start, band.rows.start.saturating_sub(3));
            assert_eq!(band.with_halo.end, (band.rows.end + 3).min(height));
        }
    }
}

#[test]
fn the_readme_lists_every_example() -> TestResult {
    let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(package.join("README.md"))?;
    let listed: Vec<&str> = readme
        .lines()
        .skip_while(|line| *line != "| example | what it shows |")
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .flat_map(|line| line.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2))
        .collect();
    let mut count = 0;
    for entry in std::fs::read_dir(package.join("examples"))? {
        let name = entry?.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name != "support" {
            assert!(listed.contains(&&*name), "the README does not list the example {name}");
            count += 1;
        }
    }
    assert_eq!(listed.len(), count, "{listed:?}");
    Ok(())
}

/// On the host device a kernel's parameters are those of its twin in Rust.
#[test]
fn twins_declare_the_parameters_of_the_ptx() -> TestResult {
    let ptx = include_str!("../examples/edges/kernels.ptx");
    let kernels = Kernels::load_for(&Instance::new()?.device("host")?.context()?, false)?;
    let twins = [&kernels.blur, &kernels.gradient, &kernels.choose_scale, &kernels.stretch];
    assert_eq!(ptx.matches(".entry ").count(), twins.len());
    for twin in twins {
        let declared = ptx.split_once(&format!(".entry {}(", twin.name())).and_then(|(_, rest)| rest.split_once(')'));
        let (declared, _) = declared.ok_or_else(|| format!("the PTX has no kernel {}", twin.name()))?;
        let declared: Vec<usize> =
            declared.split(',').map(|parameter| if parameter.contains(".u64") { 8 } else { 4 }).collect();
        assert_eq!(parameter_sizes(twin), declared, "{}", twin.name());
    }
    Ok(())
}

fn parameter_sizes(kernel: &Kernel) -> Vec<usize> {
    kernel.parameters().unwrap_or_default().iter().map(|parameter| parameter.size).collect()
}
