//! Which systems a property is tried on: all rows of the systems' table, and variants of them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use everybuddy::SystemSpec;
use everybuddy::systems::{ListKind, ROWS, ZoneKind};

/// Returns what the suite runs over: all rows, and variants of those that have lists.
pub fn specs() -> Vec<SystemSpec> {
    let mut texts: Vec<String> = Vec::new();
    for row in ROWS {
        let takes = |key| row.takes(key);
        let mut variants = |all: &[&str]| {
            texts.extend(all.iter().map(|options| format!("{}{options}", row.name)));
        };
        // What delays coalescing refuses requests that could be served, as its paper has it, unless it is told
        // to coalesce first.
        if takes("reclaim") {
            variants(&["+reclaim=on", "+order=3+reclaim=on"]);
            if takes("debt") {
                variants(&["+reclaim=on+debt=on", "+order=3+reclaim=on+debt=on"]);
            }
            continue;
        }
        variants(&["", "+order=3"]);
        if takes("percpu") {
            variants(&["+percpu=locked"]);
        }
        if row.list == ListKind::Magazines {
            // Magazines that are often exchanged.
            variants(&["+batch=1", "+batch=2", "+batch=31+lock=ticket"]);
        }
        if takes("batch") && takes("high") {
            // The suite's memories are small, where the batch by memory is 1: so the real one too.
            variants(&["+batch=2+high=3", "+batch=31+high=186"]);
            if takes("percpu") {
                variants(&["+batch=31+high=186+percpu=locked"]);
            }
        }
        if row.list == ListKind::PcpBuddy {
            // Page blocks of 8 and of 32 frames, which are often whole, and marks that are often reached.
            variants(&["+batch=2+high=3+order=3", "+batch=7+high=40+order=5"]);
        }
        if takes("high") && !takes("batch") {
            variants(&["+high=3", "+high=700"]);
        }
        if takes("zone") {
            // Memory in very many spaces, in few, and in one.
            let small = "+order=3+zone=spaces+space=32KiB";
            variants(&[small, "+zone=spaces+select=fresh", "+zone=one"]);
            for more in ["+exchange=single", "+exchange=never", "+shards=3"] {
                variants(&[&format!("{small}{more}")]);
            }
        }
        if takes("space") && !takes("zone") {
            // More instances than CPUs.
            variants(&["+order=3+space=32KiB"]);
        }
        if takes("state") {
            variants(&[
                "+state=record",
                "+order=3+zone=spaces+space=32KiB+state=record",
            ]);
            if takes("batch") {
                variants(&["+batch=7+high=20+order=3+state=record+drain=merged"]);
            }
        }
        if takes("steal") {
            variants(&["+steal=mixed", "+order=3+steal=mixed"]);
        }
        if takes("lock") {
            let line = if takes("line") { "+line=beside" } else { "" };
            variants(&[&format!("+lock=ticket{line}"), "+lock=queued"]);
        }
        if takes("idle") {
            // Domains that are merged whenever one comes back, and after a while.
            let zone = if takes("zone") { "+zone=domains" } else { "" };
            for more in ["+idle=1", "+spring=locked"] {
                variants(&[&format!("+order=3{zone}{more}")]);
            }
            if takes("zone") {
                variants(&[zone]);
            }
        }
        if takes("hold") {
            variants(&["+hold=iteration", "+lock=ticket+hold=when-contended"]);
        }
        if takes("batch") && takes("hold") && takes("zone") {
            variants(&["+order=3+zone=spaces+space=32KiB+batch=31+high=186+hold=iteration"]);
        }
        if takes("drain") {
            variants(&[
                "+drain=merged",
                "+batch=7+high=20+order=3+drain=merged",
                "+batch=31+high=186+drain=merged",
            ]);
            if takes("percpu") {
                variants(&["+batch=7+high=20+percpu=locked+drain=merged"]);
            }
            if takes("zone") {
                variants(&["+batch=7+high=20+order=3+zone=spaces+space=32KiB+drain=merged"]);
            }
            if takes("idle") {
                variants(&["+batch=7+high=20+order=3+zone=domains+idle=1+drain=merged"]);
            }
        }
        if takes("tree") && row.zone() == ZoneKind::Owned {
            // Trees of one word, and one tree; blocks of several trees.
            variants(&["+tree=256KiB", "+order=12+tree=1MiB", "+order=9+tree=16MiB"]);
        }
        if takes("tree") && row.zone() == ZoneKind::Reserved {
            // Trees of two children, and trees larger than memory; no block of two children.
            variants(&["+tree=4MiB", "+order=9+tree=1GiB"]);
        }
        if takes("queue") {
            // Queues that are always full, and such as never are; each way to join the services.
            variants(&["+queue=1", "+order=3+queue=2+sync=lock"]);
            variants(&["+queue=4096+manager=thread", "+separate=off"]);
            variants(&["+order=3+queue=64+remnants=first"]);
            variants(&["+order=3+structure=list", "+structure=bitmap"]);
            variants(&["+order=3+structure=bitmap+separate=off"]);
        }
    }
    let parse = |text: &String| text.parse().expect("a row takes the options that it lists");
    texts.iter().map(parse).collect()
}
