//! Advice for a machine, for readers.
//!
//! One line says what to do. Below it are the numbers from which that follows, and what they leave out.
//!
//! # Invariants
//! Every threshold is printed from its constant. What a trace does not contain is called unknown, and never zero.

use everybuddy_measure::advise::{Advice, Age, LEAST_WAITING, Load, Setting, Settings, Verdict};
use everybuddy_measure::answer::LEAST_CALLING;
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::replay::outcome::Comparison;
use everybuddy_measure::size::{count, cpus};
use everybuddy_trace::{LockSource, LockWaits, Machine, PAGE_SHIFT, WaitsOnly, shown};

use super::comparison::dealt;
use super::output::Style;
use super::table::{self, plain};

/// The width of the labels.
const INDENT: usize = 16;

/// The setting.
const SYSCTL: &str = "vm.percpu_pagelist_high_fraction";

/// What all texts of a trace need.
#[derive(Clone, Copy, Debug)]
pub struct Context<'c> {
    /// The name of the trace.
    pub name: &'c str,
    /// The recorded waits for zones' locks.
    pub waits: Option<&'c LockWaits>,
    /// The machine of the recording, if the trace states it.
    pub machine: Option<&'c Machine>,
    /// The style of the text.
    pub style: Style,
}

impl Context<'_> {
    /// Renders the line with the answer.
    fn verdict(&self, text: &str) -> String {
        let text = self.style.paragraph(&format!("{}: {text}", self.name));
        let rest = text.strip_prefix(self.name).unwrap_or(&text);
        self.style.bold(self.name) + rest
    }

    /// Renders a labelled text.
    fn line(&self, label: &str, text: &str) -> String {
        self.style.wrapped(&format!("  {label}"), INDENT, text)
    }

    /// Describes the waits for zones' locks.
    fn waiting(&self, load: &Load) -> String {
        let (Some(waits), Some(waiting)) = (self.waits, load.waiting) else {
            return self.line(
                "waits",
                "unknown: the trace has no waits for zones' locks. `everybuddy record` records them where the kernel \
                 reports them",
            );
        };
        let mut text = format!(
            "CPUs waited for zones' locks for {} of the time of {}: {:.3} ms per second",
            percent(waiting),
            cpus(u64::from(waits.cpus)),
            waits.waited_per_second() / 1e6,
        );
        if is_lower_bound(waits) {
            text +=
                ". This is a lower bound: on hardware, the first CPU that waits reports nothing";
        }
        self.line("waits", &text)
    }
}

/// Returns `true` if the kernel may have waited more than it reported.
fn is_lower_bound(waits: &LockWaits) -> bool {
    waits.sources.contains(&LockSource::Contention) || waits.sources.is_empty()
}

/// Renders the advice from a trace that contains only waits.
pub fn of_waits(
    context: &Context<'_>,
    load: &Load,
    waits: &LockWaits,
    recording: &WaitsOnly,
) -> String {
    let is_waiting = load.is_waiting() == Some(true);
    let limit = percent(LEAST_WAITING);
    let verdict = if is_waiting {
        format!(
            "CPUs wait for zones' locks for {limit} of their time or more: the page allocator is a problem."
        )
    } else if recording.of_unknown > waits.wait_ns.count {
        "Unknown: most waits are for locks without a known caller, so they may be for zones' locks."
            .to_string()
    } else if is_lower_bound(waits) {
        format!(
            "CPUs wait for zones' locks for less than {limit} of their time, as far as this kernel reports waits: \
             nothing shows that the lock is the problem."
        )
    } else {
        format!(
            "CPUs wait for zones' locks for less than {limit} of their time: the lock is not the problem."
        )
    };
    let mut out = context.verdict(&verdict);
    out += &context.waiting(load);
    let seconds = waits.duration_ns as f64 / 1e9;
    let text = format!(
        "{} waits in {seconds:.1} s; {} waits for other locks and {} for locks without a known caller are left out",
        count(waits.wait_ns.count),
        count(recording.of_others),
        count(recording.of_unknown),
    );
    out += &context.line("recorded", &text);
    if let Some(own) = recording.callers.first() {
        let text = format!(
            "`{}` waited longest, of the known callers",
            shown(&own.name)
        );
        out += &context.line("caller", &text);
    }
    let next = if is_waiting {
        "this recording has no page events, so nothing was replayed. Record without --contended to see what \
         settings would change. docs/administrators.md has other remedies"
    } else {
        "this recording has no page events, so the time of the calls themselves is unknown"
    };
    out + &context.line("next", next)
}

/// Renders the advice from a trace with calls.
pub fn text(
    context: &Context<'_>,
    settings: &Settings,
    advice: &Advice,
    comparison: &Comparison,
    host: &HostInfo,
) -> String {
    let load = &advice.load;
    let mut out = context.verdict(&verdict(advice, context.waits));
    out += &context.waiting(load);
    if let (Some(calling), Some(leaving)) = (load.calling, load.leaving) {
        let text = format!(
            "replayed here, the calls of the allocator take {} of the time of {}; {} of them leave the CPU's list",
            percent(calling),
            cpus(u64::from(advice.cpus)),
            percent(leaving),
        );
        out += &context.line("calls", &text);
    }
    out += &context.line(
        "reclaim",
        "unknown: a trace has no events of reclaim and compaction. If `allocstall_*` and `compact_stall` in \
         /proc/vmstat grow, see docs/administrators.md",
    );
    out.push('\n');
    out += &effects(context, settings, advice);
    out.push('\n');
    if let Verdict::Set(fraction) = advice.verdict {
        out += &format!("  sysctl -w {SYSCTL}={fraction}\n\n");
    }
    out += &context.line("replay", &dealt(comparison));
    if context.machine.is_none() {
        out += &context.line(
            "machine",
            "the trace does not state its machine, so a common one is assumed. Lists of other machines have other \
             lengths",
        );
    }
    out += &context.line("kernel", &kernel(context, settings.age));
    out += &context.line("not modelled", &not_modelled(context.machine));
    if host.was_busy() {
        out += &context.line(
            "busy",
            "other programs were running, so times are less certain. Counts are exact",
        );
    }
    out
}

/// Says the answer in a sentence or two.
fn verdict(advice: &Advice, waits: Option<&LockWaits>) -> String {
    match advice.verdict {
        Verdict::NotTheProblem => {
            let calling = percent(LEAST_CALLING);
            match advice.load.waiting {
                Some(_) => format!(
                    "The page allocator is not the problem{}: its calls take less than {calling} of the CPUs' time, \
                     and waits for its locks less than {}.",
                    if waits.is_some_and(is_lower_bound) {
                        ", as far as this kernel reports waits"
                    } else {
                        ""
                    },
                    percent(LEAST_WAITING)
                ),
                None => format!(
                    "The page allocator is not the problem, as far as a trace without waits shows: its calls take less \
                     than {calling} of the CPUs' time."
                ),
            }
        }
        Verdict::NothingToGain => {
            format!(
                "Nothing to gain: no other value of {SYSCTL} saves enough acquisitions of the zone's lock."
            )
        }
        Verdict::Set(fraction) => {
            let find = |wanted| {
                advice
                    .effects
                    .iter()
                    .find(|own| own.setting.fraction == wanted)
            };
            let (now, own) = (advice.effects.first(), find(fraction));
            let saved = now.zip(own).map_or(0.0, |(now, own)| {
                1.0 - own.acquisitions as f64 / now.acquisitions.max(1) as f64
            });
            let time = own.and_then(|own| own.ratio).map_or("", |ratio| {
                if ratio.is_undecided() {
                    " The time of a call is within noise: it can only help where CPUs wait for each other, which was \
                     not replayed."
                } else {
                    " The mean call is faster in each round."
                }
            });
            format!(
                "{SYSCTL}={fraction} saves {} of the acquisitions of the zone's lock.{time}",
                percent(saved)
            )
        }
    }
}

/// Renders the table of the settings.
fn effects(context: &Context<'_>, settings: &Settings, advice: &Advice) -> String {
    let now = settings.list.first().map(|own| own.fraction);
    let names: Vec<String> = advice
        .effects
        .iter()
        .map(|own| name(&own.setting, now))
        .collect();
    let texts = |text: &dyn Fn(&everybuddy_measure::advise::Effect) -> String| {
        advice.effects.iter().map(text).collect::<Vec<_>>()
    };
    let rate = |events: u64| count(advice.per_second(events).round() as u64);
    let marks = texts(&|own| match own.setting.high {
        [low, high] if low == high => count(u64::from(high)),
        [low, high] => format!("{} to {}", count(u64::from(low)), count(u64::from(high))),
    });
    let ratios = texts(&|own| match own.ratio {
        None => "1".to_string(),
        Some(ratio) => format!(
            "{:.2} ({:.2} to {:.2})",
            ratio.median, ratio.least, ratio.most
        ),
    });
    let idle = texts(&|own| {
        let mib = (own.idle_frames << PAGE_SHIFT) as f64 / f64::from(1 << 20);
        format!("{mib:.1}")
    });
    #[rustfmt::skip]
    let columns = [
        plain("high", ["high mark", "frames"], marks),
        plain("latency", ["mean call", "vs. now"], ratios),
        plain("locks", ["zone's lock", "per s"], texts(&|own| rate(own.acquisitions))),
        plain("refills", ["refills and", "drains per s"], texts(&|own| rate(own.moves))),
        plain("buffered", ["idle in lists", "at most, MiB"], idle),
    ];
    table::words(&names, &columns, &context.style)
}

/// Names a setting.
fn name(setting: &Setting, now: Option<u32>) -> String {
    let is_now = now == Some(setting.fraction);
    let default = if setting.fraction == 0 {
        ", default"
    } else {
        ""
    };
    let present = if is_now { ", now" } else { "" };
    format!("{}{default}{present}", setting.fraction)
}

/// Says what the kernel of the trace does, as far as the table depends on it.
fn kernel(context: &Context<'_>, age: Age) -> String {
    let version = context.machine.map_or("", |machine| &machine.kernel);
    let version = shown(version);
    match age {
        Age::Tuned => format!(
            "Linux {version} tunes the lengths of its lists itself, between both high marks, as long as the setting is \
             0. Every other value ends that. In the replay the lists never become shorter again, and in Linux idle \
             ones do, so what another value would gain may not show"
        ),
        Age::Unknown => {
            "its version is unknown. Linux from 6.7 on is assumed, whose lists tune their lengths"
                .to_string()
        }
        Age::Fixed => format!(
            "Linux {version} has lists of a fixed length, which the replay gives its lists. The refills of the replay \
             grow like those of Linux 6.7, so it shows fewer of them"
        ),
        Age::WithoutSetting => format!(
            "Linux {version} does not have this setting, which came with 5.14, and the older \
             vm.percpu_pagelist_fraction is not replayed. docs/administrators.md has other remedies"
        ),
    }
}

/// Says what no number here contains, and what the machine's settings say about it.
fn not_modelled(machine: Option<&Machine>) -> String {
    let of = |name: &str, key: &str| {
        let value = machine.and_then(|machine| machine.setting(key));
        match value {
            Some(value) => format!("{name} ({key}={})", shown(value)),
            None => name.to_string(),
        }
    };
    format!(
        "what Linux executes around its lists, so calls are too short; {}, {}, {} and reclaim. Longer lists keep pages \
         that these need: they leave fewer whole blocks, and less free memory above the watermarks. CPUs that wait for \
         each other are not replayed: `everybuddy simulate --trace` predicts that",
        of("watermarks", "min_free_kbytes"),
        of("transparent huge pages", "transparent_hugepage/enabled"),
        of("compaction", "compaction_proactiveness"),
    )
}

/// Returns a share as text.
fn percent(share: f64) -> String {
    let share = share * 100.0;
    if share > 0.0 && share < 0.0005 {
        return "less than 0.001%".to_string();
    }
    let digits = if share == 0.0 || share >= 1.0 { 0 } else { 3 };
    format!("{share:.digits$}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_are_not_rounded_to_nothing() {
        let all = [0.0, 1e-9, 0.000_04, 0.009_97, 0.01, 0.256, 1.0].map(percent);
        assert_eq!(
            all,
            [
                "0%",
                "less than 0.001%",
                "0.004%",
                "0.997%",
                "1%",
                "26%",
                "100%"
            ]
        );
    }

    #[test]
    fn settings_of_the_machine_are_named_without_numbers_of_their_effect() {
        let machine = Machine {
            settings: vec![(
                "transparent_hugepage/enabled".to_string(),
                "madvise".to_string(),
            )],
            ..Machine::default()
        };
        let text = not_modelled(Some(&machine));
        assert!(text.contains("huge pages (transparent_hugepage/enabled=madvise), compaction and"));
        assert!(not_modelled(None).contains("; watermarks, transparent huge pages, compaction"));
    }
}
