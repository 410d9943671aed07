//! A system, its CPUs, and what was allocated.
//!
//! # Invariants
//! A slot holds what its allocation returned until it is freed. The field `memory` is dropped after `system`.

use std::rc::Rc;

use everybuddy::systems::{ListKind, ZoneKind};
use everybuddy::{
    CpuId, Detail, FrameAllocator, FrameRange, FrameState, Index, Memory, Order, Pfn, Queue,
    Release, Request, Setup, Size, build_erased, metadata_layout,
};

use crate::memory::Metadata;
use crate::overlap::{self, Call};
use crate::picture::{Class, Cpu as ShownCpu, Kind, List, Picture, Piece};
use crate::platform::{self, CPUS, Cpu, Turns};
use crate::step::{Action, Step};
use crate::systems;
use crate::why::{self, Outcome, Words};

/// The first physical frame. It differs from 0, so that frame numbers and physical ones are not confused.
const BASE: u64 = 1 << 12;

/// An allocation that is in use.
#[derive(Clone, Copy)]
struct Allocation {
    start: Index,
    size: Size,
    frames: u32,
    cpu: u16,
}

/// A system in a small memory.
pub struct Session {
    system: &'static dyn FrameAllocator<Turns>,
    frames: u32,
    slots: Vec<Option<Allocation>>,
    words: Words,
    memory: Metadata,
}

impl Session {
    /// Builds a system by its name, in `frames` frames whose largest block has the order `order`, where the system can
    /// choose that. Its lists, spaces and trees are as small as the memory.
    ///
    /// # Errors
    /// A sentence that says what the system refuses.
    pub fn open(system: &str, frames: u32, order: u8) -> Result<Session, String> {
        let spec = systems::small(system, frames, order)?;
        let ranges = [FrameRange::new(Pfn(BASE), frames.into())];
        let setup = Setup::new(&ranges, CPUS);
        let refused = |error: everybuddy::BuildError| format!("{system}: {error}");
        let layout = metadata_layout::<Turns>(&spec, &setup).map_err(refused)?;
        let memory = Metadata::new(Memory::room(layout));
        let lent = memory.lend().ok_or("the memory is in use")?;
        let system = build_erased::<Turns>(&spec, &setup, Memory::new(lent)).map_err(refused)?;
        platform::take_events();
        Ok(Session {
            system,
            frames,
            slots: Vec::new(),
            words: Words {
                has_list: spec.row().list != ListKind::None,
                zone: spec.row().zone(),
                has_no_lock: spec.row().obstacles().next().is_none(),
            },
            memory,
        })
    }

    /// Does a step.
    pub fn apply(&mut self, step: &Step) -> Picture {
        let before = self.classes();
        platform::take_events();
        let first = self.call(step.cpu, step.action);
        let outcomes = match step.during {
            None => vec![Cpu::run(CpuId(step.cpu), |cpu| first(cpu))],
            Some((other, action)) => {
                let second = self.call(other, action);
                let calls = ((CpuId(step.cpu), first), (CpuId(other), second));
                let (first, second) = overlap::run(&self.memory, calls.0, calls.1);
                vec![first, second]
            }
        };
        let calls = [Some((step.cpu, step.action)), step.during];
        let mut done = Vec::new();
        for ((cpu, action), outcome) in calls.into_iter().flatten().zip(outcomes) {
            self.keep(cpu, action, &outcome);
            done.push((cpu, action, outcome));
        }
        let events = platform::take_events();
        let mut why = why::sentences(&done, &events, self.words);
        let classes = self.classes();
        for class in classes.iter().filter(|class| !before.contains(class)) {
            let Class {
                order,
                local,
                global,
                ..
            } = class;
            why += &format!(" Order {order}: {local} locally free, {global} globally.");
        }
        self.picture(why)
    }

    /// Returns the classes of blocks whose coalescing is delayed.
    fn classes(&self) -> Vec<Class> {
        let mut classes = Vec::new();
        self.system.inspect(&mut |detail| {
            if let Detail::Class {
                order,
                total,
                local,
                global,
                slack,
                ..
            } = detail
            {
                classes.push(Class {
                    order: order.get(),
                    total,
                    local,
                    global,
                    slack,
                });
            }
        });
        classes
    }

    /// Returns the state, before the first step or after the last one.
    pub fn picture(&self, why: String) -> Picture {
        let mut picture = Picture {
            why,
            word: match self.words.zone {
                ZoneKind::Spaces => "space",
                ZoneKind::Domains => "domain",
                _ => "tree",
            },
            ..Picture::default()
        };
        let snapshot = Cpu::run(CpuId(0), |cpu| self.system.snapshot(cpu));
        // The picture does not belong to a step.
        platform::take_events();
        let orders = Order::up_to(self.system.max_order());
        picture.free = snapshot
            .free_blocks
            .iter()
            .copied()
            .take(orders.len())
            .collect();
        while picture.free.len() > 1 && picture.free.last() == Some(&0) {
            picture.free.pop();
        }
        picture.domains = snapshot.domains;
        picture.classes = self.classes();
        picture.cpus = vec![ShownCpu::default(); CPUS.into()];
        let mut marks = vec![(0, false); self.frames as usize];
        let mut waiting = Vec::new();
        self.system.inspect(&mut |detail| match detail {
            Detail::Part { start, frames, .. } => {
                let end = (start.0 + frames).min(self.frames);
                if start.0 < end {
                    picture.parts.push((start.0, end - start.0));
                }
            }
            Detail::Assigned { cpu, part } => {
                if let Some(cpu) = picture.cpus.get_mut(cpu.index()) {
                    cpu.parts.push(part);
                }
            }
            Detail::Listed {
                part,
                order,
                head,
                is_local,
            } => {
                if let Some(mark) = marks.get_mut(head.as_usize()) {
                    *mark = (part, is_local);
                }
                add(&mut picture.lists, (part, order.get()), head.0, is_local);
            }
            Detail::Waiting {
                queue,
                start,
                frames,
            } => waiting.push((start.0, frames, queue)),
            _ => {}
        });
        picture.pieces = self.pieces(&marks, &waiting);
        for piece in &picture.pieces {
            if let Kind::Listed(cpu) = piece.kind
                && let Some(cpu) = picture.cpus.get_mut(usize::from(cpu))
            {
                cpu.list.push(piece.start);
            }
        }
        let slots = self.slots.iter();
        let range = |one: Allocation| (one.start.0, one.frames);
        picture.slots = slots.map(|slot| slot.map(range)).collect();
        picture
    }

    /// Checks every invariant of the system.
    ///
    /// # Errors
    /// The first violation, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        let checked = Cpu::run(CpuId(0), |cpu| self.system.check(cpu));
        platform::take_events();
        checked
            .map(|_| ())
            .map_err(|violation| violation.to_string())
    }

    /// Returns what a call does. It can be made more than once.
    fn call(&self, cpu: u16, action: Action) -> Call<Outcome> {
        let system = self.system;
        let ask = move |request: Request| -> Call<Outcome> {
            let frames = match request.size {
                Size::Order(order) => order.frames(),
                Size::Frames(frames) => frames.0,
            };
            Rc::new(move |cpu| match system.allocate(cpu, request) {
                Ok(start) => Outcome::Allocated(start.0, frames),
                Err(error) => Outcome::Refused(error.to_string()),
            })
        };
        match action {
            Action::Order(order) => match Order::new(order) {
                Some(order) => ask(Request::order(order)),
                None => Rc::new(move |_| Outcome::Refused(format!("order {order} does not exist"))),
            },
            Action::Frames(frames) => ask(Request::frames(frames)),
            Action::At(start, frames) => {
                let range = FrameRange::new(Pfn(BASE + u64::from(start)), frames.into());
                Rc::new(move |cpu| match system.allocate_at(cpu, range) {
                    Ok(start) => Outcome::Allocated(start.0, frames),
                    Err(error) => Outcome::Refused(error.to_string()),
                })
            }
            Action::Free(slot) => match self.slots.get(slot).copied().flatten() {
                None => Rc::new(|_| Outcome::Empty),
                Some(held) => {
                    let release = Release {
                        start: held.start,
                        size: held.size,
                        hint: Request::FRAME.hint,
                    };
                    let by_other = (held.cpu != cpu).then_some(held.cpu);
                    Rc::new(move |cpu| match system.free(cpu, release) {
                        Ok(()) => Outcome::Freed(held.start.0, held.frames, by_other),
                        Err(error) => Outcome::Refused(error.to_string()),
                    })
                }
            },
            Action::Drain => Rc::new(move |cpu| {
                system.drain(cpu);
                Outcome::Done("drains its list")
            }),
            Action::Quiesce => Rc::new(move |cpu| match system.quiesce(cpu) {
                Ok(()) => Outcome::Done("drains all lists and finishes all delayed work"),
                Err(error) => Outcome::Refused(error.to_string()),
            }),
            Action::Serve(service) => match system.services().get(service) {
                None => Rc::new(|_| Outcome::NoService),
                Some(found) => Rc::new(move |cpu| {
                    system.serve(cpu, service, 1);
                    Outcome::Served(found.name)
                }),
            },
        }
    }

    /// Notes what a call allocated or freed.
    fn keep(&mut self, cpu: u16, action: Action, outcome: &Outcome) {
        if action.allocates() {
            let size = match action {
                Action::Order(order) => Size::Order(Order::new(order).unwrap_or(Order::ZERO)),
                Action::Frames(frames) | Action::At(_, frames) => Request::frames(frames).size,
                _ => return,
            };
            self.slots.push(match *outcome {
                Outcome::Allocated(start, frames) => Some(Allocation {
                    start: Index(start),
                    size,
                    frames,
                    cpu,
                }),
                _ => None,
            });
        }
        if let (Action::Free(slot), Outcome::Freed(..)) = (action, outcome)
            && let Some(slot) = self.slots.get_mut(slot)
        {
            *slot = None;
        }
    }

    /// Divides the memory into pieces.
    fn pieces(&self, marks: &[(u32, bool)], waiting: &[(u32, u32, Queue)]) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut at = 0;
        while at < self.frames {
            let (frames, kind, part) = self.piece_at(at, marks, waiting);
            pieces.push(Piece {
                start: at,
                frames: frames.clamp(1, self.frames - at),
                kind,
                part,
            });
            at += frames.max(1);
        }
        pieces
    }

    fn piece_at(
        &self,
        at: u32,
        marks: &[(u32, bool)],
        waiting: &[(u32, u32, Queue)],
    ) -> (u32, Kind, u32) {
        let mut slots = self.slots.iter().enumerate();
        let starts = |(slot, held): (usize, &Option<Allocation>)| {
            held.filter(|held| held.start.0 == at)
                .map(|held| (slot, held))
        };
        if let Some((slot, held)) = slots.find_map(starts) {
            return (held.frames, Kind::Allocated(slot, held.cpu), 0);
        }
        if let Some((_, frames, queue)) = waiting.iter().find(|(start, ..)| *start == at) {
            let kind = match queue {
                Queue::Dividing => Kind::Dividing,
                Queue::Linking => Kind::Linking,
            };
            return (*frames, kind, 0);
        }
        match self.system.frame_state(Index(at)) {
            Some(FrameState::Free { head }) => {
                let same = |frame: &u32| {
                    self.system.frame_state(Index(*frame)) == Some(FrameState::Free { head })
                };
                let frames = (at..self.frames).take_while(same).count() as u32;
                let (part, is_local) = marks.get(at as usize).copied().unwrap_or_default();
                let kind = if is_local { Kind::Delayed } else { Kind::Free };
                (frames, kind, part)
            }
            Some(FrameState::Buffered { cpu, order }) => (order.frames(), Kind::Listed(cpu.0), 0),
            _ => (1, Kind::Other, 0),
        }
    }
}

/// Adds an element to a list.
fn add(lists: &mut Vec<List>, (part, order): (u32, u8), head: u32, is_local: bool) {
    let place = lists
        .iter_mut()
        .find(|list| (list.part, list.order) == (part, order));
    if let Some(list) = place {
        list.heads.push(head);
        list.local += usize::from(is_local);
    } else {
        lists.push(List {
            part,
            order,
            heads: vec![head],
            local: is_local.into(),
        });
    }
}
