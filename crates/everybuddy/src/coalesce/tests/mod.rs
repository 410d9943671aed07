//! Tests of the delayed policies against the definitions of \[BL89\].

mod debt;
mod delay;
mod figure_2;
mod runs;
mod watermarks;

use crate::Native;
use crate::platform::Spin;
use crate::probe::{Event, Probe};
use crate::structure::LocalLists;

/// Counts coalescings by order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Delays([u32; 20]);

impl Probe for Delays {
    fn record(&mut self, event: Event) {
        if let Event::Coalesce(order) = event {
            self.0[order.index()] += 1;
        }
    }
}

type Counting = Native<Spin, Delays>;
type Lists<'a> = LocalLists<'a, Counting>;
