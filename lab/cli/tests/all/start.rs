//! Runs that start with the memory of a machine, and its numbers as Parquet.

use serde_json::Value;

use crate::common::{Folder, everybuddy, json, process, trace, words};

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

/// Writes the tables of the machine, and returns their paths.
fn tables(folder: &Folder) -> String {
    ["synthetic-buddyinfo", "synthetic-zoneinfo"]
        .map(|name| file(folder, name))
        .join(",")
}

/// Writes a table of 50 free frames.
fn small(folder: &Folder) -> String {
    let path = folder.file("small");
    std::fs::write(&path, "Node 0, zone Normal 50 0 0 0 0 0 0 0 0 0 0\n").unwrap();
    path
}

/// Returns the values of `bs` for a metric, order by order.
fn of_bs(rows: &[Value], metric: &str, statistic: &str) -> Vec<(u64, f64)> {
    let own = |row: &&Value| {
        row["system"] == "bs" && row["metric"] == metric && row["statistic"] == statistic
    };
    let own = rows.iter().filter(own);
    let number = |row: &Value| {
        (
            row["order"].as_u64().unwrap_or(99),
            row["value"].as_f64().unwrap(),
        )
    };
    own.map(number).collect()
}

#[test]
fn comparisons_start_with_the_free_blocks_of_a_machine() {
    let folder = Folder::new("start");
    let tiny = folder.trace();
    let tables = tables(&folder);
    let flags = file(&folder, "synthetic-kpageflags");
    let flags = format!("{flags},{}", file(&folder, "synthetic-zoneinfo"));
    let compare = |start: &str, more: &str| {
        everybuddy!("compare {tiny} --start {start} --systems bs,everybuddy --no-html {more}")
    };
    let counts = "random memory with the counts of synthetic-buddyinfo";
    for (start, name, described) in [
        (&tables, "random:synthetic-buddyinfo", counts),
        (
            &flags,
            "synthetic-kpageflags",
            "memory as in synthetic-kpageflags",
        ),
    ] {
        let text = words(&compare(start, "").succeeded()).join(" ");
        let described = format!("managed 16 MiB free of 48 MiB, {described}:Node-0-Normal");
        assert!(text.contains(&described), "{text}");
        let json = json(&compare(start, "--json -").succeeded());
        let experiment = format!("compare+memory=16MiB+start={name}:Node-0-Normal");
        let is_own = |row: &Value| {
            row["experiment"].as_str().unwrap().split('@').next() == Some(&experiment[..])
        };
        assert!(json.iter().all(is_own), "{experiment}");
        // The trace needs 228 frames: three blocks of 4 MiB stay whole, which is what the state has, and no more.
        let values = of_bs(&json, "free_blocks", "value").into_iter();
        let most = values
            .filter(|(order, _)| *order == 10)
            .map(|(_, count)| count);
        assert_eq!(most.fold(0.0, f64::max), 3.0);
        let least = of_bs(&json, "free_blocks", "min");
        assert!(least.contains(&(10, 3.0)), "{least:?}");
    }
    // The same seed draws the same memory.
    let counted = |seed: &str| {
        let rows = json(&compare(&tables, &format!("--json - --seed {seed}")).succeeded());
        let is_timed = |row: &Value| row["metric"] == "latency" || row["metric"] == "throughput";
        let counted = rows.into_iter().filter(|row| !is_timed(row));
        counted.map(|row| row.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(counted("5"), counted("5"));
    // An earlier run is shown with its start.
    let earlier = folder.file("earlier.jsonl");
    compare(&tables, &format!("--json {earlier}")).succeeded();
    let again = everybuddy!("compare {tiny} --rows {earlier} --no-html").out;
    let words = words(&again).join(" ");
    let start =
        "managed 16 MiB, random memory with the counts of synthetic-buddyinfo:Node-0-Normal";
    assert!(words.contains(start), "{words}");
    // A part of the memory.
    compare(&tables, "--memory 8MiB").succeeded();
    compare(&tables, "--memory 17MiB").refused(&["--memory 17 MiB: only 16 MiB are free"]);
    let small = small(&folder);
    let peak = "its peak of 912 KiB does not fit into the 200 KiB that are free in random memory";
    compare(&small, "").refused(&["twice as large as its free memory", peak]);
    compare(&tables, "--aged 3").refused(&["--aged"]);
    compare(&file(&folder, "synthetic-zoneinfo"), "").refused(&["no free blocks by order"]);
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
    everybuddy!("bench --systems bs --start {path} --memory 16MiB").refused(&[
        "Node-0-Normal",
        "4 MiB",
        "CMA",
    ]);
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
    let run = everybuddy!("compare {path} --systems bs --no-html --json - --start recorded");
    let json = json(&run.succeeded());
    assert!(of_bs(&json, "free_blocks", "min").contains(&(10, 3.0)));
    let experiment = json[0]["experiment"].as_str().unwrap();
    assert_eq!(experiment, "compare+start=random:recorded");
}

#[test]
fn benchmarks_and_simulations_start_with_it_too() {
    let folder = Folder::new("start-bench");
    let tables = tables(&folder);
    let own = "--systems bs,everybuddy --threads 1 --rounds 1 --shrink 500";
    let bench = format!("bench --workloads aged-churn:mixed {own} --start {tables} --json -");
    let rows = json(&everybuddy!("{bench}").succeeded());
    let experiment = "bench+start=random:synthetic-buddyinfo:Node-0-Normal";
    assert!(rows.iter().any(|row| row["experiment"] == experiment));
    let blocks = of_bs(&rows, "free_blocks", "value");
    assert!(
        blocks
            .iter()
            .all(|(order, count)| *order != 10 || *count <= 3.0),
        "{blocks:?}"
    );
    everybuddy!("{bench} --check").succeeded();
    everybuddy!("bench --workloads hot --systems floor --start {tables}")
        .refused(&["cannot start with memory in use"]);
    let tiny = folder.trace();
    let own = format!("--systems bs --seeds 1 --shrink 64 --start {tables} --cpus 1");
    let loads = format!("--trace {tiny} --workloads aged-churn:mixed");
    let rows = json(&everybuddy!("simulate {own} {loads} --json -").succeeded());
    let experiment = "simulate+start=random:synthetic-buddyinfo:Node-0-Normal";
    assert!(rows.iter().all(|row| row["experiment"] == experiment));
    let small = small(&folder);
    everybuddy!("simulate --trace {tiny} --cpus 1 --start {small}")
        .refused(&["are in use on 1 CPU, and 200 KiB are free in random memory"]);
    everybuddy!("simulate {own} --zones socket").refused(&["--zones socket"]);
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
    let out = process!("memory {input} --parquet {output}").succeeded();
    assert!(out.contains("Node 0 Normal"), "{out}");
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
    let help = everybuddy!("memory --help").out;
    let parts = ["everybuddy memory dmesg.txt", "which large blocks"];
    assert!(parts.iter().all(|part| help.contains(part)), "{help}");
}
