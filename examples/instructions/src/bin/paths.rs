//! Runs the hot paths of every system natively, for an instruction counter. Arguments choose systems; without any, all
//! run.

use std::mem::MaybeUninit;

use everybuddy::prelude::*;
use everybuddy_example_instructions::{FRAMES, METADATA, Paths, systems};

/// The systems that are also called through `dyn FrameAllocator`.
const INDIRECT: &[&str] = &["bs", "lbs-31", "is", "spring", "serewa", "linux-6"];

/// Runs the paths of a system on the calls of `A`.
fn run<A: FrameAllocator<Native> + ?Sized>(name: &str, system: &A, is_two: bool) {
    let cpus = NativeCpus::new(2);
    let [mut cpu, mut other] =
        [0, 1].map(|cpu| cpus.claim(CpuId(cpu)).expect("no other thread has it"));
    if is_two {
        Paths::<Native, A>::run_two(name, system, &mut cpu, &mut other);
    } else {
        Paths::<Native, A>::run(name, system, &mut cpu);
    }
}

/// Runs the paths of a system, called directly, or indirectly under a name of its own.
struct Visitor<'n> {
    name: &'n str,
    is_indirect: bool,
    is_two: bool,
}

impl WithSystem<Native> for Visitor<'_> {
    type Output = ();

    fn call<A: FrameAllocator<Native>>(self, _: &'static str, system: &A) {
        if self.is_indirect {
            let name = format!("dyn:{}", self.name);
            run::<dyn FrameAllocator<Native>>(&name, system, self.is_two);
        } else {
            run(self.name, system, self.is_two);
        }
    }
}

fn main() {
    let setup = Setup::new(&[FRAMES], 2);
    let mut memory = vec![MaybeUninit::uninit(); METADATA];
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    for name in systems(&chosen) {
        let spec: SystemSpec = name.parse().expect("a system of this name exists");
        for is_indirect in [false, true] {
            if is_indirect && !INDIRECT.contains(&name) {
                continue;
            }
            for is_two in [false, true] {
                let visitor = Visitor {
                    name,
                    is_indirect,
                    is_two,
                };
                let built = with_system(&spec, &setup, &mut memory, visitor);
                built.expect("the metadata suffices");
            }
        }
    }
}
