//! Runs that start with the memory of a machine, and its numbers as Parquet.

use serde_json::Value;

use crate::common::{Folder, Run, everybuddy, trace};

/// Free blocks of a synthetic machine: 4,223 frames.
const BLOCKS: [u64; 11] = [7, 6, 5, 4, 3, 2, 1, 1, 1, 1, 3];
const FREE: u64 = 7 + 12 + 20 + 32 + 48 + 64 + 64 + 128 + 256 + 512 + 3072;
/// Its zone begins at 4 GiB, with 12 blocks of order 10.
const START: u64 = 1 << 20;
const MANAGED: u64 = 12 << 10;

fn buddyinfo() -> String {
    let blocks = BLOCKS.map(|count| format!("{count:>7}")).concat();
    format!(
        "Node 0, zone      DMA      0      0      0      0      0      0      0      0      0      0      1\n\
             Node 0, zone   Normal{blocks}\n"
    )
}

fn zoneinfo() -> String {
    format!(
        "Node 0, zone   Normal\n  pages free     {FREE}\n        min      0\n        low      0\n        \
         high     0\n        spanned  {MANAGED}\n        present  {MANAGED}\n        managed  {MANAGED}\n  \
         pagesets\n    cpu: 0\n              count: 0\n  start_pfn:           {START}\n"
    )
}

/// Returns the flags of all frames: free ones in blocks that are not next to each other, and anonymous ones.
fn kpageflags() -> Vec<u8> {
    let (free, used) = (1u64 << 10, 1u64 << 5 | 1 << 12);
    let mut words = vec![0; START as usize];
    words.resize((START + MANAGED) as usize, used);
    let mut place = START as usize;
    for (order, count) in BLOCKS.iter().enumerate().rev() {
        for _ in 0..*count {
            // The first half of a block of the next order, except for the largest ones.
            words[place..place + (1 << order)].fill(free);
            place += 1 << (order + 1).min(10);
        }
    }
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

/// Writes a file of the machine, and returns its path.
fn file(folder: &Folder, name: &str) -> String {
    let path = folder.file(name);
    let bytes = match name {
        "synthetic-buddyinfo" => buddyinfo().into_bytes(),
        "synthetic-zoneinfo" => zoneinfo().into_bytes(),
        "synthetic-iomem" => b"00000000-ffffffffff : System RAM\n".to_vec(),
        _ => kpageflags(),
    };
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Writes a table of 50 free frames.
fn small(folder: &Folder) -> String {
    let path = folder.file("small");
    std::fs::write(&path, "Node 0, zone Normal 50 0 0 0 0 0 0 0 0 0 0\n").unwrap();
    path
}

fn rows(run: &Run) -> Vec<Value> {
    assert_eq!(run.code, 0, "{}", run.err);
    let lines = run.out.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the values of `bs` for a metric, order by order.
fn of_bs(rows: &[Value], metric: &str, statistic: &str) -> Vec<(u64, f64)> {
    let own = |row: &&Value| {
        row["system"] == "bs" && row["metric"] == metric && row["statistic"] == statistic
    };
    let own = rows.iter().filter(own);
    own.map(|row| {
        (
            row["order"].as_u64().unwrap_or(99),
            row["value"].as_f64().unwrap(),
        )
    })
    .collect()
}

#[test]
fn comparisons_start_with_the_free_blocks_of_a_machine() {
    let folder = Folder::new("start");
    let tiny = folder.trace();
    let tables = [
        file(&folder, "synthetic-buddyinfo"),
        file(&folder, "synthetic-zoneinfo"),
    ]
    .join(",");
    let flags = [
        file(&folder, "synthetic-kpageflags"),
        file(&folder, "synthetic-zoneinfo"),
    ]
    .join(",");
    let compare = |start: &str, more: &[&str]| {
        let own = [
            "compare",
            &tiny,
            "--start",
            start,
            "--systems",
            "bs,everybuddy",
            "--no-html",
        ];
        everybuddy(&[&own[..], more].concat())
    };
    for (start, name, described) in [
        (
            &tables,
            "random:synthetic-buddyinfo",
            "random memory with the counts of synthetic-buddyinfo",
        ),
        (
            &flags,
            "synthetic-kpageflags",
            "memory as in synthetic-kpageflags",
        ),
    ] {
        let table = compare(start, &[]);
        assert_eq!(table.code, 0, "{}", table.err);
        let text = table.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let described = format!("room 16 MiB free of 48 MiB, {described}:Node-0-Normal");
        assert!(text.contains(&described), "{text}");
        let json = rows(&compare(start, &["--json", "-"]));
        let experiment = format!("compare+memory=16MiB+start={name}:Node-0-Normal");
        let is_own = |row: &Value| {
            row["experiment"].as_str().unwrap().split('@').next() == Some(&experiment[..])
        };
        assert!(json.iter().all(is_own), "{experiment}");
        // The trace needs 228 frames: three blocks of 4 MiB stay whole, which is what the state has, and no more.
        let most = of_bs(&json, "free_blocks", "value")
            .into_iter()
            .filter(|(order, _)| *order == 10);
        assert_eq!(most.map(|(_, count)| count).fold(0.0, f64::max), 3.0);
        let least = of_bs(&json, "free_blocks", "min");
        assert!(least.contains(&(10, 3.0)), "{least:?}");
    }
    // The same seed draws the same memory.
    let counted = |seed: &str| {
        let json = rows(&compare(&tables, &["--json", "-", "--seed", seed]));
        let timed = ["latency", "throughput"].map(Value::from);
        let counted = json
            .into_iter()
            .filter(|row| !timed.contains(&row["metric"]));
        counted.map(|row| row.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(counted("5"), counted("5"));
    // An earlier run is shown with its start.
    let earlier = folder.file("earlier.jsonl");
    assert_eq!(compare(&tables, &["--json", &earlier]).code, 0);
    let again = everybuddy(&["compare", &tiny, "--rows", &earlier, "--no-html"]);
    let words = again.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let start = "room 16 MiB, random memory with the counts of synthetic-buddyinfo:Node-0-Normal";
    assert!(words.contains(start), "{words}");
    // A part of the memory.
    let part = compare(&tables, &["--memory", "8MiB"]);
    assert_eq!(part.code, 0, "{}", part.err);
    compare(&tables, &["--memory", "17MiB"]).refused(&["--memory 17 MiB: only 16 MiB are free"]);
    let small = small(&folder);
    let peak = "its peak of 912 KiB does not fit into the 200 KiB that are free in random memory";
    compare(&small, &[]).refused(&["twice as large as its free memory", peak]);
    compare(&tables, &["--aged", "3"]).refused(&["--aged"]);
    compare(&file(&folder, "synthetic-zoneinfo"), &[]).refused(&["no free blocks by order"]);
    compare("recorded", &[])
        .refused(&["trace tiny does not contain the free blocks of its machine"]);
}

/// Ordinary requests get nothing from HighMem, and nothing from CMA.
#[test]
fn memory_for_special_requests_is_in_use() {
    let folder = Folder::new("start-special");
    let path = folder.file("synthetic-log");
    let text = "Node 0 Normal: 0*4kB 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 2*2048kB (U) \
                3*4096kB (C) = 16384kB\nNode 0 HighMem: 0*4kB 0*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB \
                0*1024kB 0*2048kB 900*4096kB (M) = 3686400kB\n";
    std::fs::write(&path, format!("Mem-Info:\n{text}")).unwrap();
    let run = everybuddy(&[
        "bench",
        "--systems",
        "bs",
        "--start",
        &path,
        "--memory",
        "16MiB",
    ]);
    run.refused(&["Node-0-Normal", "4 MiB", "CMA"]);
}

#[test]
fn a_trace_brings_the_memory_of_its_machine() {
    let folder = Folder::new("start-recorded");
    let path = folder.file("own.parquet");
    let mut own = trace();
    let zone = everybuddy_trace::MachineZone {
        name: "Normal".to_string(),
        managed: MANAGED,
        blocks: BLOCKS.to_vec(),
        ..everybuddy_trace::MachineZone::default()
    };
    let machine = everybuddy_trace::Machine {
        total_kib: MANAGED * 4,
        zones: vec![zone],
        ..everybuddy_trace::Machine::default()
    };
    own.metadata.push(machine.entry());
    everybuddy_trace::write(&own, path.as_ref()).unwrap();
    let systems = [
        "--systems",
        "bs",
        "--no-html",
        "--json",
        "-",
        "--start",
        "recorded",
    ];
    let json = rows(&everybuddy(&[&["compare", &path][..], &systems].concat()));
    assert!(of_bs(&json, "free_blocks", "min").contains(&(10, 3.0)));
    let experiment = json[0]["experiment"].as_str().unwrap();
    assert_eq!(experiment, "compare+start=random:recorded");
}

#[test]
fn benchmarks_and_simulations_start_with_it_too() {
    let folder = Folder::new("start-bench");
    let tables = [
        file(&folder, "synthetic-buddyinfo"),
        file(&folder, "synthetic-zoneinfo"),
    ]
    .join(",");
    let bench = [
        "bench",
        "--workloads",
        "aged-churn:mixed",
        "--systems",
        "bs,everybuddy",
        "--threads",
        "1",
        "--rounds",
        "1",
        "--shrink",
        "500",
        "--start",
        &tables,
        "--json",
        "-",
    ];
    let json = rows(&everybuddy(&bench));
    let experiment = "bench+start=random:synthetic-buddyinfo:Node-0-Normal";
    assert!(json.iter().any(|row| row["experiment"] == experiment));
    let blocks = of_bs(&json, "free_blocks", "value");
    assert!(
        blocks
            .iter()
            .all(|(order, count)| *order != 10 || *count <= 3.0),
        "{blocks:?}"
    );
    assert_eq!(everybuddy(&[&bench[..], &["--check"]].concat()).code, 0);
    everybuddy(&[
        "bench",
        "--workloads",
        "hot",
        "--systems",
        "floor",
        "--start",
        &tables,
    ])
    .refused(&["cannot start with memory in use"]);
    let tiny = folder.trace();
    let simulate = |more: &[&str]| {
        let own = [
            "simulate",
            "--systems",
            "bs",
            "--seeds",
            "1",
            "--shrink",
            "64",
            "--start",
            &tables,
            "--cpus",
        ];
        everybuddy(&[&own[..], more].concat())
    };
    let json = rows(&simulate(&[
        "1",
        "--trace",
        &tiny,
        "--workloads",
        "aged-churn:mixed",
        "--json",
        "-",
    ]));
    let experiment = "simulate+start=random:synthetic-buddyinfo:Node-0-Normal";
    assert!(json.iter().all(|row| row["experiment"] == experiment));
    let small = small(&folder);
    everybuddy(&[
        "simulate", "--trace", &tiny, "--cpus", "1", "--start", &small,
    ])
    .refused(&["are in use on 1 CPU, and 200 KiB are free in random memory"]);
    simulate(&["1", "--zones", "socket"]).refused(&["--zones socket"]);
}

#[test]
fn the_numbers_of_a_machine_are_rows_in_parquet() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    fn value(field: &Field) -> Value {
        match field {
            Field::Null => Value::Null,
            Field::Str(text) => text.as_str().into(),
            Field::UByte(number) => (*number).into(),
            Field::UInt(number) => (*number).into(),
            Field::ULong(number) => (*number).into(),
            other => panic!("{other:?}"),
        }
    }
    let folder = Folder::new("memory-parquet");
    let (input, output) = (
        file(&folder, "synthetic-buddyinfo"),
        folder.file("rows.parquet"),
    );
    let run = everybuddy(&["memory", &input, "--parquet", &output]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("Node 0 Normal"), "{}", run.out);
    let reader = SerializedFileReader::new(std::fs::File::open(&output).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let columns = row.get_column_iter();
        let columns = columns.map(|(name, field)| (name.clone(), value(field)));
        Value::Object(columns.collect())
    });
    let rows: Vec<Value> = rows.collect();
    let free = |order: u64| {
        let is_own = |row: &&Value| {
            row["zone"] == "Normal" && row["class"] == "free" && row["order"] == order
        };
        let row = rows.iter().find(is_own).unwrap();
        assert_eq!((&row["node"], &row["low"]), (&Value::from(0), &row["high"]));
        row["low"].as_u64().unwrap()
    };
    // A block of order 10 contains two of order 9.
    assert_eq!((free(10), free(9)), (3, 7));
    let help = everybuddy(&["memory", "--help"]).out;
    assert!(
        help.contains("everybuddy memory dmesg.txt") && help.contains("which large blocks"),
        "{help}"
    );
}
