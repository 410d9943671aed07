//! The tests of the trace format, in one program.

/// Checks the row and the problem of an error.
macro_rules! is {
    ($error:expr, $row:expr => $problem:pat) => {
        assert_eq!($error.row, $row, "{}", $error);
        assert!(matches!($error.problem, $problem), "{}", $error);
    };
}

mod common;
mod cut;
mod damage;
mod known_traces;
mod leniency;
mod refusals;
mod round_trip;
