//! The allocators' tests from outside, in one program: systems are compiled once for all of them.

mod domains;
mod excluded;
mod glob;
mod handover;
mod holds;
mod late;
mod linux6;
mod lists;
mod magazines;
mod managers;
mod maps;
mod metadata;
mod mixed;
mod native;
mod nodes;
mod oracle;
mod pcp_buddy;
mod places;
mod predictive;
mod silent;
mod spaces;
mod statics;
mod stops;
mod torn;
mod two_cpus;
mod zeroed;
