//! Waits for the zone's lock, from a recording to the comparison with simulated ones.

use std::fs;
use std::path::Path;

use everybuddy_trace::{Acquisition, Leniency, read, write};

use super::common::{Folder, everybuddy, json, text};

/// A real recording: `everybuddy record` of three processes that create and close packet sockets with large buffers.
fn recorded() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sockets.parquet");
    path.to_str().unwrap().to_string()
}

/// The tiny trace, with acquisitions on both CPUs.
fn trace(folder: &Folder) -> String {
    let mut trace = crate::common::trace();
    let own = |time_ns, cpu, wait_ns| Acquisition {
        time_ns,
        wait_ns,
        hold_ns: 40,
        pid: 7,
        batch: 31,
        cpu,
        source: 1,
    };
    trace.acquisitions = vec![
        own(1_000, 0, 500),
        own(1_200, 1, 0),
        own(50_000, 0, 2_500),
        own(90_000, 1, 1_500),
    ];
    let file = folder.file("tiny.parquet");
    write(&trace, Path::new(&file)).unwrap();
    file
}

/// The lines of a text from one that begins so, up to an empty line.
fn section(text: &str, title: &str) -> String {
    let from = text
        .find(title)
        .unwrap_or_else(|| panic!("no {title} in {text}"));
    let section = text[from..].split("\n\n").next();
    section.unwrap_or_default().trim_end().to_string()
}

#[test]
fn acquisitions_are_described() {
    let folder = Folder::new("locks-info");
    let text = everybuddy!("trace info {}", trace(&folder)).done();
    let expected = "acquisitions of a zone's lock, recorded
  reported by               kmem:mm_zone_locked
  all                       4
  waited                    3 (1.36 per 1,000 calls)
  time spent waiting        1.020 % of the time of 2 CPUs
  waits                     median 1.5 us, 99 % 2.5 us, maximum 2.5 us
  held                      median 40 ns, 99 % 40 ns, maximum 40 ns
  blocks moved              mean 31.0, maximum 31";
    assert_eq!(section(&text, "acquisitions of"), expected);
    // Of a kernel that only reports waits.
    let text = everybuddy!("trace info {}", recorded()).done();
    assert_eq!(section(&text, "acquisitions of"), GOLDEN);
    // A trace without them does not mention them.
    let text = everybuddy!("trace info gcc_build").done();
    assert!(!text.contains("zone's lock"), "{text}");
}

/// What `trace info` prints of the recording.
const GOLDEN: &str = "acquisitions of a zone's lock, recorded
  reported by               lock:contention_*
  waited                    328 (21.08 per 1,000 calls)
  time spent waiting        0.042 % of the time of 2 CPUs
  waits                     median 2.4 us, 99 % 39.9 us, maximum 135.4 us";

#[test]
fn acquisitions_are_checked_and_cut() {
    let folder = Folder::new("locks-cut");
    let file = trace(&folder);
    let text = everybuddy!("trace check {file}").done();
    assert!(
        text.ends_with("events, 4 acquisitions of a zone's lock\n"),
        "{text}"
    );
    let part = folder.file("part.parquet");
    let run = everybuddy!("trace cut {file} -o {part} --from 1100ns --to 60us");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.err
            .contains("2 acquisitions of a zone's lock outside the cut"),
        "{}",
        run.err
    );
    let (cut, _) = read(Path::new(&part), Leniency::Strict).unwrap();
    let times: Vec<u64> = cut.acquisitions.iter().map(|own| own.time_ns).collect();
    assert_eq!(times, [100, 48_900]);

    // Those of another trace are refused, and an overlap is, too.
    let locks = folder.file("tiny.locks.parquet");
    fs::copy(folder.file("part.locks.parquet"), &locks).unwrap();
    everybuddy!("trace check {file}").refused(&["tiny.locks.parquet", "does not belong"]);
    let mut broken = crate::common::trace();
    let (mut first, _) = read(Path::new(&part), Leniency::Strict).unwrap();
    first.acquisitions[1].wait_ns = 48_900;
    first.acquisitions[0].time_ns = 30_000;
    first.acquisitions[0].cpu = 0;
    broken.acquisitions = first.acquisitions;
    write(&broken, Path::new(&file)).unwrap();
    everybuddy!("trace check {file}").refused(&[
        "tiny.locks.parquet, row 1",
        "CPU 0 waits for a zone's lock from 0 ns on",
        "--lenient",
    ]);
    // A cut that keeps none leaves no file of an older trace behind.
    everybuddy!("trace cut gcc_build -o {part} --first 1000 --force").succeeded();
    assert!(!Path::new(&folder.file("part.locks.parquet")).exists());
}

#[test]
fn waits_are_imported_and_what_is_left_out_is_said() {
    let folder = Folder::new("locks-import");
    let recording = folder.file("run.txt");
    let lines = "  sh-7   [001] d..2. 5.000001: mm_page_alloc: page=0x1 pfn=0x10 order=0 migratetype=1 gfp_flags=0
  sh-7   [001] d..2. 5.000005: contention_begin: 0000000021018bee (flags=SPIN)
  sh-7   [001] d..2. 5.000008: contention_end: 0000000021018bee (ret=0)
  sh-7   [001] d..2. 5.000012: contention_end: 0000000021018bee (ret=0)
";
    fs::write(&recording, lines).unwrap();
    let output = folder.file("run.parquet");
    let import = format!("trace import {recording} -o {output} --force");
    let said = everybuddy!("{import}");
    assert_eq!(said.code, 0, "{}", said.err);
    let text = said.err.as_str();
    for part in [
        "1 waits for locks without a known caller, omitted",
        "1 ends of waits for a lock without a beginning, omitted",
        "--zone-lock",
    ] {
        assert!(text.contains(part), "{text}");
    }
    everybuddy!("{import} --zone-lock 21018bee").noted();
    let (made, _) = read(Path::new(&output), Leniency::Strict).unwrap();
    assert_eq!(made.acquisitions.len(), 1);
    assert_eq!(made.acquisitions[0].wait_ns, 3_000);
    everybuddy!("{import} --zone-lock normal").refused(&["`normal` is not an address"]);

    // Chains in text already contain function names. The symbol list is read before the recording.
    let symbols = folder.file("symbols");
    fs::write(&symbols, "ffffffff81000300 t rmqueue_bulk\n").unwrap();
    let named = everybuddy!("{import} --kallsyms {symbols}");
    for part in ["--kallsyms was not used", "record call chains"] {
        assert!(named.err.contains(part), "{}", named.err);
    }
    let (csv, from_csv) = (folder.file("run.csv"), folder.file("csv.parquet"));
    everybuddy!("trace export {output} --to csv -o {csv}").succeeded();
    let unused = everybuddy!("trace import {csv} -o {from_csv} --kallsyms {symbols}");
    assert_eq!(unused.code, 0, "{}", unused.err);
    assert!(unused.err.contains("not used"), "{}", unused.err);
    fs::write(&symbols, "ffffffff81000300 t rmqueue_bulk\nrmqueue\n").unwrap();
    let parts = [
        "symbols, line 2",
        "`rmqueue` is not a symbol",
        "/proc/kallsyms",
    ];
    everybuddy!("{import} --kallsyms {symbols}").refused(&parts);
}

#[test]
fn recorded_waits_are_shown_next_to_simulated_ones() {
    let folder = Folder::new("locks-simulate");
    let (rows, html) = (folder.file("rows.jsonl"), folder.file("page.html"));
    let file = trace(&folder);
    let simulate = format!("simulate --trace {file} --systems bs,linux-6 --seeds 1");
    let files = format!("--json {rows} --html {html}");
    let out = everybuddy!("{simulate} --cpus 1,2 --think 1000 {files}").succeeded();
    let table = section(
        &out,
        "tiny: waits for locks on 2 CPUs, recorded and simulated",
    );
    assert!(table.contains("linux-6"), "{out}");
    let line = |name: &str| {
        let lines = out
            .lines()
            .skip_while(|line| !line.contains("waits for locks on"));
        let own = lines
            .map(str::trim_start)
            .find(|line| line.starts_with(name));
        let words = own
            .unwrap_or_else(|| panic!("no {name} in {out}"))
            .split_whitespace();
        words.map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        line("recorded"),
        ["recorded", "1.360", "1.020", "1,500", "2,500", "2,500"]
    );
    // The page has the same table.
    let page = text(html);
    let cells = |name: &str| {
        let (_, rest) = page.split_once("recorded and simulated</h3>").unwrap();
        let (_, rest) = rest.split_once(&format!(">{name}</th>")).unwrap();
        let (row, _) = rest.split_once("</tr>").unwrap();
        let cells = row.split("<td").skip(1);
        let cells =
            cells.filter_map(|cell| Some(cell.split_once('>')?.1.split_once('<')?.0.to_string()));
        std::iter::once(name.to_string())
            .chain(cells.filter(|cell| !cell.is_empty()))
            .collect::<Vec<_>>()
    };
    for name in ["recorded", "bs", "linux-6"] {
        assert_eq!(cells(name), line(name));
    }
    // The table has the numbers of the rows.
    let per_call = |name: &str| line(name)[1].parse::<f64>().unwrap();
    let rows = json(&text(rows));
    let of = |platform: &str, system: &str, cpus: u64| {
        let mut own = rows.iter().filter(|row| {
            row["metric"] == "contended_wait"
                && row["statistic"] == "rate"
                && row["platform"].as_str().unwrap().starts_with(platform)
                && row["system"] == system
                && row["cpus"] == cpus
        });
        own.next().map(|row| row["value"].as_f64().unwrap())
    };
    let recorded = of("recorded", "", 2);
    assert_eq!(recorded.map(|rate| (rate * 1e6).round()), Some(1360.0));
    assert_eq!(of("sim:", "bs", 1), Some(0.0), "one CPU never waits");
    for system in ["bs", "linux-6"] {
        let rate = of("sim:", system, 2).unwrap();
        assert!(
            rate > 0.0 && (rate * 1e3 - per_call(system)).abs() < 1e-3,
            "{system}: {out}"
        );
    }

    // On another number of CPUs there is nothing to compare.
    let out = everybuddy!("{simulate} --cpus 1 --think 50").done();
    assert!(out.contains("add 2 to --cpus"), "{out}");
}
