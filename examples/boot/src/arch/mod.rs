//! What differs between architectures.
//!
//! Each architecture has a folder with the same functions; the rest of the kernel is shared.
//!
//! | name | contents |
//! |---|---|
//! | `entry.s` | the way to `first_cpu` and `other_cpu`, with a stack, and with all memory mapped to itself |
//! | `open`, `Line` | the serial line |
//! | `exit` | the end of the machine |
//! | `boot_info`, `UNMANAGED` | the memory map and the command line; memory that stays out of the system |
//! | `local`, `set_local` | a register of each CPU for the address of what it has for itself |
//! | `interrupts_are_enabled`, `enable_interrupts`, `disable_interrupts`, `wait` | interrupts of this CPU |
//! | `start_interrupts`, `wake_others` | the timer of this CPU, which calls [`handler::on_timer`](crate::handler::on_timer); interrupts of others |
//! | `start_others` | starts CPUs, each of which takes its stack from `stack_ends` |
//!
//! # Invariants
//! The interrupt entries save what a function may change, and run on the stack of the code below them. No code uses
//! floating-point registers: the targets have none.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub(crate) use riscv64::*;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
mod device_tree;
