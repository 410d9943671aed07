//! The library as C programs see it: the header is the interface, and programs in C and C++ pass.
//!
//! The programs link the example `everybuddy_hosted`, which `cargo test -p everybuddy-c` builds. `ci/c.sh` runs them
//! with the library that is installed, with two compilers and with sanitizers.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the folder of the example, which is next to that of the tests.
fn libraries() -> PathBuf {
    let test = env::current_exe().expect("this program has a path");
    let folder = test
        .parent()
        .and_then(Path::parent)
        .expect("it lies in deps");
    folder.join("examples")
}

/// Runs a command and returns its output.
fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}{errors}",
        output.status
    );
    out
}

/// Compiles a program and runs it. Returns `None` if the compiler is missing.
fn program(compiler: &str, standard: &str, source: &str, arguments: &[&str]) -> Option<String> {
    if Command::new(compiler).arg("--version").output().is_err() {
        eprintln!("{source} is skipped: there is no {compiler} (ci/install.sh cc)");
        return None;
    }
    let libraries = libraries();
    let library = libraries.join("libeverybuddy_hosted.so");
    assert!(
        library.exists(),
        "no {}: run `cargo test -p everybuddy-c`",
        library.display()
    );
    let path = libraries.join(format!("everybuddy_c_{}", source.replace('.', "_")));
    let mut compile = Command::new(compiler);
    compile.args([
        standard,
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-pthread",
    ]);
    compile
        .arg(format!("-I{CRATE}/include"))
        .arg(format!("{CRATE}/tests/c/{source}"));
    compile
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", libraries.display()));
    run(compile.arg("-o").arg(&path));
    Some(run(Command::new(path).args(arguments)))
}

#[test]
fn the_header_is_the_interface() {
    run(Command::new("bash")
        .arg(format!("{CRATE}/header.sh"))
        .arg("check"));
}

#[test]
fn the_documentation_names_every_function_and_every_code() {
    let read = |path: &str| {
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let header = read(&format!("{CRATE}/include/everybuddy.h"));
    let document = read(&format!("{CRATE}/README.md"));
    let words = |text: &str| -> Vec<String> {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        text.split(|letter| !is_name(letter))
            .map(str::to_owned)
            .collect()
    };
    let documented = words(&document);
    let mut names = Vec::new();
    for line in header
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
    {
        let code = line
            .trim()
            .split(" = ")
            .next()
            .filter(|name| name.starts_with("EB_ERROR_"));
        let function = line
            .split_once('(')
            .map(|(before, _)| before)
            .and_then(|before| {
                let is_declared = !line.starts_with([' ', '#']);
                before
                    .rsplit([' ', '*'])
                    .next()
                    .filter(|name| is_declared && name.starts_with("eb_"))
            });
        names.extend(code.or(function).filter(|name| !name.contains(' ')));
    }
    assert!(names.len() > 80, "{names:?}");
    for name in names {
        assert!(
            documented.iter().any(|word| word == name),
            "README.md does not name {name}"
        );
    }
}

#[test]
fn the_example_runs() {
    if let Some(output) = program("cc", "-std=c11", "example.c", &[]) {
        assert!(
            output.contains("freed twice: the frame is free already"),
            "{output}"
        );
        assert!(output.ends_with("free: 65536 frames\n"), "{output}");
    }
}

#[test]
fn systems_conform_through_c() {
    if let Some(output) = program("cc", "-std=c11", "conformance.c", &["2000"]) {
        let systems = everybuddy::systems::ROWS.len();
        assert!(
            output.starts_with(&format!("conformance: {systems} systems")),
            "{output}"
        );
    }
}

#[test]
fn misuse_has_a_code() {
    program("cc", "-std=c11", "misuse.c", &[]);
}

#[test]
fn the_rest_of_the_interface_works() {
    program("cc", "-std=c11", "rest.c", &[]);
}

#[test]
fn a_cpu_that_is_in_no_call_lends_what_it_keeps() {
    program("cc", "-std=c11", "lend.c", &["4000"]);
}

#[test]
fn threads_share_a_system() {
    program("cc", "-std=c11", "threads.c", &["4000"]);
}

#[test]
fn the_header_is_cxx_too() {
    program("c++", "-std=c++17", "cxx.cpp", &[]);
}
