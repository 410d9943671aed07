//! Lists the experiments: every folder of `src` that holds an `experiment.toml`, in the order of the names.
//!
//! A new experiment is one new file.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let source = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("src");
    println!("cargo::rerun-if-changed={}", source.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(source)? {
        let folder = entry?;
        let file = folder.path().join("experiment.toml");
        if file.exists() {
            let name = folder.file_name().to_string_lossy().replace('_', "-");
            found.push(format!(
                "    ({name:?}, include_str!({:?})),\n",
                file.display().to_string()
            ));
        }
    }
    found.sort();
    let text = format!(
        "/// The experiments that come with the program: their names and their files.\n\
         const EXPERIMENTS: &[(&str, &str)] = &[\n{}];\n",
        found.concat()
    );
    let folder = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&folder).join("experiments.rs"), text)
}
