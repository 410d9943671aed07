//! Lines that a mail program broke: the first one of a report, that of the kernel's version, and callers.
//!
//! # Invariants
//! The rest of a line has no prefix. Each line is also read on its own.

use memchr::memmem::find;

use super::Log;
use crate::read::fields;
use crate::read::prefix::Stripped;
use crate::state::Place;

/// A mail program breaks the first line of a report, and the line of the kernel's version, into this number at most.
const PIECES: u64 = 4;

impl Log {
    /// Joins a line without a prefix to the one before it, if that one begins what a mail program may have broken.
    /// What an event lacked is taken from the whole line.
    pub(super) fn join(&mut self, number: u64, line: &Stripped<'_>) -> Option<Vec<u8>> {
        let begins = |text: &[u8]| {
            let is_caller = text.ends_with(b"=") && find(text, b"iB ").is_some();
            let is_event = fields::event(text, &Place::default()).is_some();
            is_caller || is_event || find(text, b"CPU: ").is_some()
        };
        let Some((mut whole, first, last)) = self.broken.take() else {
            if begins(line.rest) {
                self.broken = Some((line.rest.to_vec(), number, number));
            }
            return None;
        };
        let is_rest = number == last + 1 && number - first < PIECES;
        if !is_rest || line.time.is_some() || line.caller.is_some() || begins(line.rest) {
            self.broken = begins(line.rest).then(|| (line.rest.to_vec(), number, number));
            return None;
        }
        match whole.strip_suffix(b"=").map(<[u8]>::len) {
            Some(length) => whole.truncate(length),
            None => whole.push(b' '),
        }
        whole.extend_from_slice(line.rest);
        let newest = self.events.back_mut().map(|(event, ..)| event);
        if let Some(event) = newest.filter(|event| event.place.line == first)
            && let Some(joined) = fields::event(&whole, &event.place)
        {
            event.order = event.order.or(joined.order);
            event.flags = joined.flags.or(event.flags.take());
            event.nodes = joined.nodes;
        }
        self.broken = Some((whole.clone(), first, number));
        Some(whole)
    }
}
