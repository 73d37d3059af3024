//! Guides: the documents of the repository that are about using the library.
//!
//! The repository has further documents: `docs/architecture.md` describes the crates and their mechanisms, `docs/hardware.md`
//! lists what was run on which hardware, and `BENCHMARKS.md` has measurements.
//!
//! Here, links lead to the guides. In the repository, they lead to the files. The first definition of a link is the one that
//! counts.

/// Capture, and building graphs by hand.
#[doc = ""]
#[doc = "[glossary]: crate::guide::glossary"]
#[doc = ""]
#[doc = include_str!("../docs/graphs.md")]
pub mod graphs {}

/// What every device does.
#[doc = ""]
#[doc = "[glossary]: crate::guide::glossary"]
#[doc = "[hardware.md]: crate::guide"]
#[doc = ""]
#[doc = include_str!("../docs/semantics.md")]
pub mod semantics {}

/// What safe code cannot do.
#[doc = ""]
#[doc = "[architecture.md]: crate::guide"]
#[doc = "[checker]: crate::guide"]
#[doc = "[glossary]: crate::guide::glossary"]
#[doc = "[hardware.md]: crate::guide"]
#[doc = "[misuse.md]: crate::guide::misuse"]
#[doc = "[semantics]: crate::guide::semantics"]
#[doc = ""]
#[doc = include_str!("../docs/safety.md")]
pub mod safety {}

/// What happens if an item is misused.
#[doc = ""]
#[doc = "[safety.md]: crate::guide::safety"]
#[doc = ""]
#[doc = include_str!("../docs/misuse.md")]
pub mod misuse {}

/// Environment variables.
#[doc = ""]
#[doc = "[builder]: crate::InstanceBuilder"]
#[doc = ""]
#[doc = include_str!("../docs/environment.md")]
pub mod environment {}

/// The functions of the CUDA driver about streams.
#[doc = ""]
#[doc = "[list]: crate::guide"]
#[doc = ""]
#[doc = include_str!("../docs/stream-functions.md")]
pub mod stream_functions {}

/// The terms.
#[doc = ""]
#[doc = include_str!("../docs/glossary.md")]
pub mod glossary {}
