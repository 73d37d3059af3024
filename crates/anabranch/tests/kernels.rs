//! The PTX that is kept in the repository is of the sources beside it. `cargo xtask kernels` makes it.

use sha2::{Digest, Sha256};
use std::error::Error;
use std::path::{Path, PathBuf};

type TestResult = Result<(), Box<dyn Error>>;

/// Every CUDA source in this package, and that of the conformance cases where this is the whole repository.
fn sources() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut directories = vec![package.join("examples"), package.join("tests")];
    directories.extend(Some(package.join("../anabranch-conformance/src")).filter(|directory| directory.is_dir()));
    let mut sources = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "cu") {
                sources.push(path);
            }
        }
    }
    assert!(sources.len() >= 2, "{sources:?}");
    Ok(sources)
}

/// What the comment at the start of a PTX file says after `key`.
fn stamp<'a>(ptx: &'a str, key: &str) -> Option<&'a str> {
    ptx.lines().take_while(|line| line.starts_with("//")).find_map(|line| line.strip_prefix("// ")?.strip_prefix(key))
}

/// The kernels of a PTX file, each with its parameter list.
fn entries(ptx: &str) -> Vec<(String, String)> {
    let entry = |text: &str| {
        let (name, rest) = text.split_once('(')?;
        let (parameters, _) = rest.split_once(')')?;
        Some((name.to_owned(), parameters.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    ptx.split(".entry ").skip(1).filter_map(entry).collect()
}

#[test]
fn every_ptx_is_of_its_source_as_it_is_now() -> TestResult {
    for source in sources()? {
        let ptx = std::fs::read_to_string(source.with_extension("ptx"))?;
        let digest = Sha256::digest(std::fs::read(&source)?);
        let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let place = source.display();
        assert_eq!(stamp(&ptx, "SHA-256 of the source: "), Some(&*hash), "run `cargo xtask kernels` for {place}");
        assert_eq!(stamp(&ptx, "Compiler: "), Some("NVRTC 12.0"), "{place}: older drivers would not load its PTX");
        assert!(!entries(&ptx).is_empty(), "{place}");
    }
    Ok(())
}

#[cfg(feature = "cuda")]
#[test]
fn the_compiler_makes_the_same_kernels() -> TestResult {
    use anabranch_hal::{CompileRequest, OutputKind};

    let compiler = match anabranch_cuda::load_compiler() {
        Ok(compiler) => compiler,
        Err(absence) => {
            eprintln!("skipped: {absence}");
            return Ok(());
        }
    };
    let oldest = compiler.architectures()?.into_iter().min().unwrap_or(70).max(70);
    for path in sources()? {
        let kept = std::fs::read_to_string(path.with_extension("ptx"))?;
        let options = stamp(&kept, "Options: ").ok_or("the PTX has no stamp")?;
        // Compilers after CUDA 12 have no Volta any more.
        let options = options.replace("compute_70", &format!("compute_{oldest}"));
        let options: Vec<String> = options.split(' ').map(str::to_owned).collect();
        let (source, name) = (std::fs::read_to_string(&path)?, path.file_name().unwrap_or_default().to_string_lossy());
        let request = CompileRequest {
            source: &source,
            name: &name,
            options: &options,
            name_expressions: &[],
            output: OutputKind::Ptx,
        };
        let output = compiler.compile(&request).map_err(|failure| format!("{}: {failure}", path.display()))?;
        let made = String::from_utf8(output.image)?;
        assert_eq!(entries(&kept), entries(&made), "{}", path.display());
    }
    Ok(())
}
