//! Runs the hot paths of every system natively, for an instruction counter. Arguments choose systems; without any, all
//! run.

use std::mem::MaybeUninit;

use everybuddy::prelude::*;
use everybuddy_example_instructions::{FRAMES, METADATA, Paths, systems};

/// The systems that are also called through `dyn FrameAllocator`.
const INDIRECT: &[&str] = &["bs", "lbs-31", "is", "spring", "serewa", "linux-6"];

/// Runs the paths of a system, called directly, and of some systems also indirectly.
struct Visitor<'n>(&'n str);

impl WithSystem<Native> for Visitor<'_> {
    type Output = ();

    fn call<A: FrameAllocator<Native>>(self, _: &'static str, system: &A) {
        let cpus = NativeCpus::new(2);
        let [mut cpu, mut other] =
            [0, 1].map(|cpu| cpus.claim(CpuId(cpu)).expect("no other thread has it"));
        Paths::<Native, A>::run(self.0, system, &mut cpu, Some(&mut other));
        if INDIRECT.contains(&self.0) {
            let name = format!("dyn:{}", self.0);
            Paths::<Native, dyn FrameAllocator<Native>>::run(
                &name,
                system,
                &mut cpu,
                Some(&mut other),
            );
        }
    }
}

fn main() {
    let setup = Setup::new(&[FRAMES], 2);
    let mut memory = vec![MaybeUninit::uninit(); METADATA];
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    for name in systems(&chosen) {
        let spec: SystemSpec = name.parse().expect("a system of this name exists");
        with_system(&spec, &setup, &mut memory, Visitor(name)).expect("the metadata suffices");
    }
}
