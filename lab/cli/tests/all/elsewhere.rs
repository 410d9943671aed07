//! Cells that run elsewhere: the commands of any run, which leave the same rows as the run itself.

use std::process::Command;

use super::common::{Folder, everybuddy, process, text};

/// Runs command lines in another folder, as a scheduler does.
fn run(commands: &[&str]) {
    for line in commands {
        let mut shell = Command::new("sh");
        let run = shell.current_dir("/").args(["-c", line]).output().unwrap();
        let err = String::from_utf8_lossy(&run.stderr);
        assert!(
            run.status.success() && run.stdout.is_empty(),
            "{line}: {err}"
        );
    }
}

/// Divides a run into commands, runs them in two parts, and returns the files of rows of the run here and of the
/// commands.
fn divided(name: &str, line: &str, cells: usize) -> [String; 2] {
    let folder = Folder::new(name);
    let files = ["here", "there"].map(|name| folder.file(name));
    process!("{line} --json {}", files[0]).noted();
    let kept = folder.file("cells");
    let print = || process!("{line} --resume {kept} --print-commands").noted();
    let all = print();
    let all: Vec<&str> = all.lines().collect();
    assert_eq!(all.len(), cells, "{all:?}");
    assert!(all[0].starts_with("sh -c ") && !all[0].contains("print-commands"));
    let (some, others): (Vec<_>, Vec<_>) = (0..).zip(&all).partition(|(at, _)| at % 2 == 1);
    let [some, others] = [some, others].map(|own| own.into_iter().map(|own| *own.1).collect());
    let (some, others): (Vec<&str>, Vec<&str>) = (some, others);
    run(&some);
    assert_eq!(print().lines().collect::<Vec<_>>(), others);
    run(&others);
    // A command that has run does nothing more.
    run(&all[..1]);
    assert_eq!(print(), "");
    let whole = process!("{line} --resume {kept} --json {}", files[1]);
    assert!(whole.err.contains(&format!(
        "{cells} of {cells} cells are finished, 0 are left"
    )));
    whole.noted();
    files.map(|file| text(&file))
}

#[test]
fn commands_of_a_simulation_leave_its_rows() {
    let line = "simulate --machine x5570 --systems bs,is --memory 64MiB --think 100 --shrink 64 --workloads \
                burst:in-order,batch --cpus 1,4 --seeds 2";
    let [here, there] = divided("simulated-elsewhere", line, 16);
    assert_eq!(here, there);
}

#[test]
fn commands_of_a_run_to_the_limit_leave_its_rows() {
    let line = "simulate --machine x5570 --systems bs,is --memory 64MiB --think 100 --shrink 64 --workloads \
                burst:in-order --cpus 1,2,4,8 --seeds 1 --to-limit";
    let [here, there] = divided("limit-elsewhere", line, 8);
    assert_eq!(here, there);
    let most = |row: &&str| row.contains("\"system\":\"bs\"") && row.contains("\"cpus\":8,");
    assert_eq!(here.lines().find(most), None, "it has stopped before");
}

#[test]
fn commands_of_experiments_leave_their_rows() {
    let line = "reproduce --shrink 100 coalescing odd-sizes";
    let [here, there] = divided("reproduced-elsewhere", line, 6);
    assert_eq!(here, there);
}

#[test]
fn commands_of_times_leave_rows_of_the_same_numbers() {
    let line = "bench --systems bs,is --workloads hot:order0 --shrink 64 --rounds 2 --threads 1";
    let [here, there] = divided("measured-elsewhere", line, 1);
    assert_eq!(here.lines().count(), there.lines().count());
}

#[test]
fn a_command_that_fits_no_run_is_refused() {
    let folder = Folder::new("refused-elsewhere");
    let line = "reproduce coalescing --shrink 100";
    let cells = folder.file("cells");
    for option in ["--print-commands", "--cell 0123", "--ray auto"] {
        let name = option.split(' ').next().unwrap();
        let help = "help: add --resume DIR";
        everybuddy!("{line} {option}")
            .refused(&[&format!("{name}: cells that run elsewhere"), help]);
    }
    let missing = "no such folder on this machine";
    everybuddy!("{line} --resume {cells} --cell 0123").refused(&[missing]);
    let printed = process!("{line} --resume {cells} --print-commands").noted();
    let command = printed.lines().next().unwrap();
    let (_, key) = command.rsplit_once("--cell=").unwrap();
    // The same cell of another run.
    everybuddy!("{line} --seed 2 --resume {cells} --cell {key}").refused(&[
        &format!("--cell {key}: the run has no such cell"),
        "print the commands again",
    ]);
    everybuddy!("{line} --resume {cells} --cell {key} --json -").refused(&["cannot be used with"]);
    run(&[command]);
    assert_eq!(
        printed.lines().count() - 1,
        process!("{line} --resume {cells} --print-commands")
            .noted()
            .lines()
            .count()
    );
}
