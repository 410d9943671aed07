//! The number of instructions per operation.
//!
//! Instruction counts are reproducible, times are not. The program runs itself under callgrind twice, with few and
//! with many rounds of a workload. The difference is the cost of the additional rounds.
//!
//! # Invariants
//! Both runs create the same programs, so that the cost of creating them cancels out.

use std::process::Command;

use everybuddy_workload::{Setting, Variant};

use super::ContenderSpec;
use super::contender::Contender;
use super::perform::{Belt, Pot, Tools};
use crate::Error;
use crate::replay::clock::Timer;
use crate::replay::host::Arena;
use crate::replay::memory::Memory;

/// Frames of the memory: enough for the batches of a large machine, and few enough to be prepared under callgrind.
const FRAMES: u32 = 1 << 16;
/// The factor by which sections are shorter than in a timed run.
const SHRINK: u32 = 100;
/// Rounds of the longer run; the shorter run has half as many.
const ROUNDS: u32 = 4;

/// Runs `rounds` rounds of a workload on one thread, untimed.
struct Perform<'v> {
    variant: &'v Variant,
    rounds: u32,
    timer: &'v Timer,
}

impl Perform<'_> {
    fn call(self, contender: &dyn Contender) -> Option<u64> {
        if self.variant.largest > contender.max_order() {
            return None;
        }
        let setting = Setting {
            frames: FRAMES,
            threads: 1,
            seed: 1,
            shrink: SHRINK,
        };
        let mut program = self.variant.program(&setting, 0);
        let (timer, belt, pot) = (self.timer, &Belt::new(), &Pot::default());
        let tools = Tools {
            timer,
            belt,
            pot,
            touched: None,
        };
        let mut worker = contender.worker(0, program.slots(), tools)?;
        for body in program.prepare().iter().chain(program.settle()) {
            worker.perform(body, u64::MAX);
        }
        let rounds: Vec<_> = (0..ROUNDS).map(|_| program.round()).collect();
        let mut operations = 0;
        // One indirect call per section of hundreds of operations.
        for section in rounds.iter().take(self.rounds as usize).flatten() {
            worker.perform(&section.body, u64::MAX);
            operations += section.body.operations();
        }
        worker.finish();
        Some(operations)
    }
}

/// Runs rounds for an instruction counter. Returns the number of operations, or `None` if the contender cannot run
/// the workload.
///
/// # Errors
/// Returns a usage error if the contender cannot be built.
pub fn perform(
    contender: &ContenderSpec,
    variant: &Variant,
    rounds: u32,
) -> Result<Option<u64>, Error> {
    let timer = &Timer::standing();
    let mut arena = Arena::default();
    let visitor = Perform {
        variant,
        rounds,
        timer,
    };
    let memory = Memory::fresh(u64::from(FRAMES));
    contender.with(&memory, 1, &mut arena, |contender| visitor.call(contender))
}

/// Checks that instructions can be counted on this machine.
///
/// # Errors
/// Returns a usage error with an installation hint.
pub fn available() -> Result<(), Error> {
    match Command::new("valgrind").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(Error::usage(
            "--instructions requires valgrind\nhelp: on Debian and Ubuntu `apt install \
             valgrind`, on Fedora `dnf install valgrind`",
        )),
    }
}

/// Counts the instructions per operation. Returns `None` if the contender cannot run the workload.
///
/// # Errors
/// Returns a usage error if valgrind cannot run this program.
pub fn count(contender: &ContenderSpec, variant: &Variant) -> Result<Option<f64>, Error> {
    let (few, many) = (
        run(contender, variant, ROUNDS / 2)?,
        run(contender, variant, ROUNDS)?,
    );
    let (Some(few), Some(many)) = (few, many) else {
        return Ok(None);
    };
    let operations = many.1.saturating_sub(few.1);
    let instructions = many.0.saturating_sub(few.0);
    Ok((operations > 0).then(|| instructions as f64 / operations as f64))
}

/// Runs this program under callgrind. Returns the instructions and the operations.
fn run(
    contender: &ContenderSpec,
    variant: &Variant,
    rounds: u32,
) -> Result<Option<(u64, u64)>, Error> {
    let fail = |what: String| {
        let name = contender.name();
        Error::usage(format!(
            "--instructions: {name} on {}: {what}",
            variant.name
        ))
    };
    let program = std::env::current_exe().map_err(|error| fail(error.to_string()))?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command
        .arg(program)
        .args(["bench", "--workloads", variant.name]);
    command.args(["--contender", &contender.name()]);
    if let Some(file) = contender.file() {
        command.args(["--peer", file]);
    }
    command.args(["--count", &rounds.to_string()]);
    let output = command.output().map_err(|error| fail(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(fail(said));
    }
    let operations = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    let collected = said
        .lines()
        .find_map(|line| line.split("Collected : ").nth(1));
    let instructions = collected.and_then(|number| number.trim().parse().ok());
    match (instructions, operations) {
        (Some(instructions), Some(operations)) => Ok(Some((instructions, operations))),
        (Some(_), None) => Ok(None),
        _ => Err(fail("valgrind reported no instruction count".to_string())),
    }
}
