//! What is explored: a system, its memory, and how far the search goes.
//!
//! # Invariants
//! A scope is one line of text: `SYSTEM frames=N [hole=F] [cpus=N] [regions] [bytes] [states=N]`.

use core::fmt;
use core::str::FromStr;

use everybuddy::{FrameRange, Pfn, SystemSpec};

/// A scope.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The system.
    pub(crate) spec: SystemSpec,
    /// Its memory.
    pub(crate) ranges: Vec<FrameRange>,
    /// Its CPUs, which one thread runs in turn.
    pub(crate) cpus: u16,
    /// Whether memory comes and goes.
    pub(crate) regions: bool,
    /// Whether states are the same only if their bytes are. Nothing is learned then, so steps cost less.
    pub(crate) bytes: bool,
    /// The most states.
    pub(crate) states: usize,
    /// How many random walks follow.
    pub(crate) walks: usize,
    /// The steps of each walk.
    pub(crate) length: usize,
    /// The most experiments that tell states apart.
    pub(crate) experiments: usize,
    /// From how many states pairs of operations are run at the same time; then no experiments are learned.
    pub(crate) pairs: usize,
    text: String,
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let name = words.next().ok_or("no system is named")?;
        let mut scope = Scope {
            spec: name.parse().map_err(|error| format!("{name}: {error}"))?,
            ranges: Vec::new(),
            cpus: 1,
            regions: false,
            bytes: false,
            states: 10_000_000,
            walks: 20,
            length: 200,
            experiments: 150,
            pairs: 0,
            text: text.to_owned(),
        };
        let (mut frames, mut hole) = (4, None);
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, "1"));
            let number: u64 = value.parse().map_err(|_| format!("{word}: not a number"))?;
            match key {
                "frames" => frames = number,
                "hole" => hole = Some(number),
                "cpus" => scope.cpus = number as u16,
                "regions" => scope.regions = true,
                "bytes" => scope.bytes = true,
                "states" => scope.states = number as usize,
                "pairs" => scope.pairs = number as usize,
                "walks" => scope.walks = number as usize,
                "experiments" => scope.experiments = number as usize,
                "length" => scope.length = number as usize,
                _ => return Err(format!("{word}: unknown")),
            }
        }
        scope.ranges = match hole {
            None => vec![FrameRange::new(Pfn(0), frames)],
            Some(hole) => {
                let after = FrameRange::new(Pfn(hole + 1), frames - hole - 1);
                vec![FrameRange::new(Pfn(0), hole), after]
            }
        };
        Ok(scope)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Scopes that close in a second or two, for the gate.
pub(crate) const GATE: &[&str] = &[
    "bs+order=2 frames=4 hole=2",
    "bs+order=2 frames=5 hole=2 regions states=400",
    "is+order=1+space=8KiB frames=4",
    "spring-core+order=2 frames=4",
    "delay-2+order=2 frames=4",
    "mobility+order=2 frames=4",
    "nbbs+order=2 frames=4",
    "llfree+order=2 frames=4 hole=1",
    "lbs-31+order=2+batch=1+high=2 frames=4",
    "serewa+order=2+queue=1 frames=4",
    "everybuddy+order=2 frames=4 states=100",
    "is+order=1+space=8KiB+shards=4 frames=6 cpus=2 states=200 pairs=1",
    "llfree+order=2 frames=4 cpus=2 pairs=3",
    "nbbs+order=2 frames=4 cpus=2 pairs=3",
    "lbs-31+order=2+batch=1+high=2 cpus=2 states=200 pairs=1",
];

/// All systems in four frames, with the smallest options.
pub(crate) const SYSTEMS: &[&str] = &[
    "bs+order=2",
    "lbs-1+order=2+high=2",
    "lbs-31+order=2+batch=1+high=2",
    "is+order=1+space=8KiB",
    "lis-1+order=1+space=8KiB+high=2",
    "lis-31+order=1+space=8KiB+batch=1+high=2",
    "fixlazy-186+order=2+batch=1+high=2",
    "fixlazy-372+order=2+batch=1+high=3",
    "fixlazy-744+order=2+batch=2+high=3",
    "spring+order=2+batch=1+high=2",
    "spring-core+order=2",
    "spring-fixlazy-186+order=2+batch=1+high=2",
    "spring-fixlazy-372+order=2+batch=1+high=3",
    "spring-fixlazy-744+order=2+batch=2+high=3",
    "watermark+order=2",
    "delay-2+order=2",
    "never+order=2",
    "serewa+order=2+queue=1",
    "linux-6+order=2",
    "zones-4+order=2",
    "pcp-buddy+order=2+batch=1+high=3",
    "llfree+order=2",
    "nbbs+order=2",
    "mobility+order=2",
    "magazines+order=2+batch=1",
    "everybuddy+order=2 bytes",
];

/// Every value of every option, once.
const OPTIONS: &[&str] = &[
    "delay-2+order=2+reclaim=on",
    "delay-2+order=2+reclaim=off",
    "delay-2+order=2+debt=on",
    "delay-2+order=2+debt=off",
    "watermark+order=2+lazy=0.25",
    "watermark+order=2+lazy=0.1+speedup=0.25",
    "magazines+order=2+batch=1+lock=queued",
    "spring+order=2+batch=1+high=2+predict=both+spread=1",
    "spring+order=2+batch=1+high=2+predict=widen",
    "spring+order=2+batch=1+high=2+predict=run",
    "spring+order=2+batch=1+high=2+predict=region",
    "spring+order=2+batch=1+high=2+predict=none",
    "lbs-31+order=2+batch=1+high=2+percpu=token",
    "lbs-31+order=2+batch=1+high=2+percpu=locked",
    "lbs-31+order=2+batch=2+high=2+hold=batch+drain=single",
    "lbs-31+order=2+batch=2+high=2+hold=iteration",
    "lbs-31+order=2+batch=2+high=2+lock=ticket+hold=when-contended",
    "lbs-31+order=2+batch=2+high=2+drain=merged",
    "bs+order=2+zone=one",
    "bs+order=1+zone=spaces+space=8KiB",
    "bs+order=2+zone=domains+idle=1",
    "bs+order=2+zone=domains+idle=1+spring=own",
    "bs+order=2+zone=domains+idle=1+spring=locked",
    "bs+order=1+zone=spaces+space=8KiB+select=used+exchange=any",
    "bs+order=1+zone=spaces+space=8KiB+select=fresh",
    "bs+order=1+zone=spaces+space=8KiB+exchange=single",
    "bs+order=1+zone=spaces+space=8KiB+exchange=never",
    "bs+order=1+zone=spaces+space=8KiB+shards=2",
    "bs+order=2+lock=spin+line=own",
    "bs+order=2+lock=ticket+line=beside",
    "bs+order=2+lock=queued",
    "serewa+order=2+queue=1+separate=on+manager=caller+remnants=wait+linking=eager",
    "serewa+order=2+separate=off",
    "serewa+order=2+queue=1+manager=thread",
    "serewa+order=2+queue=1+remnants=first",
    "serewa+order=2+queue=1+linking=idle",
    "serewa+order=2+queue=1+structure=list",
    "serewa+order=2+queue=1+structure=tree+division=on+sync=ring",
    "serewa+order=2+queue=1+structure=bitmap",
    "serewa+order=2+queue=1+division=off",
    "serewa+order=2+queue=1+sync=lock",
    "mobility+order=2+steal=linux",
    "mobility+order=2+steal=mixed",
    "linux-6+order=2+fraction=8",
    "llfree+order=2+tree=4MiB",
    "everybuddy+order=2+tree=256KiB bytes states=1000000",
];

/// More frames, holes, memory that comes and goes, and two CPUs that one thread runs in turn.
const LARGER: &[&str] = &[
    "bs+order=3 frames=8",
    "bs+order=3 frames=8 hole=5",
    "is+order=2+space=16KiB frames=8",
    "is+order=2+space=16KiB frames=8 hole=5",
    "spring-core+order=2 frames=6",
    "spring-core+order=3 frames=8 hole=5",
    "delay-2+order=2 frames=6",
    "delay-2+order=2 frames=6 hole=2",
    "nbbs+order=3 frames=8",
    "nbbs+order=3 frames=8 hole=5",
    "llfree+order=3 frames=12",
    "llfree+order=3 frames=12 hole=5",
    "everybuddy+order=3 frames=8 hole=5 bytes states=1000000",
    "bs+order=2 frames=4 regions",
    "bs+order=3 frames=6 regions states=200000",
    "is+order=1+space=8KiB frames=4 regions states=100000",
    "delay-2+order=2 frames=4 regions",
    "nbbs+order=2 frames=7 regions states=200000",
    "llfree+order=2 frames=7 regions states=200000",
    "mobility+order=2 frames=4 regions",
    "spring-core+order=2 frames=4 regions",
    "serewa+order=2+queue=1 frames=4 regions states=50000",
    "lbs-31+order=2+batch=1+high=2 frames=4 regions states=50000",
    "everybuddy+order=2 frames=4 regions bytes states=1000000",
    "bs+order=2 cpus=2",
    "is+order=1+space=8KiB cpus=2 states=50000",
    "spring-core+order=2+idle=1 cpus=2 states=50000",
    "delay-2+order=2 cpus=2",
    "nbbs+order=2 cpus=2",
    "llfree+order=2 cpus=2",
    "lbs-31+order=2+batch=1+high=2 cpus=2 states=50000",
    "magazines+order=2+batch=1 cpus=2 states=20000",
    "serewa+order=2+queue=1 cpus=2 states=20000",
    "everybuddy+order=2 cpus=2 bytes states=1000000",
];

/// Pairs of operations of two CPUs, from up to 200 states.
const PAIRS: &[&str] = &[
    "bs+order=2 cpus=2 pairs=200",
    "is+order=1+space=8KiB cpus=2 pairs=200",
    "is+order=1+space=8KiB+shards=4 frames=6 cpus=2 pairs=20",
    "is+order=1+space=8KiB+shards=4+exchange=single frames=6 cpus=2 pairs=20",
    "bs+order=1+zone=spaces+space=8KiB+shards=4 frames=6 cpus=2 pairs=20",
    "lis-1+order=1+space=8KiB+high=2+shards=4 frames=6 cpus=2 states=1000 pairs=20",
    "lis-31+order=1+space=8KiB+batch=1+high=2+shards=4 frames=6 cpus=2 states=1000 pairs=20",
    "lbs-31+order=2+batch=1+high=2 cpus=2 states=5000 pairs=200",
    "lbs-31+order=2+batch=1+high=2+percpu=locked cpus=2 states=5000 pairs=200",
    "spring-core+order=2+idle=1 cpus=2 states=5000 pairs=200",
    "spring+order=2+batch=1+high=2 cpus=2 states=5000 pairs=200",
    "delay-2+order=2 cpus=2 pairs=200",
    "serewa+order=2+queue=1 cpus=2 states=5000 pairs=200",
    "linux-6+order=2 cpus=2 states=5000 pairs=200",
    "pcp-buddy+order=2+batch=1+high=3 cpus=2 states=5000 pairs=200",
    "llfree+order=2 cpus=2 pairs=200",
    "nbbs+order=2 cpus=2 pairs=200",
    "mobility+order=2 cpus=2 pairs=200",
    "magazines+order=2+batch=1 cpus=2 states=5000 pairs=200",
    "everybuddy+order=2 cpus=2 states=5000 pairs=200",
];

/// All lists, by name.
pub(crate) const LISTS: &[(&str, &[&str])] = &[
    ("gate", GATE),
    ("systems", SYSTEMS),
    ("options", OPTIONS),
    ("larger", LARGER),
    ("pairs", PAIRS),
];

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy::systems::{OPTIONS as KEYS, ROWS};

    fn texts() -> impl Iterator<Item = &'static str> {
        LISTS.iter().flat_map(|(_, list)| list.iter().copied())
    }

    #[test]
    fn every_system_and_every_value_of_an_option_is_explored() {
        for text in texts() {
            let scope: Scope = text
                .parse()
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            let explorer = crate::search::Explorer::new(&scope);
            assert!(explorer.is_ok(), "{text}: {:?}", explorer.err());
        }
        let names: Vec<&str> = texts()
            .filter_map(|text| text.split(['+', ' ']).next())
            .collect();
        for row in ROWS {
            assert!(names.contains(&row.name), "{}", row.name);
        }
        let words: Vec<&str> = texts().flat_map(|text| text.split(['+', ' '])).collect();
        for option in KEYS
            .iter()
            .filter(|option| ROWS.iter().any(|row| row.takes(option.key)))
        {
            // Names of values stand between backticks.
            let values: Vec<&str> = option.values.split('`').skip(1).step_by(2).collect();
            for value in &values {
                assert!(
                    words.contains(&format!("{}={value}", option.key).as_str()),
                    "{} {value}",
                    option.key
                );
            }
            let is_there = words
                .iter()
                .any(|word| word.starts_with(&format!("{}=", option.key)));
            assert!(is_there, "{}", option.key);
        }
    }
}
