//! The metrics that only simulated machines have.
//!
//! # Purpose
//!
//! As `table`. Nothing here can be measured on a host.
//!
//! # Invariants
//!
//! As `table`.

use crate::Better::{Higher, Lower, Neither};
use crate::Group::Machine;
use crate::table::VALUE;
use crate::{Metric, SHARE};

/// The metrics of `simulate` alone.
pub(crate) const OWN: &[Metric] = &[
    Metric {
        name: "linearity",
        group: Machine,
        head: "of linear",
        unit: "1",
        better: Higher,
        statistics: VALUE,
        formula: "throughput / (CPUs * throughput of one CPU)",
        definition: "Calls per second, compared with as many CPUs that do not disturb each other: 1 is linear. If one \
                     CPU was not simulated, the smallest number of CPUs takes its place.",
        counted: None,
    },
    Metric {
        name: "scaling_limit",
        group: Machine,
        head: "scales to",
        unit: "CPUs",
        better: Higher,
        statistics: VALUE,
        formula: "",
        definition: "The number of CPUs beyond which twice as many bring less than 1.2 times the calls per second; \
                     between 16 and 64 CPUs, for instance, two doublings must bring 1.44 times the calls. No row if \
                     all numbers of CPUs that were simulated bring more. Of several seeds it is that of the means, as \
                     is `linearity`; the row has the first seed.",
        counted: None,
    },
    Metric {
        name: "idle_share",
        group: Machine,
        head: "idle",
        unit: SHARE,
        better: Neither,
        statistics: VALUE,
        formula: "idle cycles / (cycles * CPUs)",
        definition: "Share of the CPUs' time in which they wait for other CPUs outside of calls, or have no calls \
                     left.",
        counted: None,
    },
    Metric {
        name: "preemptions",
        group: Machine,
        head: "preemptions",
        unit: "1",
        better: Neither,
        statistics: VALUE,
        formula: "",
        definition: "How often a virtual CPU lost its CPU of the machine to another one, in calls and between them, \
                     warm-up included. Only with more virtual CPUs than the machine has.",
        counted: None,
    },
    Metric {
        name: "cut_off",
        group: Machine,
        head: "cut off",
        unit: SHARE,
        better: Lower,
        statistics: VALUE,
        formula: "CPUs that made fewer calls / CPUs",
        definition: "Share of the CPUs that did not make all their calls, in the warm-up or later, because the calls \
                     of one section exceeded the run's limit of time in calls. Means, rates and percentiles cover \
                     only the calls that were made.",
        counted: None,
    },
    Metric {
        name: "memory_time_share",
        group: Machine,
        head: "memory time",
        unit: SHARE,
        better: Lower,
        statistics: VALUE,
        formula: "cycles on its lines / cycles on all lines",
        definition: "Share of a part of the metadata in the time that calls spend on accesses to shared memory and on \
                     waiting for words in it. The source is the workload, `:` and what an element of the part holds; \
                     parts below 1% have no row.",
        counted: None,
    },
    Metric {
        name: "line_moves",
        group: Machine,
        head: "line moves",
        unit: "1",
        better: Lower,
        statistics: VALUE,
        formula: "transfers / calls",
        definition: "Times per call that a cache line of a part of the metadata came from another core, or was taken \
                     away from all others that had it.",
        counted: None,
    },
    Metric {
        name: "waits",
        group: Machine,
        head: "waits",
        unit: "1",
        better: Lower,
        statistics: VALUE,
        formula: "waits / calls",
        definition: "Times per call that a CPU waited for a word in a part of the metadata, such as a lock.",
        counted: None,
    },
    Metric {
        name: "accesses",
        group: Machine,
        head: "accesses",
        unit: "1",
        better: Lower,
        statistics: VALUE,
        formula: "accesses / calls",
        definition: "Accesses to shared memory per call.",
        counted: None,
    },
    Metric {
        name: "accesses_outside",
        group: Machine,
        head: "outside",
        unit: "1",
        better: Lower,
        statistics: VALUE,
        formula: "",
        definition: "Accesses to shared memory outside the metadata, which the model of caches does not see. More \
                     than 0 is a defect.",
        counted: None,
    },
];
