//! What is generated from the code: SYSTEMS.md.
//!
//! Invariant: generated files say so, and with which command; `tidy` fails when one is out of date.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use everybuddy::systems::ROWS;
use everybuddy_workload::WORKLOADS;

/// Writes all generated files; finds no faults.
pub(crate) fn write(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    fs::write(root.join("SYSTEMS.md"), systems())?;
    crate::splice::write(root, &crate::tidy::files(root)?)?;
    Ok(Vec::new())
}

/// Makes the text of SYSTEMS.md from the rows.
pub(crate) fn systems() -> String {
    let mut text = String::from(
        "# The systems\n\n\
         For readers who want to know what a system's name means, which source describes it, and where this \
         implementation deviates from the source.\n\
         Generated from `crates/everybuddy/src/systems/` by `cargo run -p xtask -- docs`.\n\n\
         Sources, as they are cited in all documents:\n\n\
         - **[iBuddy]**, source 000: Park, Choi, Lee, Noh: iBuddy (IEEE Transactions on Computers, 2015).\n\
         - **[Porter]**, source 001: Porter: on releasing the zone lock in bulk page allocation.\n\
         - **[Spring]**, source 002: Spring Buddy.\n\
         - **[BL89]**, source 003: Barkley, Lee: A lazy buddy system bounded by two coalescing delays per class \
         (SOSP 1989).\n\
         - **[Serewa]**, source 004: Serewa: on improving the buddy algorithm.\n\n\
         | name | per-CPU layer > zone layer > structure, coalescing | source |\n|---|---|---|\n",
    );
    for row in ROWS {
        let name = row.alias_of.map_or(format!("`{}`", row.name), |of| {
            format!("`{}` (another name for `{of}`)", row.name)
        });
        let _ = writeln!(text, "| {name} | {} | {} |", row.composition, row.source);
    }
    text.push_str(
        "\nA variant is written `NAME+key=value+key=value`, everywhere a system can be named.\n\n\
         | option | values | meaning |\n|---|---|---|\n\
         | `batch` | frames | how many frames a refill or a drain moves |\n\
         | `high` | frames | how many frames a list holds before it drains; of `spring`, at most |\n\
         | `order` | 0 to 18 | the order of the largest block; 10 if not said |\n\
         | `percpu` | `token`, `locked` | whether others ask a list's owner (no atomic on a hit), or every \
         list has a lock, as in Linux |\n\
         | `check` | `on`, `off` | whether hits of a list notice misuse; what goes past the list is always \
         checked |\n",
    );
    for row in ROWS {
        let options = row
            .options
            .iter()
            .map(|key| format!("`{key}`"))
            .collect::<Vec<_>>();
        let _ = write!(
            text,
            "\n## {}\n\n{}\n\n- **Composition**: {}\n- **Source**: {}\n- **Faithful**: {}\n\
             - **Deviates, decides**: {}\n- **Options**: {}\n",
            row.name,
            row.summary,
            row.composition,
            row.source,
            row.faithful,
            row.deviates,
            options.join(", "),
        );
    }
    text.push_str("\n# The workloads\n\n| name | what it does | source |\n|---|---|---|\n");
    for row in WORKLOADS {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            row.name, row.summary, row.source
        );
    }
    text
}
