//! Which systems a property is tried on: all rows of the systems' table, and variants of them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use everybuddy::SystemSpec;
use everybuddy::systems::{ListKind, ROWS, ZoneKind};

/// Returns what the suite runs over: all rows, and variants of those that have lists.
pub fn specs() -> Vec<SystemSpec> {
    let mut texts: Vec<String> = Vec::new();
    for row in ROWS {
        let takes = |key| row.takes(key);
        // What delays coalescing refuses requests that could be served, as its paper has it, unless it is told
        // to coalesce first.
        if takes("reclaim") {
            let on = "reclaim=on";
            texts.push(format!("{}+{on}", row.name));
            texts.push(format!("{}+order=3+{on}", row.name));
            if takes("debt") {
                texts.push(format!("{}+{on}+debt=on", row.name));
                texts.push(format!("{}+order=3+{on}+debt=on", row.name));
            }
            continue;
        }
        texts.push(row.name.to_string());
        texts.push(format!("{}+order=3", row.name));
        if takes("percpu") {
            texts.push(format!("{}+percpu=locked", row.name));
        }
        if row.list == ListKind::Magazines {
            // Magazines that are often exchanged.
            for options in ["batch=1", "batch=2", "batch=31+lock=ticket"] {
                texts.push(format!("{}+{options}", row.name));
            }
        }
        if takes("batch") && takes("high") {
            texts.push(format!("{}+batch=2+high=3", row.name));
            // The suite's memories are small, where the batch by memory is 1: so the real one too.
            texts.push(format!("{}+batch=31+high=186", row.name));
            if takes("percpu") {
                texts.push(format!("{}+batch=31+high=186+percpu=locked", row.name));
            }
        }
        if row.list == ListKind::PcpBuddy {
            // Page blocks of 8 and of 32 frames, which are often whole, and marks that are often reached.
            texts.push(format!("{}+batch=2+high=3+order=3", row.name));
            texts.push(format!("{}+batch=7+high=40+order=5", row.name));
        }
        if takes("high") && !takes("batch") {
            texts.push(format!("{}+high=3", row.name));
            texts.push(format!("{}+high=700", row.name));
        }
        if takes("zone") {
            // Memory in very many spaces, in few, and in one.
            texts.push(format!("{}+order=3+zone=spaces+space=32KiB", row.name));
            texts.push(format!("{}+zone=spaces+select=fresh", row.name));
            texts.push(format!(
                "{}+order=3+zone=spaces+space=32KiB+exchange=single",
                row.name
            ));
            for more in ["exchange=never", "shards=3"] {
                let small = "order=3+zone=spaces+space=32KiB";
                texts.push(format!("{}+{small}+{more}", row.name));
            }
            texts.push(format!("{}+zone=one", row.name));
        }
        if takes("space") && !takes("zone") {
            // More instances than CPUs.
            texts.push(format!("{}+order=3+space=32KiB", row.name));
        }
        if takes("steal") {
            texts.push(format!("{}+steal=mixed", row.name));
            texts.push(format!("{}+order=3+steal=mixed", row.name));
        }
        if takes("lock") {
            let line = if takes("line") { "+line=beside" } else { "" };
            texts.push(format!("{}+lock=ticket{line}", row.name));
            texts.push(format!("{}+lock=queued", row.name));
        }
        if takes("idle") {
            // Domains that are merged whenever one comes back, and after a while.
            let zone = if takes("zone") { "+zone=domains" } else { "" };
            texts.push(format!("{}+order=3{zone}+idle=1", row.name));
            texts.push(format!("{}+order=3{zone}+spring=locked", row.name));
            if takes("zone") {
                texts.push(format!("{}{zone}", row.name));
            }
        }
        if takes("hold") {
            texts.push(format!("{}+hold=iteration", row.name));
            texts.push(format!("{}+lock=ticket+hold=when-contended", row.name));
        }
        if takes("batch") && takes("hold") && takes("zone") {
            let small = "order=3+zone=spaces+space=32KiB";
            texts.push(format!(
                "{}+{small}+batch=31+high=186+hold=iteration",
                row.name
            ));
        }
        if takes("drain") {
            texts.push(format!("{}+drain=merged", row.name));
            texts.push(format!("{}+batch=7+high=20+order=3+drain=merged", row.name));
            texts.push(format!("{}+batch=31+high=186+drain=merged", row.name));
            if takes("percpu") {
                texts.push(format!(
                    "{}+batch=7+high=20+percpu=locked+drain=merged",
                    row.name
                ));
            }
            if takes("zone") {
                let small = "batch=7+high=20+order=3+zone=spaces+space=32KiB";
                texts.push(format!("{}+{small}+drain=merged", row.name));
            }
            if takes("idle") {
                let elastic = "batch=7+high=20+order=3+zone=domains+idle=1";
                texts.push(format!("{}+{elastic}+drain=merged", row.name));
            }
        }
        if takes("tree") && row.zone() == ZoneKind::Owned {
            // Trees of one word, and one tree; blocks of several trees.
            texts.push(format!("{}+tree=256KiB", row.name));
            texts.push(format!("{}+order=12+tree=1MiB", row.name));
            texts.push(format!("{}+order=9+tree=16MiB", row.name));
        }
        if takes("tree") && row.zone() == ZoneKind::Reserved {
            // Trees of two children, and trees larger than memory; no block of two children.
            texts.push(format!("{}+tree=4MiB", row.name));
            texts.push(format!("{}+order=9+tree=1GiB", row.name));
        }
        if takes("queue") {
            // Queues that are always full, and such as never are; each way to join the services.
            texts.push(format!("{}+queue=1", row.name));
            texts.push(format!("{}+order=3+queue=2+sync=lock", row.name));
            texts.push(format!("{}+queue=4096+manager=thread", row.name));
            texts.push(format!("{}+separate=off", row.name));
            texts.push(format!("{}+order=3+queue=64+remnants=first", row.name));
            texts.push(format!("{}+order=3+structure=list", row.name));
            texts.push(format!("{}+structure=bitmap", row.name));
            texts.push(format!(
                "{}+order=3+structure=bitmap+separate=off",
                row.name
            ));
        }
    }
    let parse = |text: &String| text.parse().expect("a row takes the options that it lists");
    texts.iter().map(parse).collect()
}
