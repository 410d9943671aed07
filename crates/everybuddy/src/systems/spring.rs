//! Spring Buddy: its core layer bare, behind its predictive list, and behind Linux 2.6.32's.
//!
//! # Source
//! \[Spring\] sections III and IV.

use super::numbers::Count;
use super::options::Options;
use super::standard::{LinuxLists, PredictiveLists};
use super::values::{ListKind, ZoneKind};
use crate::layered::Layered;
use crate::percpu::NoList;
use crate::zone::Domains;

/// Elastic domains.
pub type Elastic<'m, P> = Layered<P, NoList, Domains<'m, P>>;
/// Elastic domains behind Linux 2.6.32's list.
pub type LinuxElastic<'m, P> = Layered<P, LinuxLists<'m, P>, Domains<'m, P>>;
/// Elastic domains behind Spring Buddy's list.
pub type SpringBuddy<'m, P> = Layered<P, PredictiveLists<'m, P>, Domains<'m, P>>;

const FAITHFUL: &str = "Domains in a global spring, which each visit takes and puts back with +spring=locked; frames \
    go into any domain; a ghost that waits receives a part of the domain that comes back; when one comes back, two \
    that have long been idle are merged.";
const DEVIATES: &str = "A CPU takes a domain by an exchange on the domain's own line, preferably the one that it had \
    last, and puts it back by a store; only a CPU that finds it held takes the spring's lock. The paper's CPUs take \
    domains from one global spring: +spring=locked does that under the spring's lock, takes the domain that was put \
    back last, and merges the two lowest ones if neither was taken during 16 acquisitions per domain. A CPU that \
    finds its domain held takes a free one, preferably one to which no CPU returns. As long as there are fewer \
    domains than CPUs, it splits that domain and keeps a part, if both parts contain a block of the largest order. A \
    ghost receives half of the blocks of each order, 64 at most, or what was merged last and did not move yet; a \
    second one receives all the rest. Merging moves no block immediately. After 16 blocks, times the number of \
    domains, a CPU looks whether the domain that it watches was in use; this takes no lock. If no CPU acquired the \
    domain during 8 looks, the CPU compares all domains, under the lock, at this look and the next ones. A domain \
    that no CPU acquired during 8 comparisons has long been idle; this includes one that was made for a ghost. The \
    two that have been idle longest are merged; a single one joins the domain of the CPU that looks. A request that \
    its domain can't serve merges domains until one can. A word of 16 bits per frame stores which domain a free block \
    is in; the domain's holder writes it. The paper specifies none of this, but that CPUs take domains from a global \
    spring.";

/// The preset of domains.
const DOMAINS: Options = Options {
    zone: Some(ZoneKind::Domains),
    ..Options::NONE
};

systems! {
    /// `spring`: Spring Buddy.
    Spring: SpringBuddy {
        name: "spring",
        summary: "Spring Buddy: a list whose length is predicted, in front of as many domains as CPUs work \
            simultaneously.",
        source: "[Spring] III, figures 3 to 7",
        faithful: "Predicts from the run so far and the address region, both allocations and frees. The limit is \
            widened in runs of frees, and what is left is drained when a run has ended. The core layer is that of \
            spring-core.",
        deviates: "The address region distinguishes runs and its end shortens a prediction. In the paper a large \
            region also lengthens one, after several requests: predict=widen does that. Refills of 128 to 512 frames \
            (spread=4; the runs of the paper's table II span 51 to 1), a limit of 512 to 4096: fitted to the paper's \
            figure 11 (experiment buffers). The paper specifies neither how it predicts nor how far; here a run is \
            predicted to last as long again as it has lasted, and at most to its region's end. No clock is read: the \
            request after a run notices that the run has ended. +high=N bounds what a CPU keeps; otherwise a \
            sixteenth of memory divided by the number of CPUs does, at most 16 MiB. The core layer is that of \
            spring-core.",
        list: ListKind::Predictive,
        preset: DOMAINS,
    }

    /// `spring-core`: Spring Buddy's core layer.
    SpringCore: Elastic {
        name: "spring-core",
        summary: "Spring Buddy's core layer: as many domains as CPUs work simultaneously, no per-CPU list.",
        source: "[Spring] III-B, figures 4 to 6",
        faithful: FAITHFUL,
        deviates: DEVIATES,
        preset: DOMAINS,
    }

    /// `spring-fixlazy-186`: the core layer behind a list of 186 frames.
    SpringFixlazy186: LinuxElastic {
        name: "spring-fixlazy-186",
        summary: "Spring Buddy's core layer behind Linux's list with a high watermark of 186 frames.",
        source: "[Spring] IV-C2, figure 12",
        faithful: FAITHFUL,
        deviates: DEVIATES,
        list: ListKind::Linux,
        preset: Options { high: Some(Count::preset(186)), ..DOMAINS },
    }

    /// `spring-fixlazy-372`: the core layer behind a list of 372 frames.
    SpringFixlazy372: LinuxElastic {
        name: "spring-fixlazy-372",
        summary: "Spring Buddy's core layer behind Linux's list with a high watermark of 372 frames.",
        source: "[Spring] IV-C2, figure 12",
        faithful: FAITHFUL,
        deviates: DEVIATES,
        list: ListKind::Linux,
        preset: Options { high: Some(Count::preset(372)), ..DOMAINS },
    }

    /// `spring-fixlazy-744`: the core layer behind a list of 744 frames.
    SpringFixlazy744: LinuxElastic {
        name: "spring-fixlazy-744",
        summary: "Spring Buddy's core layer behind Linux's list with a high watermark of 744 frames.",
        source: "[Spring] IV-C2, figure 12",
        faithful: FAITHFUL,
        deviates: DEVIATES,
        list: ListKind::Linux,
        preset: Options { high: Some(Count::preset(744)), ..DOMAINS },
    }
}
