//! What is generated from the code: SYSTEMS.md.
//!
//! Invariant: generated files say so, and with which command; `tidy` fails when one is out of date.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use everybuddy::systems::{OPTIONS, ROWS};
use everybuddy_workload::WORKLOADS;

/// Writes all generated files; finds no faults.
pub(crate) fn write(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    fs::write(root.join("SYSTEMS.md"), systems())?;
    crate::splice::write(root, &crate::tidy::files(root)?)?;
    Ok(Vec::new())
}

/// Names the systems that take an option, or those that do not if they are fewer.
fn applicable(names: &[&str]) -> String {
    let others: Vec<&str> = ROWS
        .iter()
        .map(|row| row.name)
        .filter(|name| !names.contains(name))
        .collect();
    match others.len() {
        0 => "all".to_string(),
        1..=5 => format!("all except {}", others.join(", ")),
        _ => names.join(", "),
    }
}

/// Makes the text of SYSTEMS.md from the rows.
pub(crate) fn systems() -> String {
    let mut text = String::from(
        "# The systems\n\n\
         For readers who want to know what a name stands for, where it is described, and where ours differs.\n\
         Generated from `crates/everybuddy/src/systems` by `cargo run -p xtask -- docs`.\n\n\
         Papers: **[iBuddy]** Park, Choi, Lee, Noh: iBuddy (IEEE Transactions on Computers, 2015). \
         **[Porter]** Porter: on releasing the zone lock in bulk page allocation. **[Spring]** Spring Buddy. \
         **[BL89]** Barkley, Lee: A lazy buddy system bounded by two coalescing delays per class (SOSP 1989). \
         **[Serewa]** Serewa: on improving the buddy algorithm.\n\n\
         | name | per-CPU layer > zone layer > structure, coalescing | source |\n|---|---|---|\n",
    );
    for row in ROWS {
        let name = row.alias_of.map_or(format!("`{}`", row.name), |of| {
            format!("`{}` (another name for `{of}`)", row.name)
        });
        let _ = writeln!(text, "| {name} | {} | {} |", row.composition(), row.source);
    }
    text.push_str(
        "\n# The options\n\nA variant is written `NAME+key=value+key=value`, wherever a system can be named.\n\n\
         | option | values | default | meaning | systems |\n|---|---|---|---|---|\n",
    );
    for option in OPTIONS {
        let takes = ROWS.iter().filter(|row| row.takes(option.key));
        let names: Vec<&str> = takes.map(|row| row.name).collect();
        // The others are what rows choose.
        if !names.is_empty() {
            let (key, values) = (option.key, option.values);
            let (default, meaning) = (option.default, option.meaning);
            let systems = applicable(&names);
            let _ = writeln!(
                text,
                "| `{key}` | {values} | {default} | {meaning} | {systems} |"
            );
        }
    }
    for row in ROWS {
        let options = row
            .options
            .iter()
            .map(|key| format!("`{key}`"))
            .collect::<Vec<_>>();
        let _ = write!(
            text,
            "\n## {}\n\n{}\n\n- **Composition**: {}\n- **Source**: {}\n- **Faithful**: {}\n\
             - **Deviations and decisions**: {}\n- **Options**: {}\n",
            row.name,
            row.summary,
            row.composition(),
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
