//! Lines of scripts.

use everybuddy_session::scripts::scripts;
use everybuddy_session::{Action, Session, Step};

#[test]
fn lines_are_steps_or_nothing() {
    let step = Step::parse("a 1 3").unwrap();
    assert_eq!(
        (step.cpu, step.action, step.during),
        (1, Action::Order(3), None)
    );
    let both = Step::parse("@ 0 10 2 / f 1 4").unwrap();
    assert_eq!(both.action, Action::At(10, 2));
    assert_eq!(both.during, Some((1, Action::Free(4))));
    let mistakes = [
        "",
        "a",
        "a 0",
        "a 2 0",
        "a 0 300",
        "x 0 0",
        "d 0 1",
        "a 0 0 / a 0 0",
        "d 0 / d 1 / d 0",
        "d 0 /",
    ];
    for line in mistakes {
        assert_eq!(Step::parse(line), None, "{line}");
    }
}

#[test]
fn every_line_of_every_script_is_a_step() {
    for script in scripts() {
        assert_eq!(script.before().count(), script.before.len());
        assert_eq!(script.steps().count(), script.lines.len());
    }
    assert_eq!(scripts().count(), 12);
}

#[test]
fn what_is_refused_is_said() {
    assert!(Session::open("bs-2", 16, 3).err().unwrap().contains("bs-2"));
    let mut session = Session::open("bs", 16, 3).unwrap();
    for (line, sentence) in [
        ("a 0 5", "is refused"),
        ("a 0 77", "is refused"),
        ("f 0 0", "nothing to free"),
        ("f 0 9", "nothing to free"),
        ("s 0 0", "no such service"),
        ("@ 0 99 1", "is refused"),
    ] {
        let why = session.apply(&Step::parse(line).unwrap()).why;
        assert!(why.contains(sentence), "{line}: {why}");
    }
}

#[test]
fn a_call_during_another_one_is_what_two_processors_do() {
    for system in everybuddy_session::systems::names() {
        let mut session = Session::open(system, 64, 3).unwrap();
        for line in [
            "a 0 0 / a 1 0",
            "a 1 2 / a 0 0",
            "f 0 0 / f 1 1",
            "a 0 3 / f 1 2",
            "q 0 / a 1 0",
            "d 1 / q 0",
            "f 1 3 / n 0 5",
        ] {
            let picture = session.apply(&Step::parse(line).unwrap());
            session
                .check()
                .unwrap_or_else(|error| panic!("{system}, {line}: {error}"));
            // No frame belongs to two allocations.
            let mut used = [false; 64];
            for (start, frames) in picture.slots.into_iter().flatten() {
                for frame in start..start + frames {
                    let was = std::mem::replace(&mut used[frame as usize], true);
                    assert!(!was, "{system}, {line}: frame {frame}");
                }
            }
        }
    }
}
