//! The summary of a recording.
//!
//! Shows at a glance whether the trace is usable, and what to do with it.
//!
//! # Invariants
//! If anything was lost, the summary reports the loss and a remedy.

use everybuddy_trace::{WaitsOnly, shown};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use everybuddy_record::Accounts;
use everybuddy_record::record::{Losses, Recorded};

use everybuddy_measure::size::{self, bytes, count};

use super::output::Style;
use crate::left_out;

/// The width of the labels.
const INDENT: usize = 20;

/// The data of the summary.
#[derive(Debug)]
pub struct Summary<'a> {
    /// The file.
    pub path: &'a Path,
    /// The recording.
    pub made: &'a Recorded,
    /// The duration of the recording.
    pub after: Duration,
    /// The exit status of the command, if it ended by itself.
    pub status: Option<ExitStatus>,
    /// Whether the command was still running when the recording ended.
    pub was_running: bool,
    /// The time for sorting and writing the recording.
    pub finishing: Duration,
    /// The run time of the command without recording, if it was measured.
    pub untraced: Option<Duration>,
}

impl Summary<'_> {
    /// Renders the text.
    pub fn text(&self) -> String {
        let style = Style::of_output(true);
        let path = shown(self.path);
        let mut out = format!("{}\n", style.bold(&path));
        let is_of_waits = WaitsOnly::of(&self.made.assembled.trace).is_some();
        if is_of_waits {
            out += &style.wrapped("  time", INDENT, &self.time());
        } else {
            self.calls(&style, &mut out);
        }
        self.rest(&style, &mut out);
        let next = if is_of_waits { "advise" } else { "compare" };
        out += &format!("\nnext: everybuddy {next} {path}\n      everybuddy trace info {path}\n");
        out
    }

    /// Describes the calls, and what is known about them.
    fn calls(&self, style: &Style, out: &mut String) {
        let accounts = &self.made.assembled.accounts;
        let mut line = |label: &str, text: String| *out += &style.wrapped(label, INDENT, &text);
        let kept = count(accounts.allocations + accounts.frees - accounts.too_far);
        let [allocations, frees] = [accounts.allocations, accounts.frees].map(count);
        let calls = format!("{kept} ({allocations} allocations, {frees} frees)");
        line("  calls kept", calls);
        let peak = accounts.peak_frames;
        let peak = format!("{} frames ({})", count(peak), size::frames(peak));
        line("  peak in use", peak);
        let [tasks, processes] = [accounts.tasks, accounts.processes].map(count);
        line("  tasks", format!("{tasks} in {processes} processes"));
        line("  time", self.time());
        let known = percent(accounts.region_share());
        let guessed = percent(share(accounts.faults_in_guessed, accounts.faults_in_mapped));
        let faults = format!(
            "{known} of the allocations by faults have a known region; {guessed} of them are in a stack, image or \
             loader, which is inferred from the address"
        );
        line("  faults", faults);
        let own = [
            accounts.inferred_frees,
            accounts.partial_frees,
            accounts.unmatched_frees,
        ];
        let [inferred, partial, earlier] = own.map(count);
        let frees = format!(
            "{inferred} inferred, {partial} of a part of a block; {earlier} of earlier allocations"
        );
        line("  frees", frees);
    }

    /// Describes the waits, the cost and the losses.
    fn rest(&self, style: &Style, out: &mut String) {
        let accounts = &self.made.assembled.accounts;
        let cost = &self.made.cost;
        let mut line = |label: &str, text: String| *out += &style.wrapped(label, INDENT, &text);
        let is_of_waits = WaitsOnly::of(&self.made.assembled.trace).is_some();
        if let Some(text) = locks(accounts, is_of_waits) {
            line("  zone's lock", text);
        }
        if let Some(text) = left_out::too_far(accounts.too_far) {
            *out += &style.warning(&style.wrapped("  too far apart", INDENT, &text));
        }
        let mut line = |label: &str, text: String| *out += &style.wrapped(label, INDENT, &text);
        if accounts.moved > 0 {
            let moved = count(accounts.moved);
            line(
                "  renumbered",
                format!("{moved} calls, whose memory lies 16 TiB or more from the first"),
            );
        }
        let left_out = accounts.odd_orders + accounts.misaligned + accounts.too_many;
        if left_out > 0 {
            line("  omitted", format!("{} invalid events", count(left_out)));
        }
        let (events, seconds) = (count(cost.events), self.finishing.as_secs_f64());
        let of = if is_of_waits {
            ""
        } else {
            " of the whole machine"
        };
        let [moved, buffers] = [cost.bytes, cost.buffer_bytes].map(|own| bytes(own as f64));
        let text = format!(
            "{events} events{of}, {moved} through buffers of {buffers}; {seconds:.1} s to sort and \
             write"
        );
        line("  cost", text);
        if let Some(untraced) = self.untraced {
            let (with, without) = (self.after.as_secs_f64(), untraced.as_secs_f64());
            let more = (with / without - 1.0) * 100.0;
            let text = format!(
                "{with:.3} s recorded, {without:.3} s untraced: {more:+.1} % (one pair is not significant; \
                 ci/overhead.sh repeats it)"
            );
            line("  overhead", text);
        }
        match lost(&self.made.losses, cost.buffer_bytes_of_cpu) {
            None => line("  lost events", "none".to_string()),
            Some(text) => *out += &style.warning(&style.wrapped("  lost events", INDENT, &text)),
        }
    }

    fn time(&self) -> String {
        let seconds = self.after.as_secs_f64();
        match (self.status, self.was_running) {
            (Some(status), _) => {
                format!("{seconds:.2} s; the command ended with {}", exit(status))
            }
            (None, true) => format!("{seconds:.2} s; the command was then terminated"),
            (None, false) => format!("{seconds:.2} s"),
        }
    }
}

/// Describes the exit status of a command.
fn exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_string(),
    }
}

/// Describes the waits for locks. Returns `None` if no lock was waited for.
fn locks(accounts: &Accounts, is_of_waits: bool) -> Option<String> {
    if accounts.lock_events_seen == 0 && !is_of_waits {
        return None;
    }
    let mut text = format!(
        "{} acquisitions, and {} waits for other locks",
        count(accounts.acquisitions),
        count(accounts.waits_for_others),
    );
    let unpaired = accounts.waits_unfinished + accounts.ends_unmatched + accounts.waits_overlapping;
    let unknown = accounts.waits_of_unknown_locks;
    for (number, what) in [
        (unknown, "waits for locks without a known caller"),
        (unpaired, "incomplete waits"),
    ] {
        if number > 0 {
            text += &format!("; omitted: {} {what}", count(number));
        }
    }
    Some(text)
}

/// Describes the losses and a remedy. Returns `None` if nothing was lost.
fn lost(losses: &Losses, buffer: u64) -> Option<String> {
    if losses.is_none() {
        return None;
    }
    let mut text = format!(
        "{} that did not fit into the buffers of {} per CPU",
        count(losses.events.max(losses.told_by_pages)),
        bytes(buffer as f64),
    );
    if losses.cut_pages > 0 {
        text += &format!(", and {} damaged pages", count(losses.cut_pages));
    }
    text += &format!(
        ": the trace has gaps; record again with larger buffers, --buffer {}",
        bytes(buffer as f64 * 4.0).replace(' ', "")
    );
    Some(text)
}

/// Returns the share of the first number in the sum of both.
fn share(part: u64, rest: u64) -> f64 {
    part as f64 / (part + rest).max(1) as f64
}

fn percent(share: f64) -> String {
    format!("{:.1}\u{a0}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_come_with_the_remedy() {
        assert_eq!(lost(&Losses::default(), 1 << 20), None);
        let losses = Losses {
            events: 1234,
            ..Losses::default()
        };
        let text = lost(&losses, 32 << 20).unwrap();
        assert!(text.contains("1,234"), "{text}");
        assert!(text.contains("--buffer 128MiB"), "{text}");
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(exit(ExitStatus::from_raw(3 << 8)), "exit code 3");
        assert_eq!(exit(ExitStatus::from_raw(9)), "signal 9");
    }
}
