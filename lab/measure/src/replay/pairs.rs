//! Pairs of an allocation and a free by one caller, with or without pauses.
//!
//! Between its calls the caller may wait by reading the clock, which is not timed. Systems are called indirectly, so
//! that the loop is compiled once.
//!
//! A call of a few nanoseconds ends before the clock can be read twice, so pairs without pauses are also timed in
//! segments.
//!
//! # Invariants
//! All systems are called in the same way, whatever their probe.

use everybuddy::platform::{NativeCpu, NativeCpus};
use everybuddy::{Block, CpuId, Index, Order, Release, Request};

use crate::Error;
use crate::replay::calls::Calls;
use crate::replay::clock::Timer;
use crate::replay::retry::{MAX_RETRIES_ALONE, retry};
use crate::replay::services::{self, Served};
use crate::replay::watch::ReadableProbe;

/// What a caller does.
#[derive(Clone, Copy, Debug)]
pub struct Pairs {
    /// The order of its blocks.
    pub order: Order,
    /// The number of blocks that it allocates before it frees as many.
    pub burst: usize,
    /// Nanoseconds from the end of a call to the next.
    pub pause_ns: f64,
    /// Pairs before the timed part.
    pub before: usize,
    /// Pairs whose calls are timed one by one.
    pub singles: usize,
    /// Segments that are timed as a whole, without pauses.
    pub segments: usize,
    /// Pairs of a segment.
    pub segment: usize,
}

/// Measured times, in ticks.
#[derive(Clone, Debug, Default)]
pub struct PairTicks {
    /// Each allocation, and each free.
    pub singles: [Vec<u32>; 2],
    /// Each segment.
    pub segments: Vec<u32>,
}

/// The results of a caller.
pub struct Paired<B> {
    /// Its times.
    pub ticks: PairTicks,
    /// The work of services with their own threads.
    pub services: Vec<Served>,
    /// The probes, that of the caller first.
    pub heard: Vec<B>,
}

impl Pairs {
    /// Returns the total number of pairs.
    pub fn performed(&self) -> usize {
        let bursts = |pairs: usize| pairs.next_multiple_of(self.burst);
        bursts(self.before) + bursts(self.singles) + self.segments * self.segment
    }

    /// Calls a new system while its services run.
    ///
    /// # Errors
    /// [`Error::Broken`] if a call failed.
    pub fn time<B: ReadableProbe>(
        &self,
        system: &(impl Calls<B> + ?Sized),
        timer: &Timer,
        probe: &(dyn Fn() -> B + Sync),
    ) -> Result<Paired<B>, Error> {
        let cpus = NativeCpus::new(1);
        let busy = |_| Error::Broken("the caller's CPU is taken".to_string());
        let mut cpu = cpus.claim_probed(CpuId(0)).map_err(busy)?;
        *cpu.probe() = probe();
        let mut ticks = PairTicks {
            singles: [0, 1].map(|_| Vec::with_capacity(self.performed())),
            segments: Vec::with_capacity(self.segments),
        };
        let (done, services, mut heard) = services::alongside(system, 1, probe, || {
            self.perform(self.before, system, &mut cpu, timer, &mut ticks.singles)?;
            ticks.singles.iter_mut().for_each(Vec::clear);
            self.perform(self.singles, system, &mut cpu, timer, &mut ticks.singles)?;
            self.perform_segments(system, &mut cpu, timer, &mut ticks.segments)
        });
        done?;
        heard.insert(0, std::mem::take(cpu.probe()));
        system.park(&mut cpu);
        cpus.release(cpu);
        Ok(Paired {
            ticks,
            services,
            heard,
        })
    }

    /// Performs pairs, each call timed.
    fn perform<B: ReadableProbe>(
        &self,
        pairs: usize,
        system: &(impl Calls<B> + ?Sized),
        cpu: &mut NativeCpu<B>,
        timer: &Timer,
        ticks: &mut [Vec<u32>; 2],
    ) -> Result<(), Error> {
        let order = self.order;
        let pause = timer.ticks(self.pause_ns);
        let mut held = vec![Index(0); self.burst];
        // Services without a thread run here while the caller has nothing to do, as in the idle loop of a CPU.
        let services = system.services().iter().enumerate();
        let idle = services.filter(|(_, service)| !service.own_thread);
        let idle: Vec<usize> = idle.map(|(number, _)| number).collect();
        let wait = |cpu: &mut NativeCpu<B>, end: u64| {
            let mut now = timer.now();
            while now.saturating_sub(end) < pause {
                for service in &idle {
                    system.serve(cpu, *service, 1);
                }
                std::hint::spin_loop();
                now = timer.now();
            }
            now
        };
        let mut end = timer.now();
        for _ in 0..pairs.div_ceil(self.burst) {
            for place in &mut held {
                let start = wait(cpu, end);
                *place = allocate(system, cpu, order)?;
                end = timer.now();
                ticks[0].push(u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX));
            }
            for head in &held {
                let start = wait(cpu, end);
                let freed = system.free(cpu, Release::block(Block::new(*head, order)));
                end = timer.now();
                ticks[1].push(u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX));
                freed.map_err(|error| Error::Broken(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Performs pairs without pauses, timed in segments.
    fn perform_segments<B: ReadableProbe>(
        &self,
        system: &(impl Calls<B> + ?Sized),
        cpu: &mut NativeCpu<B>,
        timer: &Timer,
        ticks: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let order = self.order;
        let mut held = vec![Index(0); self.burst];
        for _ in 0..self.segments {
            let begun = timer.now();
            for _ in 0..self.segment / self.burst {
                for place in &mut held {
                    *place = allocate(system, cpu, order)?;
                }
                for start in &held {
                    let freed = system.free(cpu, Release::block(Block::new(*start, order)));
                    freed.map_err(|error| Error::Broken(error.to_string()))?;
                }
            }
            ticks.push(timer.since(begun));
        }
        Ok(())
    }
}

/// Allocates a block; retries while other CPUs are busy.
#[inline]
fn allocate<B: ReadableProbe>(
    system: &(impl Calls<B> + ?Sized),
    cpu: &mut NativeCpu<B>,
    order: Order,
) -> Result<Index, Error> {
    let request = Request::order(order);
    match system.allocate(cpu, request) {
        Ok(frame) => Ok(frame),
        Err(error) => retry(system, cpu, request, error, MAX_RETRIES_ALONE, || ())
            .map_err(|error| Error::Broken(error.to_string())),
    }
}
