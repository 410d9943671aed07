//! Files of moments: what is appended, what is read in spite of damage, and how the program answers by them.

use std::path::Path;

use everybuddy_memory::history::{self, History, Moment};
use everybuddy_memory::need::{self, Need};
use everybuddy_memory::{State, show};

use crate::command::{file, run, text};

/// A machine with all tables that root reads.
fn machine() -> State {
    let names = ["k1-buddyinfo.txt", "k1-pagetypeinfo.txt", "k1-zoneinfo.txt"];
    let all: Vec<u8> = names.into_iter().flat_map(crate::common::text).collect();
    crate::common::states(&all).remove(0)
}

/// The time of the first moment of most tests.
const START: u64 = 1_800_000_000;

fn moment(time: u64) -> Moment {
    Moment::of(&machine(), time)
}

/// Runs the program with a file of these lines.
fn run_on(lines: &str, options: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    std::fs::write(&path, lines).unwrap();
    run(&[&[path.to_str().unwrap()], options].concat())
}

fn read(path: &Path) -> History {
    let mut history = History::default();
    history.read(&std::fs::read(path).unwrap());
    history
}

#[test]
fn moments_are_appended_and_read_from_both_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let line = moment(7).line();
    // A limit of two lines: the third one begins a new file.
    for _ in 0..3 {
        history::append(&path, &line, 2 * line.len() as u64).unwrap();
    }
    let former = folder.path().join("a.jsonl.1");
    assert_eq!(std::fs::read_to_string(&former).unwrap(), line.repeat(2));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), line);
    let names = [&former, &path].map(|path| path.display().to_string());
    let output = run(&[&names[0], &names[1]]);
    let words = text(&output.stdout);
    assert!(
        words.starts_with("3 moments from 1970-01-01 00:00 UTC"),
        "{words}"
    );
    // By its contents, whatever its name is.
    let other = folder.path().join("other");
    std::fs::rename(&path, &other).unwrap();
    let output = run(&[other.to_str().unwrap()]);
    assert!(text(&output.stdout).starts_with("1 moment"));
    let output = run(&[other.to_str().unwrap(), &file("k1-buddyinfo.txt")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("together with other files"));
}

#[test]
fn a_line_after_a_torn_one_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let [one, two] = [moment(START).line(), moment(START + 60).line()];
    history::append(&path, &one, u64::MAX).unwrap();
    // What a full disk leaves.
    history::append(&path, &two[..two.len() / 2], u64::MAX).unwrap();
    history::append(&path, &two, u64::MAX).unwrap();
    let read = read(&path);
    let times: Vec<u64> = read.moments.iter().map(|own| own.time).collect();
    assert_eq!(times, [START, START + 60]);
    assert_eq!(read.left_out, 1);
    let output = run(&[path.to_str().unwrap(), "--html", "-"]);
    let note = "1 line is left out: torn, or not of a history";
    assert!(text(&output.stderr).contains(note));
    assert!(text(&output.stdout).contains(note));
}

#[cfg(unix)]
#[test]
fn a_new_file_is_not_for_everybody() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    history::append(&path, "x\n", 2).unwrap();
    history::append(&path, "x\n", 2).unwrap();
    for path in [path, folder.path().join("a.jsonl.1")] {
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0, "{mode:o}");
    }
}

#[test]
fn odd_lines_are_left_out_and_counted() {
    let good = moment(START).line();
    let changed = |from: &str, to: &str| {
        assert!(good.contains(from), "{from} is not in {good}");
        good.replacen(from, to, 1)
    };
    let blocks = format!("{:?}", moment(START).zones[0].blocks).replace(' ', "");
    let odd = [
        "{\"zones\":[]}".to_owned(),
        "[]".to_owned(),
        "\u{0}\u{0}".to_owned(),
        changed(&START.to_string(), "1e300"),
        changed(&START.to_string(), "-1"),
        changed(&START.to_string(), &u64::MAX.to_string()),
        changed(&blocks, "null"),
        changed(&blocks, "[]"),
        changed(&blocks, &format!("{:?}", vec![1; 1000])),
        changed("\"frame_bytes\":4096", "\"frame_bytes\":0"),
        changed("\"frame_bytes\":4096", "\"frame_bytes\":4097"),
        changed("\"held_kib\":{", "\"held_kib\":{\"x\":\"<b>\","),
    ];
    for odd in odd {
        let odd = odd.trim();
        let output = run_on(&format!("{good}{odd}\n{good}"), &["--html", "-"]);
        let page = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{odd}");
        assert!(
            page.contains("2 moments from 2027-01-15 08:00 UTC"),
            "{odd}: {page}"
        );
        assert!(page.contains("1 line is left out"), "{odd}: {page}");
        assert!(
            !page.contains("NaN") && !page.contains("inf"),
            "{odd}: {page}"
        );
        let output = run_on(odd, &["--html", "-"]);
        assert_eq!(output.status.code(), Some(2), "{odd}");
        assert_eq!(text(&output.stdout), "");
        assert!(text(&output.stderr).contains("no line is a record of a history"));
    }
}

#[test]
fn a_clock_that_was_not_set_does_not_narrow_the_chart() {
    let times = [7, START, START + 60, 9, START + 120];
    let lines: String = times.into_iter().map(|time| moment(time).line()).collect();
    let output = run_on(&lines, &["--html", "-"]);
    let page = text(&output.stdout);
    assert!(
        page.contains("<polyline points=\"10.0,20.0 400.0,20.0 790.0,20.0\"/>"),
        "{page}"
    );
    assert!(!page.contains("1970"), "{page}");
    let note = "2 lines are not drawn: from before the clock was set";
    assert!(page.contains(note), "{page}");
    assert!(text(&output.stderr).contains(note));
    // A clock that is never set, and one that is set back.
    let never: String = [7, 9].map(|time| moment(time).line()).concat();
    assert!(text(&run_on(&never, &[]).stdout).starts_with("2 moments from 1970-01-01 00:00 UTC"));
    let back: String = [START + 60, START, START + 30]
        .map(|time| moment(time).line())
        .concat();
    let page = text(&run_on(&back, &["--html", "-"]).stdout);
    assert!(
        page.contains("<polyline points=\"790.0,20.0 10.0,20.0 400.0,20.0\"/>"),
        "{page}"
    );
}

#[test]
fn sentences_say_since_when_blocks_are_missing_and_what_grew() {
    let (full, mut less) = (moment(START), moment(START + 3600));
    for blocks in less.zones.iter_mut().flat_map(|zone| &mut zone.blocks) {
        *blocks /= 3;
    }
    let mut full = full;
    full.held_kib = [("Cached", 1024), ("<b>", 1), ("Shmem", 9)]
        .map(|(name, kib)| (name.into(), kib))
        .into();
    less.held_kib = [("Cached", 3072), ("<b>", 9), ("Shmem", 8)]
        .map(|(name, kib)| (name.into(), kib))
        .into();
    let lines = [full.line(), less.line()].concat();
    let output = run_on(&lines, &[]);
    assert_eq!(output.status.code(), Some(0));
    let words = text(&output.stdout);
    let (now, most) = (less.free_blocks(2 << 20), full.free_blocks(2 << 20));
    let grouped = everybuddy_text::size::grouped;
    let expected = format!(
        "Blocks of 2 MiB: {} free at the last moment; the most were {} (2027-01-15 08:00 UTC). Fewer than half as \
         many have been free since 2027-01-15 09:00 UTC.\n  Growth since that maximum: Cached by 2 MiB, <b> by 8 \
         KiB.\n",
        grouped(now),
        grouped(most)
    );
    assert!(words.contains(&expected), "{words}{expected}");
    let page = text(&run_on(&lines, &["--html", "-"]).stdout);
    assert!(
        page.contains("<p class=\"verdict no\">Blocks of 4 MiB"),
        "{page}"
    );
    assert!(
        page.contains("Cached by 2 MiB, &lt;b&gt; by 8 KiB"),
        "{page}"
    );
    assert!(!page.contains("<script"), "{page}");
}

#[test]
fn the_last_moment_decides_like_the_machine() {
    let machine = machine();
    let restored = Moment::of(&machine, 7).state("a.jsonl", 1);
    for text in [
        "1x2MiB",
        "100000x2MiB",
        "200x2MiB,movable",
        "1x64KiB,zone=DMA",
        "1x1GiB",
        "1x4KiB,node=1",
    ] {
        let need: Need = text.parse().unwrap();
        let (live, past) = (
            need::decide(&machine, &need),
            need::decide(&restored, &need),
        );
        assert_eq!(past.outcome, live.outcome, "{} / {}", past.line, live.line);
        assert!(
            past.line.ends_with("; at 1970-01-01 00:00 UTC"),
            "{}",
            past.line
        );
    }
    let line = Moment::of(&machine, START).line();
    assert_eq!(Moment::parse(line.as_bytes()).unwrap().line(), line);
}

#[test]
fn needs_set_the_exit_code() {
    let mut less = moment(START + 60);
    for zone in &mut less.zones {
        zone.blocks.fill(0);
        zone.classes.clear();
    }
    let (full, less) = (moment(START).line(), less.line());
    for (lines, need, code) in [
        ([&full, &full], "1x2MiB", 0),
        ([&full, &less], "1x2MiB", 4),
        ([&less, &full], "1x2MiB", 0),
        ([&full, &full], "100000x1GiB", 3),
    ] {
        let lines = lines.map(String::as_str).concat();
        let output = run_on(&lines, &["--need", need]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).lines().count(), 1);
        let page = run_on(&lines, &["--need", need, "--html", "-"]);
        assert_eq!(page.status.code(), Some(code));
        assert!(text(&page.stdout).contains("<main class=\"answer\">\n<p class=\"verdict "));
    }
}

#[test]
fn options_that_a_history_does_not_permit_are_refused() {
    let line = moment(START).line();
    for options in [
        &["--json", "-"][..],
        &["--prometheus", "-"],
        &["--all"],
        &["--tables"],
        &["--frame-size", "4KiB"],
        &["--watch", "1"],
    ] {
        let output = run_on(&line, options);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert_eq!(text(&output.stdout), "");
        let message = format!("{} cannot be used with a history", options[0]);
        assert!(text(&output.stderr).contains(&message), "{options:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl").display().to_string();
    for options in [
        &["--need", "1x2MiB"][..],
        &["--json", "-"],
        &["--html", "-"],
        &["--prometheus", "-"],
        &["--all"],
        &["/proc"],
    ] {
        let output = run(&[&["--every", "60s", "-o", &path], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(
            text(&output.stderr).contains("cannot be used with"),
            "{options:?}"
        );
    }
    assert_eq!(run(&["--every", "60x", "-o", "-"]).status.code(), Some(2));
    assert_eq!(show::history::text(&History::default()), "\n");
}
