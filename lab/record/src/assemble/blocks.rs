//! The allocations and frees of a trace.
//!
//! The one rule that all else rests on, that a trace replays by itself, is kept in
//! one place, by the only code that adds events.
//!
//! # Invariants
//! An event is added only when the live pieces allow it.

use super::Assembly;
use super::owners::{Block, Taken};
use super::tasks::TaskId;
use crate::kernel::{KernelEvent, What};
use everybuddy_trace::{Context, Event, EventFlags, Fault, Op, PAGE_SHIFT};

/// The maximum number of events: rows are numbered with 31 bits.
const MOST_EVENTS: usize = (1 << 31) - 2;

/// The mobility of movable pages: those of programs and files.
const MOVABLE: i8 = 1;

impl Assembly {
    /// Keeps an allocation of a task of the tree, and infers the frees that it implies.
    pub(super) fn allocate(
        &mut self,
        event: &KernelEvent,
        pfn: u64,
        order: u8,
        task: Option<TaskId>,
    ) {
        // The block here was freed without an event.
        for taken in self.owners.take(pfn, order) {
            let (pfn, order) = (taken.piece.pfn, taken.piece.order);
            let mut free = self.event(event, Op::Free, pfn, order);
            free.flags = EventFlags::SYNTHETIC;
            self.accounts.inferred_frees += 1;
            self.keep_free(free, taken);
        }
        let Some(task) = task else {
            self.accounts.allocations_by_others += 1;
            return;
        };
        if self.events.len() >= MOST_EVENTS {
            self.accounts.too_many += 1;
            return;
        }
        let row = self.events.len() as u32;
        let mut call = self.event(event, Op::Allocate, pfn, order);
        if let What::Allocate {
            gfp, migratetype, ..
        } = event.what
        {
            (call.gfp, call.migratetype) = (gfp, migratetype);
        }
        let task = self.tasks.get_mut(task);
        let context = if event.in_interrupt {
            Context::Interrupt
        } else {
            task.doing.context
        };
        call.context = context as u8;
        call.sysno = task.doing.sysno(context);
        if matches!(context, Context::UserFault | Context::KernelFault) {
            let (address, space) = (task.doing.address, task.space);
            let place = space.and_then(|space| self.spaces.locate(space, address, self.now_ns));
            call.region = place.map(|place| place.region);
            match place.map(|place| place.is_guessed) {
                Some(false) => self.accounts.faults_in_mapped += 1,
                Some(true) => self.accounts.faults_in_guessed += 1,
                None => self.accounts.faults_in_none += 1,
            }
            self.faults.push(Fault {
                row,
                vpn: address >> PAGE_SHIFT,
                region: call.region,
                sequence: task.doing.fault,
            });
            if call.migratetype == MOVABLE {
                task.doing.fault_served();
            }
        }
        self.accounts.allocations += 1;
        self.accounts.interrupt_allocations += u64::from(event.in_interrupt);
        self.events.push(call);
        self.owners.insert(pfn, Block { row, order });
        self.accounts.peak_frames = self.accounts.peak_frames.max(self.owners.live());
    }

    /// Keeps a free of the tree's memory, one event per piece.
    pub(super) fn free(&mut self, event: &KernelEvent, pfn: u64, order: u8, task: Option<TaskId>) {
        let all = self.owners.take(pfn, order);
        self.accounts.spread_frees += u64::from(all.len() > 1);
        if all.is_empty() {
            match task {
                Some(_) => self.accounts.unmatched_frees += 1,
                None => self.accounts.unmatched_frees_by_others += 1,
            }
        }
        for taken in all {
            let (pfn, order) = (taken.piece.pfn, taken.piece.order);
            let mut call = self.event(event, Op::Free, pfn, order);
            match task.map(|task| &self.tasks.get(task).doing) {
                Some(doing) => {
                    let context = if event.in_interrupt {
                        Context::Interrupt
                    } else {
                        doing.context
                    };
                    call.context = context as u8;
                    call.sysno = doing.sysno(context);
                    if doing.is_exiting {
                        call.flags = call.flags.with(EventFlags::AT_EXIT);
                    }
                }
                None => self.accounts.frees_by_others += 1,
            }
            self.keep_free(call, taken);
        }
    }

    /// Adds a free of a piece that was removed from its block.
    fn keep_free(&mut self, mut free: Event, taken: Taken) {
        if self.events.len() >= MOST_EVENTS {
            self.accounts.too_many += 1;
            return;
        }
        let Block { row, order } = taken.piece.block;
        free.region = self.events[row as usize].region;
        if taken.piece.order < order {
            free.flags = free.flags.with(EventFlags::PARTIAL);
            self.accounts.partial_frees += 1;
        }
        if taken.is_last {
            free.flags = free.flags.with(EventFlags::DEAD);
        }
        self.accounts.frees += 1;
        self.events.push(free);
    }

    /// Creates an event of the trace with the task, the CPU and the time.
    fn event(&self, event: &KernelEvent, op: Op, pfn: u64, order: u8) -> Event {
        let time_ns = self.now_ns - self.begin_ns.unwrap_or(self.now_ns);
        let mut call = Event::new(time_ns, event.cpu, event.tid, op, pfn, order);
        if event.in_interrupt {
            call.flags = EventFlags::INTERRUPT;
        }
        call
    }
}
