//! A call during another one, on one thread.
//!
//! A ghost of Spring Buddy, or a CPU that waits for a lock, exists only while another CPU is in the middle of a call. A
//! script can show both, although a browser runs one call at a time.
//!
//! # Mechanism
//! 1. The first CPU calls, and is interrupted where it has acquired a lock or a domain.
//! 2. The second CPU calls. If it never waits, its call ends here, and the first one goes on.
//! 3. If it waits, the memory is put back as it was before step 1, and the first CPU makes the same call again. Its
//!    code reads the same bytes, so it arrives at the same place. There the memory becomes the one in which the second
//!    CPU waits, and the call goes on to its end.
//! 4. The second CPU stops waiting, and its call ends. That is the result.
//! 5. The first of the two calls of the first CPU is still to be ended. It does so in the memory in which it was
//!    interrupted, unseen; then the result is put back.
//!
//! # Invariants
//! A call depends on nothing but the system's memory. No two calls of one CPU change the memory of the result.

use std::cell::RefCell;
use std::rc::Rc;

use everybuddy::CpuId;

use crate::memory::Metadata;
use crate::platform::{self, Cpu};

/// A call on a CPU, which can be made more than once.
pub(crate) type Call<R> = Rc<dyn Fn(&mut Cpu) -> R>;

/// What the two calls leave for each other.
struct Halfway<R> {
    /// The result of the second call.
    second: Option<R>,
    /// The result of the repeated first call, if the second one had to wait.
    repeated: Option<R>,
    /// The memory after both.
    end: Vec<std::mem::MaybeUninit<u8>>,
}

/// Runs the first call, and the second one in the middle of it; if the first one acquires nothing, after it.
pub(crate) fn run<R: 'static>(
    memory: &Metadata,
    (first_cpu, first): (CpuId, Call<R>),
    (second_cpu, second): (CpuId, Call<R>),
) -> (R, R) {
    let halfway = Rc::new(RefCell::new(Halfway {
        second: None,
        repeated: None,
        end: Vec::new(),
    }));
    let before = memory.copy();
    platform::on_lock({
        let (memory, halfway) = (memory.clone(), halfway.clone());
        let (first, second) = (first.clone(), second.clone());
        move || {
            let held = memory.copy();
            platform::on_wait({
                let (memory, halfway) = (memory.clone(), halfway.clone());
                move || repeat(&memory, &before, (first_cpu, first), &halfway)
            });
            let result = Cpu::run(second_cpu, |cpu| second(cpu));
            platform::forget_wait();
            let mut halfway = halfway.borrow_mut();
            halfway.second = Some(result);
            if halfway.repeated.is_some() {
                halfway.end = memory.copy();
                memory.restore(&held);
                platform::set_silent(true);
            }
        }
    });
    let result = Cpu::run(first_cpu, |cpu| first(cpu));
    platform::forget_lock();
    let (ended, repeated) = {
        let mut halfway = halfway.borrow_mut();
        (halfway.second.take(), halfway.repeated.take())
    };
    let result = match repeated {
        None => result,
        Some(repeated) => {
            memory.restore(&halfway.borrow().end);
            platform::set_silent(false);
            repeated
        }
    };
    let second = ended.unwrap_or_else(|| Cpu::run(second_cpu, |cpu| second(cpu)));
    (result, second)
}

/// Runs the first call again, with the second CPU waiting from the place on where it was interrupted.
fn repeat<R: 'static>(
    memory: &Metadata,
    before: &[std::mem::MaybeUninit<u8>],
    (cpu, call): (CpuId, Call<R>),
    halfway: &RefCell<Halfway<R>>,
) {
    let waiting = memory.copy();
    memory.restore(before);
    platform::set_silent(true);
    platform::on_lock({
        let memory = memory.clone();
        move || {
            memory.restore(&waiting);
            platform::set_silent(false);
        }
    });
    let result = Cpu::run(cpu, |cpu| call(cpu));
    halfway.borrow_mut().repeated = Some(result);
}
