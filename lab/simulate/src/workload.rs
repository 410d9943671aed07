//! A workload of the benchmark as a load.
//!
//! Each CPU runs the program of its thread, step by step. All of them prepare, one after the other, and run a round to
//! warm up; then a round is measured.
//!
//! A round has sections: all allocate, then all free. CPUs meet before each section, or they are apart: each of them
//! begins at its own time and waits for none, so that some allocate while others free. A CPU that has made its calls
//! continues until all have, but not for ever.
//!
//! # Invariants
//! A block that one CPU passes to another is passed at no cost.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;

use everybuddy::{Block, Index, Release, Request, Size};
use everybuddy_sim::{Caches, Machine, Region, Report, SimCpu, SimError};
use everybuddy_trace::named;
use everybuddy_workload::{Body, Program, Setting, Step, Variant, deal};

use crate::caller::{Caller, Pace};
use crate::counted::{Counted, LOOK};
use crate::regions::Regions;
use crate::services::Crew;

/// Looks until a block is given up.
const MOST_LOOKS: u32 = 100_000;

/// The most rounds in which a CPU that is apart continues after its own measurement. An unfair lock can keep a CPU
/// waiting for as long as others come back to it.
const MOST_ROUNDS: u32 = 4;

named! {
    /// Whether CPUs run the same section of a workload at the same time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Phases {
        /// They meet before each section: all allocate, then all free.
        #[default]
        Together => "together",
        /// They begin at random times and never meet, so that some allocate while others free.
        Apart => "apart",
    }
}

named! {
    /// Which CPU frees what a CPU has allocated, in workloads that allocate in one section and free in the next.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Frees {
        /// The same, as if each CPU ran a process of its own.
        #[default]
        Own => "own",
        /// Another one, as if threads were moved between their allocations and their frees. A CPU frees what was
        /// allocated first of what others have left.
        Other => "other",
        /// The first CPU frees everything, as at the end of a process with many threads.
        One => "one",
    }
}

/// What was allocated.
#[derive(Clone, Copy)]
struct Held {
    start: Index,
    size: Size,
}

/// Blocks on their way to a CPU.
type Mailbox = RefCell<VecDeque<Held>>;

/// Blocks that are dealt out to all CPUs.
type Pot = RefCell<Vec<Held>>;

/// The slots of CPUs whose blocks other CPUs will free, with the CPU that filled them.
type Left = RefCell<VecDeque<(usize, Vec<Option<Held>>)>>;

/// Runs the workload, one thread on each CPU that makes calls.
pub(crate) fn run(
    variant: &Variant,
    setting: &Setting,
    (phases, frees): (Phases, Frees),
    pace: Pace,
    crew: &Crew<'_>,
    machine: &mut Machine<Caches>,
    region: Region,
) -> Result<Report<Counted>, SimError> {
    let mailboxes: Vec<Mailbox> = (0..setting.threads).map(|_| Mailbox::default()).collect();
    let (begun, done) = (Cell::new(0), Cell::new(0));
    let (pot, left) = (Pot::default(), Left::default());
    crew.run(machine, region, |cpu: &mut SimCpu| {
        let caller = Caller::new(pace, crew, cpu);
        let program = variant.program(setting, caller.index() as u16);
        let regions = variant.runs().map(|runs| {
            let seed = !(setting.seed << 16 | caller.index() as u64);
            Regions::new(runs, seed)
        });
        let thread = Thread {
            caller,
            mailboxes: &mailboxes,
            pot: &pot,
            left: &left,
            slots: vec![None; program.slots() as usize],
            program,
            is_apart: phases == Phases::Apart,
            frees,
            regions,
        };
        match phases {
            Phases::Together => thread.run(),
            Phases::Apart => thread.run_apart(&begun, &done),
        }
    })
}

/// A thread of the workload on its CPU.
struct Thread<'t, 'c> {
    caller: Caller<'t, 'c>,
    mailboxes: &'t [Mailbox],
    pot: &'t Pot,
    left: &'t Left,
    program: Program,
    slots: Vec<Option<Held>>,
    is_apart: bool,
    frees: Frees,
    /// What the calls are for; `None` if callers do not say.
    regions: Option<Regions>,
}

impl Thread<'_, '_> {
    fn run(mut self) -> Counted {
        self.prepare();
        self.round();
        self.caller.meet();
        self.caller.mark();
        self.caller.begin();
        self.round();
        self.caller.done();
        self.caller.stop()
    }

    /// The same, where CPUs are apart. All are measured from the time when the last of them begins until the first of
    /// them stops. `begun` and `done` count the CPUs that have begun, and that have made their calls.
    fn run_apart(mut self, begun: &Cell<usize>, done: &Cell<usize>) -> Counted {
        let cpus = self.mailboxes.len();
        self.prepare();
        let before = self.caller.now();
        self.round();
        let round = self.caller.now() - before;
        self.caller.meet();
        self.caller.wait_up_to(round);
        begun.set(begun.get() + 1);
        if begun.get() == cpus {
            self.caller.mark();
        }
        self.caller.begin();
        // The first CPUs have the machine to themselves, and make calls until the last one begins.
        while begun.get() < cpus {
            self.round();
        }
        self.round();
        self.round();
        self.caller.done();
        done.set(done.get() + 1);
        for _ in 0..MOST_ROUNDS {
            if done.get() == cpus {
                break;
            }
            self.round();
        }
        self.caller.stop()
    }

    fn prepare(&mut self) {
        let me = self.caller.index();
        for turn in 0..self.mailboxes.len() {
            if turn == me {
                for body in self.program.prepare().to_vec() {
                    self.body(&body);
                }
            }
            self.caller.meet();
        }
        for body in self.program.settle().to_vec() {
            self.body(&body);
            self.caller.meet();
        }
    }

    fn round(&mut self) {
        for section in self.program.round() {
            let is_passed = self.frees != Frees::Own
                && self.mailboxes.len() > 1
                && matches!(section.body, Body::Free { .. });
            if is_passed {
                let own = std::mem::take(&mut self.slots);
                let me = self.caller.index();
                self.left.borrow_mut().push_back((me, own));
            }
            if !self.is_apart {
                self.caller.meet();
            }
            self.caller.begin_section();
            if is_passed {
                self.free_of_others(&section.body)
            } else {
                self.body(&section.body)
            }
        }
    }

    /// Frees what other CPUs have left, and continues with empty slots.
    fn free_of_others(&mut self, body: &Body) {
        let (me, frees) = (self.caller.index(), self.frees);
        let chosen = |left: &mut VecDeque<(usize, _)>| match frees {
            Frees::One if me == 0 => left.pop_front(),
            Frees::Own | Frees::One => None,
            Frees::Other => {
                let first = left.iter().position(|(owner, _)| *owner != me);
                first.and_then(|at| left.remove(at))
            }
        };
        loop {
            // Not borrowed during calls, which switch to other CPUs.
            let next = chosen(&mut self.left.borrow_mut());
            let Some((_, slots)) = next else { break };
            self.slots = slots;
            self.body(body);
            if frees == Frees::Other {
                break;
            }
        }
        self.slots = vec![None; self.program.slots() as usize];
    }

    fn body(&mut self, body: &Body) {
        let range = |slots: &Range<u32>| slots.start as usize..slots.end as usize;
        match body {
            Body::Arrange { slots } => {
                self.slots[range(slots)].sort_by_key(|held| held.map(|held| held.start));
            }
            Body::Give { slots } => {
                let own = self.slots[range(slots)].iter_mut().filter_map(Option::take);
                let mut pot = self.pot.borrow_mut();
                pot.extend(own);
                pot.sort_by_key(|held| held.start);
            }
            Body::Take {
                slots,
                thread,
                threads,
                seed,
            } => {
                let own = deal(&self.pot.borrow(), *thread, *threads, *seed);
                let places = self.slots[range(slots)].iter_mut();
                places
                    .zip(own)
                    .for_each(|(place, held)| *place = Some(held));
            }
            _ => {}
        }
        for step in body.steps() {
            self.step(step);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Allocate { slot, size } => {
                let request = match size {
                    Size::Order(order) => Request::order(order),
                    Size::Frames(frames) => Request::frames(frames.0),
                };
                let request = match &mut self.regions {
                    Some(regions) => {
                        let after = self.slots.len() as u32 - slot - 1;
                        request.with_hint(regions.hint(self.caller.index(), 0, after))
                    }
                    None => request,
                };
                let given = self.caller.allocate(request);
                self.slots[slot as usize] = given.map(|start| Held { start, size });
            }
            Step::Free { slot } => {
                if let Some(Held { start, size }) = self.slots[slot as usize].take() {
                    let release = match size {
                        Size::Order(order) => Release::block(Block::new(start, order)),
                        Size::Frames(frames) => Release::frames(start, frames.0),
                    };
                    self.caller.free(match &mut self.regions {
                        Some(regions) => {
                            let after = self.slots.len() as u32 - slot - 1;
                            release.with_hint(regions.hint(self.caller.index(), 1, after))
                        }
                        None => release,
                    });
                }
            }
            Step::Hand { slot } => {
                if let Some(block) = self.slots[slot as usize].take() {
                    let next = (self.caller.index() + 1) % self.mailboxes.len();
                    self.mailboxes[next].borrow_mut().push_back(block);
                }
            }
            Step::Receive { slot } => {
                let (me, cpus) = (self.caller.index(), self.mailboxes.len());
                let (own, sender) = (&self.mailboxes[me], (me + cpus - 1) % cpus);
                if own.borrow().is_empty() {
                    self.caller.park();
                }
                // The sender may be refused and send nothing: so the wait ends.
                self.caller.progress();
                for _ in 0..MOST_LOOKS {
                    let block = own.borrow_mut().pop_front();
                    if block.is_some() {
                        self.slots[slot as usize] = block;
                        break;
                    }
                    if self.caller.waits_in_vain(sender) {
                        break;
                    }
                    self.caller.idle(LOOK);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap, HashSet};

    use everybuddy::Hint;

    use everybuddy_measure::choice;

    use super::*;
    use crate::Services;
    use crate::clerk::{Asked, Clerk, Kind, UNIT};
    use crate::work::Work;

    /// Runs a workload on four CPUs, with an allocator that writes down what it is asked.
    fn on_clerk(clerk: &Clerk, phases: Phases) -> Vec<Counted> {
        of("burst:in-order", clerk, (phases, Frees::Own))
    }

    fn of(workload: &str, clerk: &Clerk, how: (Phases, Frees)) -> Vec<Counted> {
        serving(workload, clerk, how, Services::Callers)
    }

    fn serving(
        workload: &str,
        clerk: &Clerk,
        (phases, frees): (Phases, Frees),
        services: Services,
    ) -> Vec<Counted> {
        let machine = crate::machines::by_name_or_path("x5570").unwrap();
        let variants = choice::workloads(&[workload.to_string()]).unwrap();
        let setting = Setting {
            frames: 8192,
            threads: 4,
            seed: 1,
            shrink: 64,
        };
        let pace = Pace {
            think: [100; 2],
            around: 0,
            seed: 1,
            is_recorded: false,
            keeps_ends: phases == Phases::Apart,
            cut_off: None,
            whole_calls: false,
        };
        let mut machine = Machine::new(4).cost(Caches::new(machine.hardware));
        let report = run(
            variants[0],
            &setting,
            (phases, frees),
            pace,
            &Crew::new(clerk, 4, services, Work::default(), false),
            &mut machine,
            Region::NONE,
        );
        report.unwrap().results
    }

    #[test]
    fn cpus_that_are_apart_begin_at_different_times_and_go_on_until_all_are_measured() {
        let clerk = Clerk::default();
        let counted = on_clerk(&clerk, Phases::Apart);
        let starts: BTreeSet<u64> = counted.iter().map(|own| own.start).collect();
        assert_eq!(starts.len(), 4, "{starts:?}");
        // Within a round, and not only because the times between calls differ. The last CPU makes the calls of two
        // rounds.
        let between = starts.last().unwrap() - starts.first().unwrap();
        let last = counted.iter().max_by_key(|own| own.start).unwrap();
        let round = (last.end - last.start) / 2;
        assert!(between > round / 4, "{between} of {round}");
        assert!(between < round * 3 / 2, "{between} of {round}");
        let latest = counted.iter().map(|own| own.end).max().unwrap();
        let times = clerk.times.into_inner().unwrap();
        for (cpu, own) in (0..).zip(&counted) {
            let all = || times.iter().filter(|call| call.0 == cpu);
            let calls = all().filter(|call| call.2 != Kind::Park).map(|call| call.1);
            let calls: Vec<u64> = calls.collect();
            let before = calls.iter().filter(|at| **at < own.start).count();
            let inside = calls.iter().filter(|at| (own.start..own.end).contains(at));
            let inside = inside.count();
            assert!(inside >= 2 * before, "a round to warm up, and two apart");
            assert_eq!(inside % before, 0, "whole rounds");
            assert_eq!(calls.len() - before, own.allocate.len() + own.free.len());
            assert_eq!(
                own.ends.each_ref().map(Vec::len),
                [own.allocate.len(), own.free.len()]
            );
            let last = calls[calls.len() - 1];
            assert!(
                last > own.end || own.end == latest,
                "CPU {cpu} stopped early"
            );
            assert!(last < latest + round * 3 / 2, "CPU {cpu} does not stop");
            assert_eq!(all().next_back().unwrap().2, Kind::Park);
        }
    }

    #[test]
    fn cpus_that_meet_park_and_the_time_between_calls_varies() {
        let clerk = Clerk::default();
        let counted = on_clerk(&clerk, Phases::Together);
        let times = clerk.times.into_inner().unwrap();
        let of = |kind| {
            times
                .iter()
                .filter(move |call| call.0 == 2 && call.2 == kind)
        };
        // Each section of two rounds, and the end.
        assert!(of(Kind::Park).count() > 4);
        let begins: Vec<u64> = of(Kind::Allocate).map(|call| call.1).collect();
        let pauses = begins.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(pauses.collect::<HashSet<u64>>().len() > 20);
        let calls = counted.iter().map(|own| own.allocate.len() as u64);
        assert!(calls.sum::<u64>() > 100);
    }

    #[test]
    fn frames_are_freed_by_the_cpus_that_the_reading_says() {
        for (phases, frees) in [
            (Phases::Together, Frees::Own),
            (Phases::Together, Frees::Other),
            (Phases::Together, Frees::One),
            (Phases::Apart, Frees::Other),
        ] {
            let clerk = Clerk::default();
            of("burst:in-order", &clerk, (phases, frees));
            let (mut owners, mut freed) = (HashMap::new(), 0);
            for asked in clerk.log.into_inner().unwrap() {
                match asked {
                    Asked::Allocate(cpu, _, start) => {
                        assert_eq!(owners.insert(start, cpu), None);
                    }
                    Asked::Free(cpu, release) => {
                        let owner = owners.remove(&release.start.0).expect("it is freed once");
                        match frees {
                            Frees::Own => assert_eq!(cpu, owner),
                            Frees::Other => assert_ne!(cpu, owner),
                            Frees::One => assert_eq!(cpu, 0),
                        }
                        freed += 1;
                    }
                }
            }
            // Where another CPU frees, some blocks may be left at the end.
            let left = owners.len();
            let may_stay = frees == Frees::Other;
            assert!(freed > 4 * left, "{frees:?} {left}");
            assert!(left == 0 || may_stay, "{frees:?} {left}");
        }
    }

    #[test]
    fn a_program_of_a_paper_says_what_its_calls_are_for() {
        let clerk = Clerk::default();
        of("spring:stream", &clerk, (Phases::Together, Frees::Own));
        let log = clerk.log.into_inner().unwrap();
        let hints: Vec<Hint> = log
            .iter()
            .map(|asked| match asked {
                Asked::Allocate(_, request, _) => request.hint,
                Asked::Free(_, release) => release.hint,
            })
            .collect();
        assert!(hints.iter().all(|hint| hint.task < 4 && hint.region < 3));
        // The last call of a run is followed by none, and runs of frees are longer than a hundred.
        assert!(hints.iter().any(|hint| hint.left == 0));
        assert!(hints.iter().map(|hint| hint.left).max() > Some(100));
    }

    #[test]
    fn cpus_that_wait_serve_and_go_on_after_a_unit() {
        for (workload, phases) in [
            ("burst:in-order", Phases::Together),
            ("burst:in-order", Phases::Apart),
            ("handover", Phases::Together),
        ] {
            let clerk = Clerk::serving();
            let counted = serving(workload, &clerk, (phases, Frees::Own), Services::Idle);
            let times = clerk.times.into_inner().unwrap();
            let units: u64 = counted.iter().map(|own| own.units).sum();
            let busy: u64 = counted.iter().map(|own| own.busy).sum();
            assert!(units > 0 && busy >= units * u64::from(UNIT) / 4);
            for cpu in 0..4 {
                let calls: Vec<_> = times.iter().filter(|call| call.0 == cpu).collect();
                // Only in a wait, which begins with parking: never between two calls.
                for pair in calls.windows(2) {
                    let [before, after] = [pair[0].2, pair[1].2];
                    let is_wait = matches!(before, Kind::Park | Kind::Serve);
                    assert!(after != Kind::Serve || is_wait, "{before:?}, {after:?}");
                }
            }
            let is_call = |kind| matches!(kind, Kind::Allocate | Kind::Free);
            let last = times.iter().rposition(|call| is_call(call.2)).unwrap();
            let ends: HashMap<u16, u64> = times.iter().map(|call| (call.0, call.1)).collect();
            let longest = ends.values().max().unwrap() - times[last].1;
            assert!(
                longest < 10_000,
                "no CPU serves when none makes calls: {longest}"
            );
        }
    }

    #[test]
    fn all_meet_soon_after_the_last_one_comes() {
        let (clerk, serving_clerk) = (Clerk::default(), Clerk::serving());
        let how = (Phases::Together, Frees::Own);
        let alone = of("burst:in-order", &clerk, how);
        let served = serving("burst:in-order", &serving_clerk, how, Services::Idle);
        let length = |all: &[Counted]| {
            let end = all.iter().map(|own| own.end).max();
            end.unwrap() - all.iter().map(|own| own.start).min().unwrap()
        };
        let (alone, served) = (length(&alone), length(&served));
        // Sections end a unit later at most, and there are fewer than twenty.
        assert!(served < alone + 20 * u64::from(UNIT), "{alone}, {served}");
    }

    #[test]
    fn refused_requests_and_waits_are_counted() {
        let clerk = Clerk::refusing(everybuddy::Event::Ghost { waits: 1 });
        for own in on_clerk(&clerk, Phases::Together) {
            assert!(own.refused > 0 && own.free.is_empty());
            assert_eq!(own.refused, own.allocate.len() as u64);
            assert_eq!((own.contended, own.locks), ([own.refused, 0], 0));
        }
    }
}
