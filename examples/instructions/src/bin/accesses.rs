//! Runs the hot paths of every system on the virtual machine, and counts the accesses to shared memory, which are the
//! same on every host. Arguments choose systems; without any, all run.

use std::mem::MaybeUninit;

use everybuddy::CpuToken;
use everybuddy::prelude::*;
use everybuddy_example_instructions::{FRAMES, METADATA, Paths, systems};
use everybuddy_sim::{Machine, Region, Sim, SimCpu, build_any};

fn main() {
    let setup = Setup::new(&[FRAMES], 2);
    let mut memory = vec![MaybeUninit::uninit(); METADATA];
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    for name in systems(&chosen) {
        let spec: SystemSpec = name.parse().expect("a system of this name exists");
        let region = Region::of(&memory);
        let system = build_any(&spec, &setup, Memory::new(&mut memory));
        let system = system.expect("the metadata suffices");
        let run = Machine::new(2).run(region, |cpu: &mut SimCpu| {
            if cpu.id() == CpuId(0) {
                Paths::<Sim, dyn FrameAllocator<Sim>>::run(name, system, cpu);
            }
        });
        run.expect("the paths run without an error");
    }
}
