//! The operations of the interface with their arguments, and what they return.
//!
//! # Invariants
//! A step is printed as the line of a test, so a path from the new system to a fault can be read and run.

use core::fmt;

use everybuddy::{
    AllocateError, BulkFreeError, Class, Colours, CpuId, Flags, FrameAllocator, FrameRange,
    FreeError, Index, Node, Order, Pfn, Place, RegionError, Release, Request, Run, Size, Visit,
};
use everybuddy_explore::platform::{Explored, Token};

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `allocate`.
    Allocate(Request),
    /// `allocate_nested`.
    AllocateNested(Request),
    /// `allocate_in`.
    AllocateIn(Request, Place),
    /// `allocate_bulk` of two blocks.
    AllocateBulk(Request),
    /// `allocate_runs` of this number of frames, in at most two runs.
    AllocateRuns(u32, Order),
    /// `allocate_at`: a start and a number of frames.
    AllocateAt(u32, u32),
    /// `try_allocate_at`.
    TryAllocateAt(u32, u32),
    /// `free`.
    Free(Release),
    /// `free_nested`.
    FreeNested(Release),
    /// `free_bulk` of two single frames.
    FreeBulk(u32, u32),
    /// `visit_free`: the first block is kept, or all are returned.
    VisitFree(Order, Visit),
    /// `drain`.
    Drain,
    /// `park`.
    Park,
    /// `quiesce`.
    Quiesce,
    /// `drain_parked` of this CPU.
    DrainParked(u16),
    /// `serve`.
    Serve(usize),
    /// `add`.
    Add(u32, u32),
    /// `remove`.
    Remove(u32, u32),
    /// `reserve`.
    Reserve(u32, u32),
    /// `unreserve`.
    Unreserve(u32, u32),
}

/// An operation of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The CPU.
    pub(crate) cpu: u16,
    /// What it does.
    pub(crate) operation: Operation,
}

/// An error of any operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Of a request.
    Allocate(AllocateError),
    /// Of a free.
    Free(FreeError),
    /// Of a bulk free.
    Bulk(BulkFreeError),
    /// Of an operation on a range.
    Region(RegionError),
}

impl Refusal {
    /// Returns a number that differs for different errors, and is not zero.
    fn code(self) -> u128 {
        let (kind, value) = match self {
            Self::Allocate(AllocateError::Exhausted) => (1, 0),
            Self::Allocate(AllocateError::TooLarge { largest }) => (2, largest.get().into()),
            Self::Allocate(AllocateError::ZeroFrames) => (3, 0),
            Self::Allocate(AllocateError::NoSuchCpu) => (4, 0),
            Self::Allocate(AllocateError::Busy) => (5, 0),
            Self::Free(error) => free_code(error),
            Self::Bulk(error) => {
                let (kind, value) = free_code(error.error);
                (kind, value + 256 * (1 + error.index as u32))
            }
            Self::Region(RegionError::Empty) => (20, 0),
            Self::Region(RegionError::OutsideSpan) => (21, 0),
            Self::Region(RegionError::AlreadyManaged(frame)) => (22, frame.0 as u32),
            Self::Region(RegionError::NotFree(frame)) => (23, frame.0 as u32),
            Self::Region(RegionError::NotReserved(frame)) => (24, frame.0 as u32),
            Self::Region(RegionError::NoSuchCpu) => (25, 0),
            Self::Region(RegionError::Busy) => (26, 0),
        };
        kind << 16 | u128::from(value)
    }
}

fn free_code(error: FreeError) -> (u128, u32) {
    match error {
        FreeError::Foreign => (6, 0),
        FreeError::Hole => (7, 0),
        FreeError::Reserved => (8, 0),
        FreeError::NotAllocated => (9, 0),
        FreeError::InsideBlock { order } => (10, order.get().into()),
        FreeError::WrongOrder { allocated } => (11, allocated.get().into()),
        FreeError::ZeroFrames => (12, 0),
        FreeError::NoSuchCpu => (13, 0),
        FreeError::Busy => (14, 0),
    }
}

/// What an operation returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The runs that were given.
    pub(crate) given: [Run; 2],
    /// Their number.
    pub(crate) count: usize,
    /// The frames that were visited, by bit.
    pub(crate) visited: u64,
    /// The error.
    pub(crate) refusal: Option<Refusal>,
}

impl Outcome {
    /// Returns a number that differs for different outcomes.
    pub(crate) fn code(&self) -> u128 {
        let mut code = u128::from(self.visited);
        for run in self.runs() {
            code = (code << 16) | (u128::from(run.start.0 << 8 | run.frames) + 1);
        }
        code << 32 | self.refusal.map_or(0, Refusal::code)
    }

    /// Returns the runs that were given.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.given[..self.count]
    }
}

/// Frames by bit.
pub(crate) fn bits(start: u32, frames: u32) -> u64 {
    let all = if frames < 64 {
        (1 << frames) - 1
    } else {
        u64::MAX
    };
    if start < 64 { all << start } else { 0 }
}

/// Returns an order that is known to exist.
pub(crate) fn order(order: u32) -> Order {
    Order::new(order as u8).expect("an order of a few frames")
}

/// Returns the number of frames of a request or a release.
pub(crate) fn frames_of(size: Size) -> u32 {
    match size {
        Size::Order(order) => order.frames(),
        Size::Frames(frames) => frames.0,
    }
}

/// What varies in a list of steps.
pub(crate) struct Arguments {
    /// The frames of the span.
    pub(crate) span: u32,
    /// The largest order.
    pub(crate) largest: u32,
    /// The CPUs.
    pub(crate) cpus: u16,
    /// The services.
    pub(crate) services: usize,
    /// Whether memory comes and goes.
    pub(crate) regions: bool,
}

/// Returns every step whose arguments differ.
pub(crate) fn all(arguments: &Arguments) -> Vec<Step> {
    let mut steps = Vec::new();
    for cpu in 0..arguments.cpus {
        let operations = operations(arguments, cpu);
        steps.extend(
            operations
                .into_iter()
                .map(|operation| Step { cpu, operation }),
        );
    }
    // A CPU that does not exist.
    let cpu = arguments.cpus;
    let release = Release::frames(Index(0), 1);
    for operation in [
        Operation::Allocate(Request::FRAME),
        Operation::Free(release),
    ] {
        steps.push(Step { cpu, operation });
    }
    steps
}

fn operations(arguments: &Arguments, cpu: u16) -> Vec<Operation> {
    use Operation::*;
    let (span, largest) = (arguments.span, arguments.largest);
    let mut list = Vec::new();
    for size in 0..=largest {
        let request = Request::order(order(size));
        list.extend([Allocate(request), AllocateNested(request)]);
        list.push(Allocate(request.with_class(Class::Movable)));
        list.extend([Visit::Return, Visit::KeepAndStop].map(|visit| VisitFree(order(size), visit)));
    }
    list.push(Allocate(Request::order(order(largest + 1))));
    list.push(Allocate(Request::FRAME.with_class(Class::Reclaimable)));
    if arguments.cpus > 1 {
        list.push(Allocate(Request::FRAME.with_flags(Flags::NO_WAIT)));
        list.push(Allocate(
            Request::order(order(largest)).with_flags(Flags::NO_WAIT),
        ));
    }
    let runs = (0..=(1 << largest) + 1u32).filter(|frames| !frames.is_power_of_two());
    list.extend(runs.map(|frames| Allocate(Request::frames(frames))));
    let below = Place::ANYWHERE.below(Pfn(u64::from(span / 2)));
    let odd = Colours::new(1, 0b10).expect("a mask of one bit");
    for place in [
        below,
        Place::ANYWHERE.aligned(order(1)),
        Place::ANYWHERE.coloured(odd),
        Place::ANYWHERE.on(Node::Only(1)),
    ] {
        list.push(AllocateIn(Request::FRAME, place));
    }
    list.push(AllocateIn(Request::order(order(1)), below));
    list.extend([0, 1].map(|least| AllocateRuns(3, order(least))));
    list.extend([0, 1].map(|size| AllocateBulk(Request::order(order(size)))));
    // Frees that are misuse are among the steps, and one of them is beyond the span.
    for start in 0..=span {
        for frames in 0..=span.min(2 << largest) {
            if start + frames <= span + 1 {
                list.push(Free(Release::frames(Index(start), frames)));
            }
        }
        for size in 0..=largest + 1 {
            let size = Size::Order(order(size));
            list.push(Free(Release {
                size,
                ..Release::frame(Index(start))
            }));
        }
    }
    for start in 0..span {
        for frames in 1..=4.min(span - start) {
            list.push(AllocateAt(start, frames));
            if frames <= 2 {
                list.push(TryAllocateAt(start, frames));
                list.push(FreeNested(Release::frames(Index(start), frames)));
            }
        }
        let others = start.saturating_sub(2)..span.min(start + 3);
        list.extend(others.map(|other| FreeBulk(start, other)));
    }
    list.extend([Drain, Park, Quiesce]);
    list.extend(
        (0..arguments.cpus)
            .filter(|other| *other != cpu)
            .map(DrainParked),
    );
    list.extend((0..arguments.services).map(Serve));
    if arguments.regions {
        for start in 0..span {
            let mut lengths = vec![1, 2, span - start];
            lengths.dedup();
            for frames in lengths {
                let ranges = [Add, Remove, Reserve, Unreserve];
                list.extend(ranges.map(|operation| operation(start, frames)));
            }
        }
        list.extend([Add(0, 0), Remove(0, 0), Reserve(span, 1), AllocateAt(0, 0)]);
    }
    list
}

impl Step {
    /// Executes the step.
    pub(crate) fn call(&self, system: &dyn FrameAllocator<Explored>) -> Outcome {
        let (cpu, mut token) = (CpuId(self.cpu), Token::of(self.cpu));
        let token = &mut token;
        let range = |start: u32, frames: u32| {
            FrameRange::new(
                Pfn(system.span().base().0 + u64::from(start)),
                frames.into(),
            )
        };
        let one = |frames: u32, result: Result<Index, AllocateError>| match result {
            Ok(start) => given(&[Run { start, frames }]),
            Err(error) => refused(Refusal::Allocate(error)),
        };
        let all = |result: Result<(), AllocateError>| match result {
            Ok(()) => Outcome::default(),
            Err(error) => refused(Refusal::Allocate(error)),
        };
        let freed = |result: Result<(), FreeError>| match result {
            Ok(()) => Outcome::default(),
            Err(error) => refused(Refusal::Free(error)),
        };
        let changed = |result: Result<(), RegionError>| match result {
            Ok(()) => Outcome::default(),
            Err(error) => refused(Refusal::Region(error)),
        };
        let at = |frames: u32, result: Result<Index, RegionError>| match result {
            Ok(start) => given(&[Run { start, frames }]),
            Err(error) => refused(Refusal::Region(error)),
        };
        match self.operation {
            Operation::Allocate(request) => {
                one(frames_of(request.size), system.allocate(token, request))
            }
            Operation::AllocateNested(request) => one(
                frames_of(request.size),
                system.allocate_nested(cpu, request),
            ),
            Operation::AllocateIn(request, place) => {
                let result = system.allocate_in(token, request, &place);
                one(frames_of(request.size), result)
            }
            Operation::AllocateBulk(request) => {
                let mut out = [Index(0); 2];
                match system.allocate_bulk(token, request, &mut out) {
                    Ok(count) => {
                        let frames = frames_of(request.size);
                        given(&out.map(|start| Run { start, frames })[..count])
                    }
                    Err(error) => refused(Refusal::Allocate(error)),
                }
            }
            Operation::AllocateRuns(frames, least) => {
                let mut out = [Run::default(); 2];
                match system.allocate_runs(token, frames, least, &mut out) {
                    Ok(count) => given(&out[..count]),
                    Err(error) => refused(Refusal::Allocate(error)),
                }
            }
            Operation::AllocateAt(start, frames) => {
                at(frames, system.allocate_at(token, range(start, frames)))
            }
            Operation::TryAllocateAt(start, frames) => {
                at(frames, system.try_allocate_at(token, range(start, frames)))
            }
            Operation::Free(release) => freed(system.free(token, release)),
            Operation::FreeNested(release) => freed(system.free_nested(cpu, release)),
            Operation::FreeBulk(first, second) => {
                let releases = [first, second].map(|start| Release::frames(Index(start), 1));
                match system.free_bulk(token, &releases) {
                    Ok(()) => Outcome::default(),
                    Err(error) => refused(Refusal::Bulk(error)),
                }
            }
            Operation::VisitFree(order, visit) => {
                let (mut visited, mut last) = (0, Run::default());
                let kept = system.visit_free(token, order, &mut |block| {
                    visited |= bits(block.start.0, block.order.frames());
                    last = Run {
                        start: block.start,
                        frames: block.order.frames(),
                    };
                    visit
                });
                let runs: &[Run] = if kept == 0 { &[] } else { &[last] };
                Outcome {
                    visited,
                    ..given(runs)
                }
            }
            Operation::Drain => {
                system.drain(token);
                Outcome::default()
            }
            Operation::Park => {
                system.park(token);
                Outcome::default()
            }
            Operation::Quiesce => all(system.quiesce(token)),
            Operation::DrainParked(other) => all(system.drain_parked(token, CpuId(other))),
            Operation::Serve(service) => {
                system.serve(token, service, 1);
                Outcome::default()
            }
            Operation::Add(start, frames) => changed(system.add(token, range(start, frames))),
            Operation::Remove(start, frames) => changed(system.remove(token, range(start, frames))),
            Operation::Reserve(start, frames) => {
                changed(system.reserve(token, range(start, frames)))
            }
            Operation::Unreserve(start, frames) => {
                changed(system.unreserve(token, range(start, frames)))
            }
        }
    }
}

fn given(runs: &[Run]) -> Outcome {
    let mut outcome = Outcome {
        count: runs.len(),
        ..Outcome::default()
    };
    outcome.given[..runs.len()].copy_from_slice(runs);
    outcome
}

fn refused(refusal: Refusal) -> Outcome {
    Outcome {
        refusal: Some(refusal),
        ..Outcome::default()
    }
}

/// A request as code.
struct RequestText(Request);

impl fmt::Display for RequestText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.size {
            Size::Order(Order::ZERO) => write!(f, "Request::FRAME")?,
            Size::Order(order) => write!(f, "Request::order(order({order}))")?,
            Size::Frames(frames) => write!(f, "Request::frames({})", frames.0)?,
        }
        if self.0.flags.class() != Class::default() {
            write!(f, ".with_class(Class::{:?})", self.0.flags.class())?;
        }
        if self.0.flags.contains(Flags::NO_WAIT) {
            write!(f, ".with_flags(Flags::NO_WAIT)")?;
        }
        Ok(())
    }
}

/// A release as code.
struct ReleaseText(Release);

impl fmt::Display for ReleaseText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.0.start.0;
        match self.0.size {
            Size::Order(order) => write!(f, "Release::block(block({start}, {order}))"),
            Size::Frames(frames) => write!(f, "Release::frames(Index({start}), {})", frames.0),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.cpu;
        let range = |f: &mut fmt::Formatter<'_>, name: &str, start: u32, frames: u32| {
            write!(
                f,
                "system.{name}(&mut cpus[{cpu}], FrameRange::new(Pfn({start}), {frames}))"
            )
        };
        match self.operation {
            Operation::Allocate(request) => {
                write!(
                    f,
                    "system.allocate(&mut cpus[{cpu}], {})",
                    RequestText(request)
                )
            }
            Operation::AllocateNested(request) => {
                write!(
                    f,
                    "system.allocate_nested(CpuId({cpu}), {})",
                    RequestText(request)
                )
            }
            Operation::AllocateIn(request, place) => {
                let request = RequestText(request);
                write!(
                    f,
                    "system.allocate_in(&mut cpus[{cpu}], {request}, &{place:?})"
                )
            }
            Operation::AllocateBulk(request) => {
                let request = RequestText(request);
                write!(
                    f,
                    "system.allocate_bulk(&mut cpus[{cpu}], {request}, &mut [Index(0); 2])"
                )
            }
            Operation::AllocateRuns(frames, least) => write!(
                f,
                "system.allocate_runs(&mut cpus[{cpu}], {frames}, order({least}), &mut [Run::default(); 2])"
            ),
            Operation::AllocateAt(start, frames) => range(f, "allocate_at", start, frames),
            Operation::TryAllocateAt(start, frames) => range(f, "try_allocate_at", start, frames),
            Operation::Free(release) => {
                write!(f, "system.free(&mut cpus[{cpu}], {})", ReleaseText(release))
            }
            Operation::FreeNested(release) => {
                write!(
                    f,
                    "system.free_nested(CpuId({cpu}), {})",
                    ReleaseText(release)
                )
            }
            Operation::FreeBulk(first, second) => {
                let [first, second] =
                    [first, second].map(|start| ReleaseText(Release::frames(Index(start), 1)));
                write!(
                    f,
                    "system.free_bulk(&mut cpus[{cpu}], &[{first}, {second}])"
                )
            }
            Operation::VisitFree(order, visit) => write!(
                f,
                "system.visit_free(&mut cpus[{cpu}], order({order}), &mut |_| Visit::{visit:?})"
            ),
            Operation::Drain => write!(f, "system.drain(&mut cpus[{cpu}])"),
            Operation::Park => write!(f, "system.park(&mut cpus[{cpu}])"),
            Operation::Quiesce => write!(f, "system.quiesce(&mut cpus[{cpu}])"),
            Operation::DrainParked(other) => {
                write!(f, "system.drain_parked(&mut cpus[{cpu}], CpuId({other}))")
            }
            Operation::Serve(service) => write!(f, "system.serve(&mut cpus[{cpu}], {service}, 1)"),
            Operation::Add(start, frames) => range(f, "add", start, frames),
            Operation::Remove(start, frames) => range(f, "remove", start, frames),
            Operation::Reserve(start, frames) => range(f, "reserve", start, frames),
            Operation::Unreserve(start, frames) => range(f, "unreserve", start, frames),
        }
    }
}

impl Step {
    /// Returns the name of the operation.
    pub(crate) fn name(&self) -> String {
        let text = self.to_string();
        let name = text.split(['.', '(']).nth(1);
        name.unwrap_or_default().to_owned()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(refusal) = self.refusal {
            return write!(f, "{refusal:?}");
        }
        write!(f, "Ok")?;
        for run in self.runs() {
            write!(
                f,
                ", frames {} to {}",
                run.start.0,
                run.start.0 + run.frames - 1
            )?;
        }
        if self.visited != 0 {
            write!(f, ", visited {:#b}", self.visited)?;
        }
        Ok(())
    }
}
