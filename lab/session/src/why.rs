//! The sentences of a step: what was called, and what happened inside.
//!
//! The probe records each split, lock and refill of a call. A reader wants to know what they were, and in which order.
//!
//! # Invariants
//! A sentence says only what the outcome and the events say.

use everybuddy::systems::ZoneKind;
use everybuddy::{CpuId, Event, Order, Queue};

use crate::step::Action;

/// What a call returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The first frame, and the number of frames.
    Allocated(u32, u32),
    /// The same, and the CPU that had allocated them, if it is another one.
    Freed(u32, u32, Option<u16>),
    /// The reason.
    Refused(String),
    /// A free of a slot that holds nothing.
    Empty,
    /// Something without a result, as a verb with its object.
    Done(&'static str),
    /// A step of this service.
    Served(&'static str),
    /// The system has no such service.
    NoService,
}

/// What decides how events are called.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// Whether CPUs have lists.
    pub(crate) has_list: bool,
    /// What the zone layer is.
    pub(crate) zone: ZoneKind,
    /// Whether the system has no lock.
    pub(crate) has_no_lock: bool,
}

/// Returns the sentences of a step.
pub(crate) fn sentences(
    calls: &[(u16, Action, Outcome)],
    events: &[(CpuId, Event)],
    words: Words,
) -> String {
    let mut text = Vec::new();
    for (cpu, action, outcome) in calls {
        let own = events.iter().filter(|(of, _)| of.0 == *cpu);
        let own: Vec<Event> = own.map(|(_, event)| *event).collect();
        text.push(format!("CPU {cpu} {}.", called(*action, outcome)));
        text.extend(inside(&own, *action, outcome, words));
    }
    text.join(" ")
}

/// Returns what a CPU called, and what it got.
fn called(action: Action, outcome: &Outcome) -> String {
    let wanted = match action {
        Action::Order(order) => match 1u32 << order.min(31) {
            1 => "asks for 1 frame".to_owned(),
            frames => format!("asks for a block of {frames} frames"),
        },
        Action::Frames(frames) => format!("asks for {frames} frames"),
        Action::At(start, frames) => format!("asks for {} itself", range(start, frames)),
        Action::Free(slot) => format!("frees what allocation {slot} got"),
        Action::Drain => "drains its list".to_owned(),
        Action::Quiesce => "drains all lists".to_owned(),
        Action::Serve(service) => format!("runs service {service}"),
    };
    match outcome {
        Outcome::Allocated(..) if matches!(action, Action::At(..)) => {
            format!("{wanted}, and gets it")
        }
        Outcome::Allocated(start, frames) => {
            format!("{wanted} and gets {}", range(*start, *frames))
        }
        Outcome::Freed(start, frames, None) => format!("frees {}", range(*start, *frames)),
        Outcome::Freed(start, frames, Some(other)) => {
            let what = range(*start, *frames);
            format!("frees {what}, which CPU {other} allocated")
        }
        Outcome::Refused(reason) => format!("{wanted}, and is refused: {reason}"),
        Outcome::Empty => "has nothing to free: that request was refused here".to_owned(),
        Outcome::Done(what) => (*what).to_owned(),
        Outcome::Served(name) => format!("runs a step of the service `{name}`"),
        Outcome::NoService => "has nothing to do: this system has no such service".to_owned(),
    }
}

/// Returns what happened inside a call.
fn inside(events: &[Event], action: Action, outcome: &Outcome, words: Words) -> Vec<String> {
    let mut text = Vec::new();
    let count = |test: fn(&Event) -> bool| events.iter().filter(|event| test(event)).count();
    let is_call = matches!(outcome, Outcome::Allocated(..) | Outcome::Freed(..));
    let locks = count(|event| matches!(event, Event::Lock { .. }));
    let waits = count(|event| {
        matches!(
            event,
            Event::Lock {
                contended: true,
                ..
            }
        )
    });
    let ghosts = count(|event| matches!(event, Event::Ghost { .. }));
    if words.has_list && events.iter().any(|event| matches!(event, Event::Bypass(_))) {
        text.push("It goes past its list.".to_owned());
    }
    for event in events {
        if let Event::Predicted { frames } = event {
            text.push(format!(
                "It predicts that the run goes on for {frames} frames."
            ));
        }
    }
    if ghosts > 0 {
        text.push("All domains are held, so it waits as a ghost for a part of one.".to_owned());
    } else if locks > 0 {
        if waits > 0 && words.zone == ZoneKind::Domains {
            text.push("It finds its own domain held, or gone.".to_owned());
        } else if waits > 0 {
            text.push("Another CPU holds what it needs, so it waits.".to_owned());
        }
        let (one, many) = match words.zone {
            ZoneKind::Spaces => ("the lock of a buddy space", "locks of buddy spaces"),
            ZoneKind::Domains => ("a domain", "domains or locks of the spring"),
            _ => ("the lock", "the lock"),
        };
        text.push(match locks {
            1 => format!("It acquires {one}."),
            _ => format!("It acquires {many} {locks} times."),
        });
    } else if is_call {
        let is_hit = events.is_empty() && !matches!(action, Action::At(..));
        text.push(
            match (words.has_no_lock, words.has_list) {
                (true, _) if is_hit => {
                    "A hit: what the CPU has itself serves it, and no lock exists."
                }
                (true, _) => "No lock exists.",
                (false, true) if is_hit => "A hit in its own list: it acquires no lock.",
                _ => "It acquires no lock.",
            }
            .to_owned(),
        );
    }
    let moved = |wanted: fn(&Event) -> Option<u32>| events.iter().filter_map(wanted).sum::<u32>();
    let refilled = moved(|event| match event {
        Event::Refill { frames } => Some(*frames),
        _ => None,
    });
    if refilled > 0 {
        text.push(format!("{} its list.", moving(refilled, "enters", "enter")));
    }
    let splits: Vec<Order> = events
        .iter()
        .filter_map(|event| match event {
            Event::Split(order) => Some(*order),
            _ => None,
        })
        .collect();
    match &splits[..] {
        [] if locks > 0 && refilled == 0 && matches!(outcome, Outcome::Allocated(..)) => {
            text.push("Nothing is split.".to_owned());
        }
        [] => {}
        [one] => text.push(format!("A block of order {} is split.", one.get())),
        many => text.push(format!("Blocks of order {} are split.", orders(many))),
    }
    let merged: Vec<Order> = events
        .iter()
        .filter_map(|event| match event {
            Event::Coalesce(order) => Some(*order),
            _ => None,
        })
        .collect();
    let is_queued = events
        .iter()
        .any(|event| matches!(event, Event::Queued { .. }));
    match &merged[..] {
        [] if locks > 0 && !is_queued && matches!(outcome, Outcome::Freed(..)) => {
            text.push("Nothing is coalesced.".to_owned());
        }
        [] => {}
        [one] => text.push(format!("Two buddies of order {} are coalesced.", one.get())),
        many => text.push(format!("Buddies of order {} are coalesced.", orders(many))),
    }
    let drained = moved(|event| match event {
        Event::Drain { frames } => Some(*frames),
        _ => None,
    });
    if drained > 0 {
        text.push(format!("{} its list.", moving(drained, "leaves", "leave")));
    }
    for event in events {
        let sentence = match event {
            Event::Reclaim if action == Action::Quiesce => "All CPUs give up what they keep.",
            Event::Reclaim => "Nothing else is free, so all CPUs give up what they keep.",
            Event::Extend => "A domain is divided for the CPU that waits.",
            Event::Merge => "Two domains are merged.",
            Event::Exchange => "It exchanges its buddy space for another one.",
            Event::Share => "It shares the buddy space of another CPU.",
            Event::Queued {
                queue: Queue::Dividing,
                ..
            } => "The rest of the block waits to be divided.",
            Event::Queued {
                queue: Queue::Linking,
                ..
            } => "The frames wait to be linked.",
            Event::QueueFull(_) => "The queue is full.",
            _ => continue,
        };
        if text.iter().all(|other| other != sentence) {
            text.push(sentence.to_owned());
        }
    }
    text
}

fn moving(frames: u32, one: &str, many: &str) -> String {
    match frames {
        1 => format!("1 frame {one}"),
        _ => format!("{frames} frames {many}"),
    }
}

/// Returns orders as words, each once.
fn orders(all: &[Order]) -> String {
    let mut each: Vec<u8> = Vec::new();
    for order in all {
        if !each.contains(&order.get()) {
            each.push(order.get());
        }
    }
    let words: Vec<String> = each.iter().map(u8::to_string).collect();
    match &words[..] {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => words.join(", "),
    }
}

/// Returns frames as words.
fn range(start: u32, frames: u32) -> String {
    match frames {
        0 | 1 => format!("frame {start}"),
        2 => format!("frames {start} and {}", start + 1),
        _ => format!("frames {start} to {}", start + frames - 1),
    }
}
