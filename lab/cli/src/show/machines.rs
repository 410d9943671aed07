//! The list of machines, and a machine in full.
//!
//! The list compares machines; the full text shows how well each number is known.
//!
//! # Invariants
//! Shows only the contents of the machine files. A number that is assumed is marked wherever its source is shown.

use everybuddy::SystemSpec;
use everybuddy::systems::ROWS;
use everybuddy_sim::{Cache, Hardware, Instructions, Transfer};
use everybuddy_simulate::machines::{Machine, NUMBERS, Source};
use everybuddy_simulate::work::{ORDERS, Work};
use serde_json::json;

use everybuddy_page::document::Table;

use super::output::Style;
use super::table::{self, Column, plain};

/// Renders the list.
pub fn list(machines: &[Machine], style: &Style) -> String {
    let names: Vec<String> = machines.iter().map(|own| own.name.clone()).collect();
    let column = |name: &'static str, unit: &'static str, of: &dyn Fn(&Hardware) -> String| {
        let texts = machines.iter().map(|own| of(&own.hardware));
        plain("", [name, unit], texts.collect())
    };
    let modified =
        |own: Option<Transfer>| own.map_or("-".to_string(), |own| own.modified.to_string());
    let columns = [
        column("CPUs", "", &|own| own.cpus().to_string()),
        column("topology", "", &|own| {
            [own.sockets, own.groups, own.cores, own.threads]
                .map(|count| count.to_string())
                .join("x")
        }),
        column("clock", "MHz", &|own| own.mhz.to_string()),
        column("L1", "B, cycles", &|own| cache(Some(own.l1))),
        column("L2", "B, cycles", &|own| cache(own.l2)),
        column("LLC", "B, cycles", &|own| cache(Some(own.llc))),
        column("near", "cycles", &|own| {
            modified(Some(own.near).filter(|_| own.cores > 1))
        }),
        column("socket", "cycles", &|own| {
            modified(Some(own.socket).filter(|_| own.groups > 1))
        }),
        column("far", "cycles", &|own| {
            modified(Some(own.far).filter(|_| own.sockets > 1))
        }),
        column("memory", "cycles", &|own| own.memory.to_string()),
    ];
    let table = Table {
        first: "machine".to_string(),
        ..table::table(&names, &columns, 0..names.len())
    };
    let mut out = table::text(&table, style);
    out.push('\n');
    for own in machines {
        out += &style.wrapped(&own.name, 12, &own.title);
    }
    out.push('\n');
    out += &style.paragraph(
        "topology: sockets x last-level caches (LLC) per socket x cores per cache x threads per core. near, \
         socket, far: a load of a line that a core has modified, with the same last-level cache, the same socket, \
         another socket.",
    );
    out + "`everybuddy machines NAME` shows every number with its source.\n"
}

/// The paths of a system, by the names of their columns.
fn paths(work: &Work) -> Vec<(String, Instructions)> {
    let mut paths = Vec::new();
    for (call, blocks, run) in [("allocate", 0, 0), ("free", 1, 1)] {
        for ((order, _), path) in ORDERS.into_iter().zip(work.blocks[blocks]) {
            paths.push((format!("{call} {order}"), path));
        }
        paths.push((format!("{call} run"), work.runs[run]));
    }
    paths.push(("other".to_string(), work.other));
    paths
}

/// The work of all systems.
fn all_work() -> impl Iterator<Item = (&'static str, Work)> {
    ROWS.iter().map(|row| {
        let spec = row.name.parse::<SystemSpec>();
        (row.name, Work::of(&spec.expect("a row names a system")))
    })
}

/// Renders the instructions that the accesses of all systems stand for.
pub fn work(style: &Style) -> String {
    let systems: Vec<_> = all_work()
        .map(|(name, work)| (name, paths(&work)))
        .collect();
    let names: Vec<String> = systems.iter().map(|(name, _)| name.to_string()).collect();
    let instructions = |thousandths: u32| format!("{:.1}", f64::from(thousandths) / 1000.0);
    let text = |path: Instructions| match path.shortest {
        0 => instructions(path.per_further),
        short => format!(
            "{short}: {}, {}",
            instructions(path.per_access),
            instructions(path.per_further)
        ),
    };
    let columns: Vec<Column> = (0..systems[0].1.len())
        .map(|index| {
            let name = systems[0].1[index].0.clone();
            let (call, path) = name.split_once(' ').unwrap_or((&name, ""));
            let texts = systems.iter().map(|(_, own)| text(own[index].1));
            let head = [call, path].map(str::to_string);
            plain("", head, texts.collect())
        })
        .collect();
    let mut out = table::words(&names, &columns, style);
    out.push('\n');
    out + &style.paragraph(
        "Native instructions that an access to shared memory stands for in the simulator. `12: 10.9, \
         14.3` means 10.9 for each of the first 12 accesses of a call, as many as the shortest path \
         makes, and 14.3 for each further one. A single number applies to all accesses. The columns are \
         calls and orders: 0, 1 to 3, 4 to 8, and 9 and more. `run` is an exact number of frames. `other` \
         covers services, and CPUs that park. Callgrind counted the instructions (ci/work.sh).",
    )
}

/// The same as JSON lines.
pub fn work_lines() -> String {
    let each = |thousandths: u32| f64::from(thousandths) / 1000.0;
    let lines = all_work().flat_map(|(system, work)| {
        let lines = paths(&work).into_iter().map(move |(path, own)| {
            let object = json!({
                "system": system,
                "path": path,
                "shortest": own.shortest,
                "per_access": each(own.per_access),
                "per_further": each(own.per_further),
            });
            format!("{object}\n")
        });
        lines.collect::<Vec<_>>()
    });
    lines.collect()
}

fn cache(own: Option<Cache>) -> String {
    own.map_or("-".to_string(), |own| {
        let short = size(own.bytes).replace(" KiB", "K").replace(" MiB", "M");
        format!("{short}, {:>2}", own.cycles)
    })
}

/// Writes a number of bytes in the largest unit that divides it.
fn size(bytes: u64) -> String {
    match bytes {
        mebibytes if mebibytes.is_multiple_of(1 << 20) => format!("{} MiB", mebibytes >> 20),
        kibibytes if kibibytes.is_multiple_of(1 << 10) => format!("{} KiB", kibibytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

/// Describes one machine in full.
pub fn full(machine: &Machine, style: &Style) -> String {
    let mut out = style.bold(&machine.name) + "\n";
    out += &style.wrapped("", 2, &machine.title);
    out += &style.wrapped("", 2, &machine.text);
    out.push('\n');
    for number in NUMBERS {
        let (Some(value), Some(source)) =
            (number.text(&machine.hardware), machine.source(number.key))
        else {
            continue;
        };
        let mark = match Source::of(source) {
            Source::Known => " ",
            Source::Assumed => "?",
            Source::Unused => "-",
        };
        let value = match number.unit {
            "bytes" => value.parse().map_or(value, size),
            "" => value,
            unit => format!("{value} {unit}"),
        };
        let head = format!("{mark} {:<15} {value:>16}", number.key);
        let text = style.wrapped(&head, 36, &format!("{}.", number.meaning));
        let text = match Source::of(source) {
            Source::Assumed => style.warning(text.trim_end()) + "\n",
            Source::Unused => style.dim(text.trim_end()) + "\n",
            Source::Known => text,
        };
        out += &text;
        out += &style.wrapped("", 36, source);
    }
    let assumed = machine.assumed();
    out.push('\n');
    out += &if assumed.is_empty() {
        "No number is assumed.\n".to_string()
    } else {
        style.paragraph(&format!("? assumed: {}.", assumed.join(", ")))
    };
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy_simulate::machines::{all_machines, by_name_or_path};

    const NARROW: Style = Style {
        colour: false,
        width: 100,
    };

    #[test]
    fn the_list_fits_and_is_aligned() {
        let text = list(&all_machines().unwrap(), &NARROW);
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        let rows: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
        assert_eq!(
            rows.len(),
            3 + all_machines().unwrap().len(),
            "one table: {text}"
        );
        let width = rows[2].chars().count();
        assert!(
            rows[3..].iter().all(|row| row.chars().count() == width),
            "{text}"
        );
        assert!(rows[0].starts_with(" machine "), "{text}");
    }

    #[test]
    fn assumed_numbers_are_marked() {
        let own = by_name_or_path("porter-smp").unwrap();
        let text = full(&own, &NARROW);
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(text.contains("\n? read_interval "), "{text}");
        assert!(text.contains("\n  llc.cycles "), "{text}");
        assert!(text.contains("\n- far.clean "), "{text}");
        assert!(!text.contains("l2."), "{text}");
        assert!(text.contains("? assumed: socket.clean, "), "{text}");
    }
}
