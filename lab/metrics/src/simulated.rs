//! The metrics that only simulated machines have.
//!
//! As `table`. Nothing here can be measured on a host.
//!
//! # Invariants
//! As `table`.

use crate::Better::{Higher, Lower, Neither};
use crate::Group::Machine;
use crate::table::{VALUE, metrics};
use crate::{Metric, SHARE};

metrics! {
    /// Calls per second, compared with as many CPUs that do not disturb each other: 1 is linear. If one CPU was not
    /// simulated, the smallest number of CPUs takes its place.
    Machine, "linearity", "of linear", "1", Higher, VALUE, "throughput / (CPUs * throughput of one CPU)";
    /// The number of CPUs beyond which twice as many bring less than 1.2 times the calls per second; between 16 and
    /// 64 CPUs, for instance, two doublings must bring 1.44 times the calls. No row if all numbers of CPUs that were
    /// simulated bring more. Of several seeds it is that of the means, as is `linearity`; the row has the first seed.
    Machine, "scaling_limit", "scales to", "CPUs", Higher, VALUE;
    /// Share of the CPUs' time in which they wait for other CPUs outside of calls, or have no calls left.
    Machine, "idle_share", "idle", SHARE, Neither, VALUE, "idle cycles / (cycles * CPUs)";
    /// Calls per second that the simulation of a machine predicts for it. `min` and `max` are the smallest and the
    /// largest number of three machines: the one of the file, and those whose transfers and memory take half of the
    /// time and twice the time.
    Machine, "predicted_throughput", "predicted", "1/s", Higher, &["rate", "min", "max"];
    /// How often a virtual CPU lost its CPU of the machine to another one, in calls and between them, warm-up
    /// included. Only with more virtual CPUs than the machine has.
    Machine, "preemptions", "preemptions", "1", Neither, VALUE;
    /// Share of the CPUs that did not make all their calls, in the warm-up or later, because the calls of one section
    /// exceeded the run's limit of time in calls. Means, rates and percentiles cover only the calls that were made.
    Machine, "cut_off", "cut off", SHARE, Lower, VALUE, "CPUs that made fewer calls / CPUs";
    /// Share of a part of the metadata in the time that calls spend on accesses to shared memory and on waiting for
    /// words in it. The source is the workload, `:` and what an element of the part holds; parts below 1% have no
    /// row.
    Machine, "memory_time_share", "memory time", SHARE, Lower, VALUE, "cycles on its lines / cycles on all lines";
    /// Times per call that a cache line of a part of the metadata came from another core, or was taken away from all
    /// others that had it.
    Machine, "line_moves", "line moves", "1", Lower, VALUE, "transfers / calls";
    /// Times per call that a CPU waited for a word in a part of the metadata, such as a lock.
    Machine, "waits", "waits", "1", Lower, VALUE, "waits / calls";
    /// Accesses to shared memory per call.
    Machine, "accesses", "accesses", "1", Lower, VALUE, "accesses / calls";
    /// Accesses to shared memory outside the metadata, which the model of caches does not see. More than 0 is a
    /// defect.
    Machine, "accesses_outside", "outside", "1", Lower, VALUE;
}
