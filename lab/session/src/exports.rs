//! The functions of the WebAssembly module.
//!
//! The page passes text and gets text. It writes a request of [`play_room`] bytes at the address that this returns, and
//! reads an answer of [`play_length`] bytes at the address that the other calls return.
//!
//! # Invariants
//! One thread calls. The address of an answer is valid until the next call.
#![allow(unsafe_code)]

use std::cell::RefCell;

use crate::json::{array, quoted};
use crate::scripts::scripts;
use crate::{Session, Step, systems};

#[derive(Default)]
struct State {
    request: Vec<u8>,
    answer: String,
    sessions: Vec<Option<Session>>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::default());
}

/// Makes room for a request of `bytes` bytes, and returns its address.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn play_room(bytes: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.request = vec![0; bytes];
        state.request.as_mut_ptr()
    })
}

/// Returns the length of the last answer in bytes.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn play_length() -> usize {
    STATE.with_borrow(|state| state.answer.len())
}

/// Answers with the scripts and the systems, as JSON.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn play_catalogue() -> *const u8 {
    answer(|_| {
        let scripts = scripts().map(|script| {
            let [left, right] = script.pair.map(quoted);
            let before = array(script.before.iter().map(|line| quoted(line)));
            let steps = script.lines.iter();
            let steps = array(steps.map(|(line, remark)| format!("[{},{}]", quoted(line), quoted(remark))));
            format!(
                "{{\"name\":{},\"title\":{},\"about\":{},\"frames\":{},\"order\":{},\"pair\":[{left},{right}],\
                 \"before\":{before},\"steps\":{steps}}}",
                quoted(script.name), quoted(script.title), quoted(script.about), script.frames, script.order
            )
        });
        let rows = everybuddy::systems::ROWS
            .iter()
            .map(|row| format!("[{},{}]", quoted(row.name), quoted(row.summary)));
        format!(
            "{{\"scripts\":{},\"systems\":{}}}",
            array(scripts),
            array(rows)
        )
    })
}

/// Opens a session, as the request says: `SYSTEM FRAMES ORDER`. Answers with JSON: its number, its system with options,
/// and its picture; or with an error.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn play_open() -> *const u8 {
    answer(|state| match open(state) {
        Ok(answer) => answer,
        Err(error) => format!("{{\"error\":{}}}", quoted(&error)),
    })
}

fn open(state: &mut State) -> Result<String, String> {
    let text = String::from_utf8_lossy(&state.request).into_owned();
    let mut words = text.split(' ');
    let name = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|word| word.parse::<u32>().ok());
    let (Some(frames), Some(order)) = (number(), number()) else {
        return Err("the request has no size of memory".to_owned());
    };
    let order = u8::try_from(order).unwrap_or(u8::MAX);
    let session = Session::open(name, frames, order)?;
    let row = everybuddy::systems::ROWS
        .iter()
        .find(|row| row.name == name);
    let options = row.map(|row| systems::text(row, frames, order));
    let picture = session.picture(String::new()).json();
    let vacant = state.sessions.iter().position(Option::is_none);
    let number = vacant.unwrap_or(state.sessions.len());
    if vacant.is_none() {
        state.sessions.push(None);
    }
    if let Some(place) = state.sessions.get_mut(number) {
        *place = Some(session);
    }
    Ok(format!(
        "{{\"number\":{number},\"options\":{},\"picture\":{picture}}}",
        quoted(&options.unwrap_or_default())
    ))
}

/// Does the step that the request says in a session, and answers with its picture; with nothing if it is not a step.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn play_step(session: usize) -> *const u8 {
    answer(|state| {
        let step = Step::parse(&String::from_utf8_lossy(&state.request));
        let session = state.sessions.get_mut(session).and_then(Option::as_mut);
        match (session, step) {
            (Some(session), Some(step)) => session.apply(&step).json(),
            _ => String::new(),
        }
    })
}

/// Closes a session.
// SAFETY: the name is defined once in the module.
#[unsafe(no_mangle)]
extern "C" fn play_close(session: usize) {
    STATE.with_borrow_mut(|state| {
        if let Some(place) = state.sessions.get_mut(session) {
            *place = None;
        }
    });
}

fn answer(make: impl FnOnce(&mut State) -> String) -> *const u8 {
    STATE.with_borrow_mut(|state| {
        state.answer = make(state);
        state.answer.as_ptr()
    })
}
