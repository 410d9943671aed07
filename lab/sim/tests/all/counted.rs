//! A frame by count is a frame: it makes the accesses of one by order, or one more, through every layer above a list.
//! By bytes it makes those by order.
//!
//! # Invariants
//! Accesses are those of the second of two equal calls. The first one fills the list.

use everybuddy::systems::ROWS;
use everybuddy::{CpuToken, Index, Nodes, Release, Request, Zone};
use everybuddy_adapters::FRAME_BYTES;
use everybuddy_adapters::runs;
use everybuddy_sim::{Machine, SimCpu};

use crate::common::{System, with_memory};

/// Returns the accesses of a call that was made before.
fn accesses(cpu: &mut SimCpu, call: &dyn Fn(&mut SimCpu)) -> u64 {
    call(cpu);
    let before = cpu.accesses();
    call(cpu);
    cpu.accesses() - before
}

/// Compares an allocation and a free by order with those by count, and with those by bytes.
fn compare(name: &str, system: &System<'_>, cpu: &mut SimCpu) {
    let pair = |cpu: &mut SimCpu, request, release: fn(Index) -> Release| {
        let frame = system.allocate(cpu, request).unwrap();
        system.free(cpu, release(frame)).unwrap();
    };
    let by_order = accesses(cpu, &|cpu| pair(cpu, Request::FRAME, Release::frame));
    if system.buffered_frames(cpu.id()) == 0 && !["llfree", "nbbs"].contains(&name) {
        return;
    }
    let by_count = accesses(cpu, &|cpu| {
        pair(cpu, Request::frames(1), |frame| Release::frames(frame, 1));
    });
    let by_bytes = accesses(cpu, &|cpu| {
        let address = runs::allocate(system, cpu, FRAME_BYTES, 1, None).unwrap();
        runs::free(system, cpu, address, FRAME_BYTES).unwrap();
    });
    // It peeks at the head first.
    let more = if name == "everybuddy" { 1 } else { 0 };
    assert_eq!((by_count, by_bytes), (by_order + more, by_order), "{name}");
}

#[test]
fn a_frame_by_count_makes_the_accesses_of_one_by_order() {
    for row in ROWS {
        with_memory(row.name, 1, 4096, 0, |region, system| {
            let zones = [Zone::new(0, system)];
            let nodes = Nodes::new(&zones, &[], &[]).unwrap();
            let run = Machine::new(1).run(region, |cpu: &mut SimCpu| {
                compare(row.name, system, cpu);
                compare(row.name, &nodes, cpu);
            });
            run.unwrap();
        });
    }
}
