//! Ways to perform a recording: timed, counted, in an arena that grows.
//!
//! Counting and timing disturb each other, so each has a separate pass over the same calls.
//!
//! # Invariants
//! A failed request leaves its slot empty, and its free is skipped.

use everybuddy::Order;

use super::manager::Manager;
use super::recording::{Call, Recording};
use super::tally::Tally;

/// The value of an empty slot.
const NOTHING: u32 = u32::MAX;

/// The contents of the slots.
struct Slots(Vec<(u32, Order)>);

impl Slots {
    fn new(recording: &Recording) -> Self {
        Self(vec![(NOTHING, Order::ZERO); recording.slots as usize])
    }

    fn set(&mut self, slot: u32, start: u32, order: Order) {
        self.0[slot as usize] = (start, order);
    }

    fn take(&mut self, slot: u32) -> Option<(u32, Order)> {
        let held = &mut self.0[slot as usize];
        let (start, order) = *held;
        held.0 = NOTHING;
        (start != NOTHING).then_some((start, order))
    }

    /// Frees everything.
    fn empty(&mut self, manager: &mut dyn Manager) -> Result<(), String> {
        for (start, order) in &mut self.0 {
            if *start != NOTHING && !manager.free(*start, *order) {
                return Err(misplaced(*start));
            }
            *start = NOTHING;
        }
        Ok(())
    }
}

fn misplaced(start: u32) -> String {
    format!("the block at unit {start} could not be given back")
}

/// Performs a call. Returns whether it succeeded, and the order of its block. A free of an empty slot has no effect.
#[inline(always)]
fn step<M: Manager + ?Sized>(
    manager: &mut M,
    slots: &mut Slots,
    call: Call,
) -> Result<Option<Order>, String> {
    match call.order {
        Some(order) => {
            let start = manager.allocate(order);
            slots.set(call.slot, start.unwrap_or(NOTHING), order);
            Ok(start.map(|_| order))
        }
        None => match slots.take(call.slot) {
            Some((start, order)) if manager.free(start, order) => Ok(Some(order)),
            Some((start, _)) => Err(misplaced(start)),
            None => Ok(None),
        },
    }
}

/// The events of the counted calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Successful allocations and frees.
    pub tallies: [Tally; 2],
    /// Requests.
    pub requests: u64,
    /// Failed requests.
    pub refused: u64,
}

impl Counted {
    /// Returns the share of failed requests.
    pub fn blocking(&self) -> f64 {
        self.refused as f64 / self.requests.max(1) as f64
    }

    /// Adds another run.
    pub fn join(&mut self, other: &Counted) {
        for (own, other) in self.tallies.iter_mut().zip(&other.tallies) {
            own.join(other);
        }
        self.requests += other.requests;
        self.refused += other.refused;
    }
}

/// Performs a recording and counts; then frees everything and checks the manager, all of whose `units` must be free.
/// O(calls + units).
///
/// # Errors
/// Returns the problem with the manager.
pub fn count(
    manager: &mut dyn Manager,
    recording: &Recording,
    units: u32,
) -> Result<Counted, String> {
    let mut slots = Slots::new(recording);
    let mut counted = Counted::default();
    manager.work();
    for (at, call) in recording.calls.iter().enumerate() {
        let served = step(manager, &mut slots, *call)?;
        let work = manager.work();
        if at < recording.warm {
            continue;
        }
        let direction = usize::from(call.order.is_none());
        if let Some(order) = served {
            counted.tallies[direction].note(order, &work);
        }
        if direction == 0 {
            counted.requests += 1;
            counted.refused += u64::from(served.is_none());
        }
    }
    slots.empty(manager)?;
    match manager.check()? {
        free if free == units => Ok(counted),
        free => Err(format!("{free} of {units} units are free finally")),
    }
}

/// Performs a recording; returns the numbers of counted requests and of failures among them. O(calls).
///
/// # Errors
/// Returns a block that could not be freed.
pub fn refuse(manager: &mut dyn Manager, recording: &Recording) -> Result<(u64, u64), String> {
    let mut slots = Slots::new(recording);
    let (mut requests, mut refused) = (0, 0);
    for (at, call) in recording.calls.iter().enumerate() {
        let served = step(manager, &mut slots, *call)?;
        if at >= recording.warm && call.order.is_some() {
            requests += 1;
            refused += u64::from(served.is_none());
        }
    }
    Ok((requests, refused))
}

/// The number of calls between two samples of free memory.
const BETWEEN: usize = 256;

/// Performs a recording; returns the mean number of free blocks of each order, for each part of the counted calls.
/// O(calls).
///
/// # Errors
/// Returns a block that could not be freed.
pub fn free_blocks(
    manager: &mut dyn Manager,
    recording: &Recording,
    parts: usize,
) -> Result<Vec<Vec<f64>>, String> {
    const ORDERS: usize = Order::LIMIT.index() + 1;
    let mut slots = Slots::new(recording);
    let (warm, counting) = recording.calls.split_at(recording.warm);
    for call in warm {
        step(manager, &mut slots, *call)?;
    }
    let mut means = Vec::new();
    for part in counting.chunks(counting.len().div_ceil(parts).max(1)) {
        let (mut sums, mut looks) = ([0; ORDERS], 0);
        for (at, call) in part.iter().enumerate() {
            step(manager, &mut slots, *call)?;
            if at % BETWEEN == 0 {
                manager.add_free_blocks(&mut sums);
                looks += 1;
            }
        }
        means.push(sums.map(|sum| sum as f64 / f64::from(looks)).to_vec());
    }
    Ok(means)
}

/// The number of calls that are timed together: few enough that most segments are not interrupted.
const SEGMENT: usize = 256;

/// Performs a recording; returns the ticks of every 256 counted calls. O(calls).
///
/// # Errors
/// Returns a block that could not be freed.
pub fn time<M: Manager>(
    manager: &mut M,
    recording: &Recording,
    now: impl Fn() -> u64,
) -> Result<Vec<u32>, String> {
    let mut slots = Slots::new(recording);
    let (warm, counting) = recording.calls.split_at(recording.warm);
    for call in warm {
        step(manager, &mut slots, *call)?;
    }
    let mut times = Vec::with_capacity(counting.len() / SEGMENT + 1);
    for segment in counting.chunks(SEGMENT) {
        let start = now();
        for call in segment {
            step(manager, &mut slots, *call)?;
        }
        let ticks = now().wrapping_sub(start);
        times.push(u32::try_from(ticks).unwrap_or(u32::MAX));
    }
    Ok(times)
}

/// Performs a recording; returns the ticks of each successful allocation and of each free, including the clock's own.
/// O(calls).
///
/// # Errors
/// Returns a block that could not be freed.
pub fn time_each<M: Manager>(
    manager: &mut M,
    recording: &Recording,
    now: impl Fn() -> u64,
) -> Result<[Vec<u32>; 2], String> {
    let mut slots = Slots::new(recording);
    let mut times = [Vec::new(), Vec::new()];
    times
        .iter_mut()
        .for_each(|times| times.reserve(recording.calls.len()));
    for (at, call) in recording.calls.iter().enumerate() {
        let (start, end);
        let served = match call.order {
            Some(order) => {
                start = now();
                let block = manager.allocate(order);
                end = now();
                slots.set(call.slot, block.unwrap_or(NOTHING), order);
                block.is_some()
            }
            None => match slots.take(call.slot) {
                Some((block, order)) => {
                    start = now();
                    let freed = manager.free(block, order);
                    end = now();
                    if freed {
                        true
                    } else {
                        return Err(misplaced(block));
                    }
                }
                None => continue,
            },
        };
        if at >= recording.warm && served {
            let ticks = u32::try_from(end.wrapping_sub(start)).unwrap_or(u32::MAX);
            times[usize::from(call.order.is_none())].push(ticks);
        }
    }
    Ok(times)
}

/// Performs a recording in memory that grows by `step` units whenever a request requires it. Returns the number of
/// added units, and the maximum number of units in use. All calls count. At the end everything must be free. O(calls
/// + growths x units).
///
/// # Errors
/// Returns the problem with the manager, or that there is no room left.
pub fn grow(
    manager: &mut dyn Manager,
    recording: &Recording,
    first: u32,
    step: u32,
) -> Result<(u32, u32), String> {
    let mut slots = Slots::new(recording);
    let mut units = first;
    let (mut held, mut most) = (0, 0);
    for call in &recording.calls {
        match call.order {
            Some(order) => {
                let start = loop {
                    if let Some(start) = manager.allocate(order) {
                        break start;
                    }
                    if !manager.grow(step) {
                        return Err(format!("no room to grow beyond {units} units"));
                    }
                    units += step;
                };
                slots.set(call.slot, start, order);
                held += order.frames();
                most = most.max(held);
            }
            None => {
                let Some((start, order)) = slots.take(call.slot) else {
                    continue;
                };
                if !manager.free(start, order) {
                    return Err(misplaced(start));
                }
                held -= order.frames();
            }
        }
    }
    slots.empty(manager)?;
    match manager.check()? {
        free if free == units => Ok((units, most)),
        free => Err(format!("{free} of {units} units are free finally")),
    }
}
