//! Extracts the code for OSTD from the guide of everybuddy-adapters, without the lines that stand for OSTD in tests.
use std::path::PathBuf;
use std::{env, fs};

const GUIDE: &str = "../../crates/everybuddy-adapters/README.md";

fn main() {
    println!("cargo::rerun-if-changed={GUIDE}");
    let guide = fs::read_to_string(GUIDE).expect("the guide is there");
    let (_, section) = guide
        .split_once("\n## OSTD\n")
        .expect("the guide has a section for OSTD");
    let (_, code) = section
        .split_once("\n```rust\n")
        .expect("the section has code");
    let (code, _) = code.split_once("\n```\n").expect("the code has an end");
    let visible = code
        .lines()
        .filter(|line| *line != "#" && !line.starts_with("# "));
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let code = visible.collect::<Vec<_>>().join("\n");
    fs::write(folder.join("guide.rs"), code).expect("the folder is there");
}
