//! The benchmark: every workload runs on every system, nothing is given twice, rows are whole.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::{Folder, everybuddy, json, shows, text};
use everybuddy_workload::WORKLOADS;

/// Options that make a run short: what it measures means nothing.
const SHORT: &str = "bench --memory 16MiB --shrink 500 --rounds 1";

/// One thread where there is one CPU only.
fn threads() -> u16 {
    match std::thread::available_parallelism() {
        Ok(cpus) if cpus.get() > 1 => 2,
        _ => 1,
    }
}

#[test]
fn every_workload_runs_on_every_system_without_a_fault() {
    let folder = Folder::new("bench-check");
    let rows = folder.file("check.jsonl");
    let out = everybuddy!("{SHORT} --check --json {rows}").succeeded();
    assert!(out.contains(": 0 in the wrong state"), "{out}");
    // The rows have the counts of the text.
    let rows = json(&text(&rows));
    let values = |metric: &str| -> Vec<u64> {
        let own = rows.iter().filter(|row| row["metric"] == metric);
        own.map(|row| row["value"].as_f64().unwrap() as u64)
            .collect()
    };
    let (checked, wrong) = (values("blocks_checked"), values("blocks_wrong"));
    assert!(checked.len() == wrong.len() && checked.len() * 2 == rows.len());
    assert!(checked.iter().all(|n| *n > 0) && wrong.iter().all(|n| *n == 0));
    let digits = |text: &str| text.replace(',', "");
    let sum = format!("checked {} ", checked.iter().sum::<u64>());
    assert!(digits(&out).starts_with(&sum), "{sum}: {out}");
    let systems: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row["system"].as_str())
        .collect();
    let every = everybuddy::systems::ROWS.iter().map(|row| row.name);
    assert_eq!(systems, every.collect());
}

#[test]
fn rows_are_whole_and_tables_fit() {
    let folder = Folder::new("bench");
    let [rows, csv] = ["b.jsonl", "b.csv"].map(|name| folder.file(name));
    let files = format!("--json {rows} --csv {csv}");
    let out = everybuddy!("{SHORT} --systems bs,lbs-31+batch=7 {files}").succeeded();
    for line in out.lines() {
        assert!(line.chars().count() <= 120, "{line}");
    }
    let rows = json(&text(&rows));
    assert_eq!(text(&csv).lines().count(), rows.len() + 1);
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or("").to_string();
    let is_median = |row: &&Value| row["metric"] == "latency" && row["statistic"] == "p50";
    let measured = rows.iter().filter(is_median).map(|row| {
        let cpus = row["cpus"].as_u64().unwrap();
        (text(row, "source"), text(row, "system"), cpus)
    });
    let measured: BTreeSet<(String, String, u64)> = measured.collect();
    let mut expected = BTreeSet::new();
    let variants = WORKLOADS.iter().flat_map(|row| row.variants);
    for variant in variants.filter(|variant| !variant.is_published() && !variant.touches) {
        for system in ["bs", "lbs-31"] {
            for threads in variant.threads..=threads() {
                expected.insert((variant.name.to_string(), system.to_string(), threads.into()));
            }
        }
    }
    assert_eq!(measured, expected);
    for metric in [
        "throughput",
        "start_time",
        "free_blocks",
        "metadata_bytes_per_frame",
    ] {
        assert!(rows.iter().any(|row| row["metric"] == metric), "{metric}");
    }
    assert!(
        rows.iter()
            .all(|row| row["value"].as_f64().is_some_and(f64::is_finite))
    );
}

/// Measuring needs threads, not CPUs: two threads may share one.
#[test]
fn rounds_on_several_threads_have_the_time_of_a_line_between_their_cpus() {
    let folder = Folder::new("bench-line");
    let rows = folder.file("b.jsonl");
    let run = |threads: &str| {
        let short = "bench --memory 16MiB --shrink 500 --rounds 2 --workloads hot:order0";
        let out = everybuddy!("{short} --systems bs,everybuddy --threads {threads} --json {rows}");
        let out = out.succeeded();
        let is_trip = |row: &Value| row["metric"] == "line_round_trip";
        let rows: Vec<Value> = json(&text(&rows)).into_iter().filter(is_trip).collect();
        (out.lines().any(|line| line.starts_with("  line  ")), rows)
    };
    assert_eq!(run("1"), (false, vec![]));
    let (is_shown, rows) = run("1,2");
    assert!(is_shown);
    for system in ["bs", "everybuddy"] {
        let of_system = |statistic: &str, experiment: &str| -> f64 {
            let own = rows.iter().filter(|row| {
                row["system"] == system
                    && row["statistic"] == statistic
                    && row["experiment"] == experiment
            });
            let own: Vec<&Value> = own.collect();
            assert_eq!(own.len(), 1, "{system} {statistic} {experiment}: {rows:?}");
            assert_eq!(
                (&own[0]["cpus"], &own[0]["unit"]),
                (&2.into(), &"ns".into())
            );
            own[0]["value"].as_f64().unwrap()
        };
        let rounds = [0, 1].map(|round| of_system("value", &format!("bench@{round}")));
        assert!(rounds.iter().all(|nanos| *nanos > 0.0), "{rounds:?}");
        let ends = ["min", "max"].map(|end| of_system(end, "bench"));
        assert_eq!(ends, [rounds[0].min(rounds[1]), rounds[0].max(rounds[1])]);
    }
    assert_eq!(rows.len(), 2 * (3 + 2));
}

#[test]
fn frames_are_used_by_all_contenders_alike() {
    let chosen = "--systems floor,bs,everybuddy --threads 1 --json -";
    let rows = |more: &str| {
        let out = everybuddy!("{SHORT} --workloads touch {chosen} {more}");
        json(&out.succeeded())
    };
    let all = rows("");
    let touch = WORKLOADS.iter().find(|row| row.name == "touch").unwrap();
    for variant in touch.variants {
        let of = |metric: &str, system: &str| -> Vec<f64> {
            let own = all.iter().filter(|row| {
                row["source"] == variant.name
                    && row["metric"] == metric
                    && row["system"] == system
                    && row["experiment"] == "bench"
            });
            own.map(|row| row["value"].as_f64().unwrap()).collect()
        };
        for system in ["floor", "bs", "everybuddy"] {
            let is_set = variant.name.starts_with("touch:set");
            assert!(!of("latency", system).is_empty(), "{}", variant.name);
            assert!(!of("cpu_time", system).is_empty() || !cfg!(target_os = "linux"));
            let spread = of("owner_spread", system);
            assert_eq!(spread.len(), usize::from(is_set), "{}", variant.name);
            assert!(spread.iter().all(|spread| *spread >= 1.0));
        }
    }
    let spread = |rows: Vec<Value>| -> Vec<Value> {
        let own = rows
            .into_iter()
            .filter(|row| row["metric"] == "owner_spread");
        own.map(|row| row["value"].clone()).collect()
    };
    let ablated = "--workloads touch:young:line --ablate small-pages,cold-caches,random-order";
    let short = "bench --memory 16MiB --shrink 5000 --rounds 1";
    let ablated = json(&everybuddy!("{short} {ablated} {chosen}").succeeded());
    let label = "bench+ablate=small-pages:cold-caches:random-order";
    assert!(ablated.iter().any(|row| row["experiment"] == label));
    assert!(ablated.iter().all(|row| row["metric"] != "cpu_time"));
    // Where frames lie is a matter of the requests alone.
    assert_eq!(spread(rows("")), spread(all));
}

#[test]
fn a_contender_that_is_no_system_is_selected_by_its_name() {
    let systems = |names: &str| {
        let chosen = "--workloads hot:order0 --threads 1 --json -";
        let rows = json(&everybuddy!("{SHORT} {chosen} --systems {names}").succeeded());
        let names = rows
            .iter()
            .map(|row| row["system"].as_str().unwrap().to_string());
        names.collect::<BTreeSet<_>>()
    };
    assert!(systems("bs,floor").into_iter().eq(["bs", "floor"]));
    assert!(systems("floor").into_iter().eq(["floor"]));
}

#[test]
fn refusals_are_shares_of_the_requests_of_their_order() {
    // Blocks of 2 to 16 frames, in memory of which single frames occupy most.
    let full = "--workloads steady:90:mixed --threads 1 --systems is,lis-1";
    let run = everybuddy!("{SHORT} {full} --json -");
    assert_eq!(run.code, 0, "{}", run.err);
    let rows = json(&run.out);
    for system in ["is", "lis-1"] {
        let value = |metric: &str, statistic: &str, order: Option<u64>| {
            let own = rows.iter().find(|row| {
                row["system"] == system
                    && row["metric"] == metric
                    && row["statistic"] == statistic
                    && row["order"].as_u64() == order
            });
            own.and_then(|row| row["value"].as_f64())
        };
        let (all, large) = ("blocking_probability", "blocking_probability_large");
        let whole = value(all, "count", None).unwrap();
        let above = value(large, "count", None).unwrap();
        let by_order = |order| value(all, "count", Some(order)).unwrap_or(0.0);
        assert_eq!((0..=10).map(by_order).sum::<f64>(), whole);
        assert_eq!((1..=10).map(by_order).sum::<f64>(), above);
        // Single frames, which are most of the requests, are hardly ever refused: the share of the others is larger.
        assert!(above > 0.0, "{system} refuses nothing: this shows nothing");
        let share = |metric| value(metric, "rate", None).unwrap();
        assert!(share(large) > 2.0 * share(all), "{system}");
    }
    assert!(run.err.contains("ord>0"), "{}", run.err);
}

/// Programs between the calls of `--cold`.
const PROGRAMS: [&str; 5] = ["nothing", "waited", "zeroed", "swept", "chased"];

#[test]
fn cold_calls_are_measured_and_predicted_with_each_program() {
    let folder = Folder::new("bench-cold");
    let file = folder.file("cold.jsonl");
    let chosen = "--cold --systems bs,lbs-31 --threads 1";
    let run = |more: &str| {
        let out = everybuddy!("{SHORT} {chosen} --json {file} {more}").succeeded();
        let rows: Vec<Value> = json(&text(&file));
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_string();
        for row in &rows {
            assert_eq!(text(row, "experiment"), "bench+cold");
            assert_eq!(
                (&row["cpus"], text(row, "metric")),
                (&1.into(), "latency".into())
            );
            assert!(row["value"].as_f64().is_some_and(|own| own >= 0.0), "{row}");
            let unit = match row["statistic"].as_str() {
                Some("count") => "1",
                _ => "ns",
            };
            assert_eq!(row["unit"], unit);
        }
        let keys = ["platform", "system", "source", "operation", "statistic"];
        let rows: Vec<_> = rows
            .iter()
            .map(|row| keys.map(|key| text(row, key)))
            .collect();
        (out, rows)
    };
    let expected = |platform: &str, systems: &[&str], statistics: &[&str]| {
        let mut all = BTreeSet::new();
        for system in systems {
            for program in PROGRAMS {
                for operation in ["allocate", "free"] {
                    all.extend(statistics.iter().map(|statistic| {
                        let source = format!("cold:{program}");
                        [platform, system, &source, operation, statistic].map(str::to_string)
                    }));
                }
            }
        }
        all
    };
    let (out, rows) = run("");
    let measured = expected(
        "native",
        &["floor", "bs", "lbs-31"],
        &["p50", "mean", "p99", "count"],
    );
    assert_eq!(rows.len(), measured.len());
    assert_eq!(BTreeSet::from_iter(rows), measured);
    shows(&out, &["Once a program has swept", "(median of 2 systems"]);
    assert!(!out.contains("predicted"), "{out}");

    let (out, rows) = run("--predict x5570");
    let mut simulated = rows.iter().filter(|row| row[0] != "native");
    let platform = simulated.next().unwrap()[0].clone();
    let mut both = expected(&platform, &["bs", "lbs-31"], &["p50", "mean", "p99"]);
    both.extend(measured);
    assert_eq!(rows.len(), both.len());
    assert_eq!(BTreeSet::from_iter(rows), both);
    for line in out.lines() {
        assert!(line.chars().count() <= 120, "{line}");
    }
    // A cell has both, and a program has a verdict.
    for system in ["bs", "lbs-31"] {
        let is_own = |line: &&str| line.trim_start().starts_with(&format!("{system} "));
        let own: Vec<&str> = out.lines().filter(is_own).collect();
        assert_eq!(own.concat().matches(": ").count(), PROGRAMS.len(), "{out}");
    }
    shows(&out, &["simulation of the machine x5570"]);
    for program in PROGRAMS {
        shows(&out, &[&format!("\n  {program}: ")]);
    }
}

#[cfg(not(feature = "peers"))]
#[test]
fn without_peers_it_says_how_to_get_them() {
    everybuddy!("bench --peers")
        .refused(&["cargo run --release --features peers -- bench --peers"]);
}

#[test]
fn a_hit_takes_as_many_instructions_each_time() {
    let count = || everybuddy!("bench --workloads hot:order0 --contender lbs-31 --count 2").done();
    let operations: u64 = count().trim().parse().unwrap();
    assert!(operations > 0);
    assert_eq!(count().trim(), operations.to_string());
}

#[test]
fn what_is_kept_or_in_a_file_is_shown_without_a_measurement() {
    let folder = Folder::new("bench-kept");
    let (cells, rows) = (folder.file("cells"), folder.file("rows.jsonl"));
    let run = |options: &str| {
        let _ = std::fs::remove_file(&rows);
        let words = format!("{SHORT} --systems lbs-31,bs --workloads hot {options} --json {rows}");
        let run = everybuddy!("{words} --resume {cells}");
        (run.err.clone(), run.succeeded(), text(&rows))
    };
    let (_, printed, measured) = run("");
    let (noted, again, kept) = run("");
    shows(&noted, &["1 of 1 cells are finished, 0 are left"]);
    assert_eq!(kept, measured, "times that are measured again differ");
    let tables = |text: &str| text.split("Workloads\n").next().map(str::to_string);
    assert_eq!(tables(&again), tables(&printed));
    for options in ["--seed 2", "--threads 1", "--machine 1GiB"] {
        let (noted, ..) = run(options);
        shows(&noted, &["no cell of this run is finished; the "]);
    }
    let (_, printed, _) = run("");
    let earlier = |words: &str| everybuddy!("bench --rows {rows} {words}");
    let shown = earlier("").done();
    assert_eq!(tables(&shown), tables(&printed));
    shows(&shown, &["Measured by the machine that wrote "]);
    shows(&earlier("--baseline bs").done(), &["Time relative to bs"]);
    earlier("--baseline is").refused(&["--baseline is", "choose one of lbs-31, bs"]);
    earlier("--rounds 3").refused(&["--rows", "--rounds"]);
    let other = folder.file("other.jsonl");
    std::fs::write(&other, text(&rows).replace("\"bench", "\"other")).unwrap();
    everybuddy!("bench --rows {other}").refused(&["no rows of a benchmark", "help: "]);
}
