//! A picture as JSON, which the page reads.

use std::fmt::Write;

use crate::picture::{Kind, Picture};

impl Picture {
    /// Returns the picture as one line of JSON.
    pub fn json(&self) -> String {
        let mut text = format!("{{\"why\":{}", quoted(&self.why));
        let pieces = self.pieces.iter().map(|piece| {
            let kind = match piece.kind {
                Kind::Free => "\"free\"".to_owned(),
                Kind::Delayed => "\"delayed\"".to_owned(),
                Kind::Allocated(slot, cpu) => format!("\"allocated\",{slot},{cpu}"),
                Kind::Listed(cpu) => format!("\"listed\",{cpu}"),
                Kind::Dividing => "\"dividing\"".to_owned(),
                Kind::Linking => "\"linking\"".to_owned(),
                Kind::Other => "\"other\"".to_owned(),
            };
            format!("[{},{},{},{kind}]", piece.start, piece.frames, piece.part)
        });
        member(&mut text, "pieces", pieces);
        member(&mut text, "free", self.free.iter());
        let lists = self.lists.iter().map(|list| {
            let heads = array(list.heads.iter());
            format!("[{},{},{heads},{}]", list.part, list.order, list.local)
        });
        member(&mut text, "lists", lists);
        let parts = self.parts.iter();
        let parts = parts.map(|(start, frames)| format!("[{start},{frames}]"));
        member(&mut text, "parts", parts);
        let word = quoted(self.word);
        let _ = write!(text, ",\"word\":{word},\"domains\":{}", self.domains);
        let classes = self.classes.iter().map(|class| {
            let numbers = [class.total, class.local, class.global, class.slack];
            format!("[{},{}]", class.order, joined(numbers.iter()))
        });
        member(&mut text, "classes", classes);
        let cpus = self.cpus.iter().map(|cpu| {
            let (list, parts) = (array(cpu.list.iter()), array(cpu.parts.iter()));
            format!("{{\"list\":{list},\"parts\":{parts}}}")
        });
        member(&mut text, "cpus", cpus);
        let slots = self.slots.iter().map(|slot| match slot {
            Some((start, frames)) => format!("[{start},{frames}]"),
            None => "null".to_owned(),
        });
        member(&mut text, "slots", slots);
        text + "}"
    }
}

fn member<T: ToString>(text: &mut String, name: &str, values: impl Iterator<Item = T>) {
    let _ = write!(text, ",\"{name}\":{}", array(values));
}

/// Returns values, which are JSON, as an array.
pub(crate) fn array<T: ToString>(values: impl Iterator<Item = T>) -> String {
    format!("[{}]", joined(values))
}

fn joined<T: ToString>(values: impl Iterator<Item = T>) -> String {
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    values.join(",")
}

/// Returns text as a string of JSON. It contains no control characters.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
