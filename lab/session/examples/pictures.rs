//! Prints every picture of every script on every system, one a line, as ci/play.sh compares them with the page.

use std::io::{self, Write};

use everybuddy_session::scripts::scripts;
use everybuddy_session::{Kind, Picture, Session, systems};

fn main() -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for script in scripts() {
        for system in systems::names() {
            let mut session = match Session::open(system, script.frames, script.order) {
                Ok(session) => session,
                Err(error) => {
                    writeln!(out, "{}|{system}|{error}", script.name)?;
                    continue;
                }
            };
            for step in script.before() {
                session.apply(&step);
            }
            let first = session.picture(String::new());
            writeln!(out, "{}|{system}|0|{}", script.name, line(&first))?;
            for (at, step) in (1..).zip(script.steps()) {
                let picture = session.apply(&step);
                writeln!(out, "{}|{system}|{at}|{}", script.name, line(&picture))?;
            }
        }
    }
    out.flush()
}

/// Returns a picture as the test of the page reads it from the page.
fn line(picture: &Picture) -> String {
    let pieces = picture.pieces.iter().map(|piece| {
        let part = piece.part;
        let kind = match piece.kind {
            Kind::Free => format!("free {part}"),
            Kind::Delayed => format!("delayed {part}"),
            Kind::Allocated(slot, cpu) => format!("allocated {part} {slot} {cpu}"),
            Kind::Listed(cpu) => format!("listed {part} {cpu}"),
            Kind::Dividing => format!("dividing {part}"),
            Kind::Linking => format!("linking {part}"),
            Kind::Other => format!("other {part}"),
        };
        format!("{}+{} {kind}", piece.start, piece.frames)
    });
    let pieces: Vec<String> = pieces.collect();
    let mut lists: Vec<_> = picture.lists.iter().collect();
    // The page shows the largest order first.
    lists.sort_by_key(|list| std::cmp::Reverse(list.order));
    let chips = lists.iter().flat_map(|list| {
        list.heads.iter().enumerate().map(|(at, head)| {
            let local = if at < list.local { " local" } else { "" };
            format!("{} {} {head}{local}", list.part, list.order)
        })
    });
    let chips: Vec<String> = chips.collect();
    let cpus = picture.cpus.iter().enumerate().flat_map(|(cpu, has)| {
        let list = has.list.iter();
        list.map(move |frame| format!("{cpu} {frame}"))
    });
    let cpus: Vec<String> = cpus.collect();
    format!(
        "{}|{}|{}|{}",
        picture.why,
        pieces.join(","),
        chips.join(","),
        cpus.join(",")
    )
}
