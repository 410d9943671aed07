//! The program as it is installed: all that it needs is part of it, and it writes its own completions and manual pages.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Folder, Run, command, everybuddy, json, shows, text, words};

/// The program in a folder of its own, without the project.
struct Installed {
    folder: Folder,
    program: PathBuf,
}

impl Installed {
    fn new() -> Installed {
        let folder = Folder::new("installed");
        let program = folder.path().join("everybuddy");
        std::fs::copy(env!("CARGO_BIN_EXE_everybuddy"), &program).unwrap();
        std::fs::create_dir_all(folder.path().join("empty")).unwrap();
        Installed { folder, program }
    }

    /// Runs a program in an empty folder, with an empty folder in place of the project if the kernel allows that.
    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let hide = "mount -t tmpfs none \"$0\" && exec \"$@\"";
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = if namespaces() {
            let mut command = Command::new("unshare");
            command.args(["--map-root-user", "--mount", "sh", "-c", hide]);
            command.arg(project.canonicalize().unwrap()).arg(program);
            command
        } else {
            Command::new(program)
        };
        let command = command
            .args(arguments)
            .current_dir(self.folder.path().join("empty"))
            .env_remove("EVERYBUDDY_TRACES");
        command.output().unwrap()
    }

    /// Runs the installed program and returns what it printed.
    fn everybuddy(&self, line: &str) -> String {
        let run = self.run(self.program.to_str().unwrap(), &words(line));
        let err = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{line}: {err}");
        String::from_utf8(run.stdout).unwrap()
    }
}

/// Returns `true` if a process may have mounts of its own.
fn namespaces() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c"]);
    let run = command.arg("mount -t tmpfs none /mnt").output();
    run.is_ok_and(|run| run.status.success())
}

#[test]
fn an_installed_program_needs_no_checkout() {
    let installed = Installed::new();
    if namespaces() {
        let project = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        let listed = installed.run("ls", &["-A", project]).stdout;
        assert_eq!(listed, b"", "the project is in reach");
    } else {
        println!("note: this kernel allows no mounts here, so the project stays in reach");
    }
    let table = installed.everybuddy("compare --systems bs,lbs-31");
    shows(&table, &["gcc_build", "dbench_tar", "numpy_thp"]);
    let page = installed.folder.path().join("empty/everybuddy-report.html");
    assert!(page.is_file());
    let simulate = "simulate --systems bs --cpus 2 --machine x5570 --trace sysbench_mt_cut";
    for (line, word) in [
        ("bench --systems bs --workloads hot --shrink 100", "hot"),
        (&format!("{simulate} --shrink 50"), "sysbench_mt_cut"),
        ("reproduce space-size --shrink 100", "space-size"),
        ("machines x5570", "x5570"),
        ("traces", "sysbench_mt_cut"),
        ("trace info gcc_build", "431,168"),
    ] {
        let out = installed.everybuddy(line);
        assert!(out.contains(word), "{line}: {out}");
    }
}

#[test]
fn bundled_traces_are_listed_with_their_numbers() {
    let list = everybuddy!("traces").done();
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces")).unwrap();
    let mut names: Vec<String> = files
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".parquet").map(String::from))
        .filter(|name| !name.contains('.'))
        .collect();
    let mut listed = Vec::new();
    for own in json(&everybuddy!("traces --json").done()) {
        let name = own["name"].as_str().unwrap();
        assert!(list.contains(name) && own["calls"].as_u64() > Some(80_000));
        listed.push(name.to_string());
    }
    names.sort();
    listed.sort();
    assert_eq!(listed, names, "the folder and the program");
}

#[test]
fn a_folder_of_other_traces_replaces_the_bundled_ones() {
    let folder = Folder::new("other-traces");
    folder.trace();
    let run = |place: &str, trace: &str| {
        let mut command = command(&["trace", "check", trace]);
        Run::of(command.env("EVERYBUDDY_TRACES", place).output().unwrap())
    };
    let place = folder.path().to_str().unwrap();
    run(place, "tiny").done();
    run(place, "gcc_build").refused(&["no gcc_build.parquet in", "help: "]);
    run("/no/such/folder", "gcc_build").refused(&["is not a folder", "help: "]);
}

#[test]
fn every_shell_gets_a_script_with_all_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = everybuddy!("completions {shell}").done();
        for word in ["compare", "simulate", "traces", "--systems", "--parquet"] {
            // Fish writes options without their dashes.
            let word = if shell == "fish" {
                word.trim_start_matches('-')
            } else {
                word
            };
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn bash_completes_with_the_script() {
    let folder = Folder::new("completions");
    let script = folder.file("everybuddy.bash");
    std::fs::write(&script, everybuddy!("completions bash").done()).unwrap();
    let ask = "source \"$0\"; COMP_WORDS=(everybuddy tra); COMP_CWORD=1; \
               _everybuddy everybuddy tra everybuddy; echo \"${COMPREPLY[@]}\"";
    let Ok(run) = Command::new("bash").args(["-c", ask, &script]).output() else {
        println!("note: bash is not installed");
        return;
    };
    let answer = String::from_utf8(run.stdout).unwrap();
    assert_eq!(answer.trim(), "trace traces", "{:?}", run.stderr);
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = Folder::new("man");
    let place = folder.file("share/man1");
    let run = everybuddy!("man {place}");
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    let page = |name: &str| text(format!("{place}/{name}.1"));
    assert!(page("everybuddy").contains("everybuddy\\-compare(1)"));
    let help = everybuddy!("compare --help").done();
    let compare = page("everybuddy-compare").replace("\\-", "-");
    for word in ["--systems", "--parquet", "Examples:"] {
        assert!(compare.contains(word) && help.contains(word), "{compare}");
    }
    assert!(page("everybuddy-trace-cut").starts_with(".ie"));
    let files = std::fs::read_dir(&place).unwrap().count();
    assert!(
        run.err.contains(&format!("wrote {files} pages")),
        "{}",
        run.err
    );
}
