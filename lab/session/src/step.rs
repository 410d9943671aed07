//! What a line of a script says.
//!
//! Scripts name no frames, because each system chooses others. The n-th allocation of a script is *slot* n, from 0,
//! also if it was refused; a free names a slot.
//!
//! | line | step |
//! |---|---|
//! | `a 1 3` | CPU 1 allocates a block of order 3 |
//! | `n 0 5` | CPU 0 allocates 5 frames |
//! | `@ 0 10 2` | CPU 0 allocates frames 10 and 11 |
//! | `f 1 4` | CPU 1 frees slot 4 |
//! | `d 0` | CPU 0 drains its list |
//! | `q 0` | CPU 0 asks all CPUs to drain, and finishes all delayed work |
//! | `s 0 1` | CPU 0 runs a step of service 1 |
//! | `a 0 0 / a 1 0` | CPU 1 calls while CPU 0 holds the first lock, or domain, of its call |

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Allocates a block of this order.
    Order(u8),
    /// Allocates this number of frames.
    Frames(u32),
    /// Allocates exactly these frames: the first one, and their number.
    At(u32, u32),
    /// Frees what a slot holds.
    Free(usize),
    /// Drains its list.
    Drain,
    /// Drains all lists, and finishes delayed work.
    Quiesce,
    /// Runs a step of a service.
    Serve(usize),
}

impl Action {
    /// Returns `true` if it fills a slot.
    pub(crate) fn allocates(self) -> bool {
        matches!(self, Action::Order(_) | Action::Frames(_) | Action::At(..))
    }
}

/// A step of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The CPU.
    pub cpu: u16,
    /// What it does.
    pub action: Action,
    /// What the other CPU does in the middle of it.
    pub during: Option<(u16, Action)>,
}

impl Step {
    /// Reads a line. Returns `None` if it is not a step.
    pub fn parse(line: &str) -> Option<Step> {
        let mut calls = line.split('/').map(call);
        let (cpu, action) = calls.next()??;
        let during = match calls.next() {
            None => None,
            Some(call) => Some(call?),
        };
        let is_two = during.is_none_or(|(other, _)| other != cpu);
        (is_two && calls.next().is_none()).then_some(Step {
            cpu,
            action,
            during,
        })
    }
}

/// Reads one call.
fn call(text: &str) -> Option<(u16, Action)> {
    let mut words = text.split_ascii_whitespace();
    let kind = words.next()?;
    let cpu = words.next()?.parse().ok()?;
    let mut number = || words.next()?.parse::<u32>().ok();
    let action = match kind {
        "a" => Action::Order(number()?.try_into().ok()?),
        "n" => Action::Frames(number()?),
        "@" => Action::At(number()?, number()?),
        "f" => Action::Free(number()? as usize),
        "d" => Action::Drain,
        "q" => Action::Quiesce,
        "s" => Action::Serve(number()? as usize),
        _ => return None,
    };
    (cpu < crate::platform::CPUS && words.next().is_none()).then_some((cpu, action))
}
