//! The statistics of a trace, for readers.
//!
//! Labels the statistics of the trace crate.
//!
//! # Invariants
//! Shares are printed as percentages.

use everybuddy_trace::{
    Context, LockSource, LockWaits, Machine, Quantiles, RunLengths, Statistics, WaitsOnly, shown,
};

use everybuddy_measure::library::{Bundled, DEFAULT};
use everybuddy_measure::size::{count, cpus, frames};

use super::output::Style;
use super::sparkline;

/// The callers that are shown.
const MOST_CALLERS: usize = 5;

/// Renders the list of bundled traces.
pub fn list(known: &[(&Bundled, Statistics)]) -> String {
    let style = Style::of_output(false);
    let mut out = String::new();
    for (own, s) in known {
        let when = if DEFAULT.contains(&own.trace.name) {
            ""
        } else {
            "; runs only if it is named"
        };
        let text = format!("{}{when}", own.program);
        out += &style.entry(own.trace.name, 19, &text);
        let numbers = format!(
            "{} calls on {} by {} threads in {}, at most {} in use",
            count(s.events),
            cpus(u64::from(s.cpus)),
            count(u64::from(s.tasks)),
            seconds(s.duration_ns),
            frames(s.peak_frames),
        );
        out += &style.wrapped("", 19, &numbers);
    }
    out += "`everybuddy trace info NAME` shows the statistics of one trace.\n";
    out
}

/// Renders the text: sections of aligned lines.
pub fn text(name: &str, s: &Statistics, machine: Option<&Machine>) -> String {
    let style = Style::of_output(false);
    let mut out = format!("{}\n", style.bold(name));
    let mut section = |title: &str, lines: &[(&str, String)]| out += &section(&style, title, lines);
    let frees = format!("{} ({} of a part)", count(s.frees), count(s.partial_frees));
    let [of_cpus, tasks] = [cpus(u64::from(s.cpus)), count(u64::from(s.tasks))];
    section(
        "calls",
        &[
            ("all", count(s.events)),
            ("allocations", count(s.allocations)),
            ("frees", frees),
            ("time", seconds(s.duration_ns)),
            ("from", format!("{of_cpus}, {tasks} threads")),
        ],
    );
    let orders = s.orders.iter().map(|order| {
        let name = format!("order {} ({})", order.order, frames(1 << order.order));
        let share = format!(
            "{:>9}   {:>7} of allocations   {:>7} of frames",
            count(order.allocations),
            percent(order.allocation_share),
            percent(order.frame_share),
        );
        (name, share)
    });
    let orders: Vec<_> = orders.collect();
    let orders = orders.iter().map(|(name, share)| (&**name, share.clone()));
    section("orders", &orders.collect::<Vec<_>>());
    let live: Vec<u64> = s.live.iter().map(|sample| sample.frames).collect();
    section(
        "memory in use",
        &[
            ("peak", amount(s.peak_frames)),
            ("at the end", amount(s.final_frames)),
            ("over time", sparkline::of(&live, 60)),
        ],
    );
    section(
        "runs: consecutive calls of one kind by a thread",
        &[
            ("allocations", run(&s.allocation_runs)),
            ("frees", run(&s.free_runs)),
            ("allocations, by region", run(&s.region_allocation_runs)),
            ("frees, by region", run(&s.region_free_runs)),
        ],
    );
    let l = &s.lifetime_ns;
    let tenths = format!("{} and {}", seconds(l.p10), seconds(l.p90));
    section(
        "lifetimes of blocks",
        &[
            ("median", seconds(l.p50)),
            ("10 % and 90 %", tenths),
            ("freed on another CPU", percent(s.cross_cpu_free_share)),
            ("freed at exit", percent(s.exit_free_share)),
        ],
    );
    let contexts = Context::ALL.iter().zip(s.context_shares);
    let contexts = contexts.filter(|(_, share)| *share > 0.0);
    let contexts = contexts.map(|(context, share)| (context.name(), percent(share)));
    let (regions, share) = (count(u64::from(s.regions)), percent(s.region_share));
    let known = ("region known", format!("{share} ({regions} regions)"));
    let contexts: Vec<_> = contexts.chain([known]).collect();
    section("allocations by context", &contexts);
    if let Some(waits) = &s.lock_waits {
        section("acquisitions of a zone's lock, recorded", &locks(waits));
    }
    out += &machine_section(&style, machine);
    out
}

/// Renders a recording that contains only waits.
pub fn waits_only(
    name: &str,
    waits: &LockWaits,
    recording: &WaitsOnly,
    machine: Option<&Machine>,
) -> String {
    let style = Style::of_output(false);
    let mut out = format!("{}\n", style.bold(name));
    let mut lines = vec![("time", seconds(waits.duration_ns))];
    lines.extend(locks(waits));
    let left_out = format!(
        "{} waits for other locks; {} for locks without a known caller",
        count(recording.of_others),
        count(recording.of_unknown)
    );
    lines.push(("left out", left_out));
    for (at, own) in recording.callers.iter().take(MOST_CALLERS).enumerate() {
        let label = if at == 0 {
            "callers, as far as known"
        } else {
            ""
        };
        let text = format!(
            "{}: {} waits, {}",
            shown(&own.name),
            count(own.waits),
            seconds(own.wait_ns)
        );
        lines.push((label, text));
    }
    out += &section(
        &style,
        "waits for a zone's lock, recorded without calls",
        &lines,
    );
    out += &machine_section(&style, machine);
    out
}

/// Renders a section of aligned lines.
fn section(style: &Style, title: &str, lines: &[(&str, String)]) -> String {
    let mut out = format!("\n{}\n", style.bold(title));
    for (label, value) in lines {
        out += format!("  {label:<26}{value}").trim_end();
        out.push('\n');
    }
    out
}

/// Renders the machine of the recording, if it is known.
fn machine_section(style: &Style, machine: Option<&Machine>) -> String {
    let Some(machine) = machine else {
        return String::new();
    };
    let lines = recorded_on(machine);
    let lines = lines
        .iter()
        .map(|(label, value)| (label.as_str(), value.clone()));
    section(style, "machine", &lines.collect::<Vec<_>>())
}

/// Describes the machine of the recording.
fn recorded_on(machine: &Machine) -> Vec<(String, String)> {
    let line = |label: &str, value: String| (label.to_string(), value);
    let of_kib = |kib: u64| frames(kib / 4);
    let mut memory = of_kib(machine.total_kib);
    if let Some(free) = machine.free_kib {
        memory += &format!(", {} free at the start", of_kib(free));
    }
    // Texts of a file are shown without invisible characters.
    let kernel = format!(
        "Linux {}, {}",
        shown(&machine.kernel),
        cpus(u64::from(machine.cpus))
    );
    let mut lines = vec![line("kernel", kernel), line("memory", memory)];
    lines.extend(machine.zones.iter().map(|zone| {
        let lists = format!(
            "{}, {} free; lists: batch {}, high mark {} to {}",
            frames(zone.managed),
            frames(zone.free),
            count(zone.batch),
            count(zone.high_min),
            count(zone.high_max),
        );
        line(&format!("node {} {}", zone.node, shown(&zone.name)), lists)
    }));
    let settings = machine.settings.iter();
    lines.extend(settings.enumerate().map(|(at, (name, value))| {
        let label = if at == 0 { "settings" } else { "" };
        line(label, format!("{} = {}", shown(name), shown(value)))
    }));
    lines
}

/// Describes the acquisitions of a zone's lock.
fn locks(waits: &LockWaits) -> Vec<(&'static str, String)> {
    let names: Vec<&str> = waits.sources.iter().map(|source| source.name()).collect();
    let mut lines = Vec::new();
    if !names.is_empty() {
        lines.push(("reported by", names.join(", ")));
    }
    if waits.calls > 0 && waits.sources != [LockSource::Contention] {
        lines.push(("all", count(waits.acquisitions)));
    }
    let (wait, hold) = (&waits.wait_ns, &waits.hold_ns);
    let (waited, per_call) = (count(wait.count), waits.per_call() * 1e3);
    let (share, of) = (waits.share() * 100.0, cpus(u64::from(waits.cpus)));
    let mut share = format!("{share:.3} % of the time of {of}");
    if waits.calls > 0 {
        let waited = format!("{waited} ({per_call:.2} per 1,000 calls)");
        lines.push(("waited", waited));
    } else {
        lines.push(("waited", waited));
        let per_second = seconds(waits.waited_per_second() as u64);
        share = format!("{per_second} per second: {share}");
    }
    lines.push(("time spent waiting", share));
    let times = |own: &Quantiles| {
        let [median, p99, max] = [own.p50, own.p99, own.max].map(seconds);
        format!("median {median}, 99 % {p99}, maximum {max}")
    };
    if wait.count > 0 {
        lines.push(("waits", times(wait)));
    }
    if hold.count > 0 {
        lines.push(("held", times(hold)));
    }
    if waits.batch.count > 0 {
        let (mean, max) = (waits.batch.mean, waits.batch.max);
        lines.push(("blocks moved", format!("mean {mean:.1}, maximum {max}")));
    }
    lines
}

fn run(run: &RunLengths) -> String {
    let q = &run.length;
    if q.count == 0 {
        return "none".to_string();
    }
    format!(
        "mean {:<7} median {:<5} maximum {:<8} {:>6} of calls in runs of {} or more",
        format!("{:.1}", q.mean),
        count(q.p50),
        count(q.max),
        percent(run.share_in_long),
        RunLengths::LONG,
    )
}

fn amount(number: u64) -> String {
    format!("{} frames, {}", count(number), frames(number))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats a time with a suitable unit.
fn seconds(nanos: u64) -> String {
    let value = nanos as f64;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.1} s", value / 1e9),
    }
}
