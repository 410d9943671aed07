//! The conformance suite on the real machine.

use everybuddy_suite::{Machine, Threads, conformance};

conformance!(Machine, Threads);
