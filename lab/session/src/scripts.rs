//! The scripts: the papers' walk-throughs, and what allocators meet every day.
//!
//! # Invariants
//! Every line is a step, and every script works on every system: a system that has no such service, or no such block,
//! says so. The tests compare the walk-throughs with what the papers' text says.

use crate::step::Step;

/// A script.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// A short name, for addresses.
    pub name: &'static str,
    /// What a list of scripts calls it.
    pub title: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The frames of the memory.
    pub frames: u32,
    /// The order of the largest block.
    pub order: u8,
    /// The two systems that show it best.
    pub pair: [&'static str; 2],
    /// Steps that happened before.
    pub before: &'static [&'static str],
    /// The steps, each with a remark or nothing.
    pub steps: &'static [(&'static str, &'static str)],
    /// Further steps, one per line, from a trace: those of every 1,500th block of up to order 3. ci/play.sh writes
    /// them.
    pub recorded: &'static str,
}

impl Script {
    /// Returns the steps that happened before.
    pub fn before(&self) -> impl Iterator<Item = Step> + use<> {
        self.before.iter().filter_map(|line| Step::parse(line))
    }

    /// Returns the lines of the steps that are shown, each with a remark or nothing.
    pub fn lines(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        let recorded = self.recorded.lines().map(|line| (line, ""));
        self.steps.iter().copied().chain(recorded)
    }

    /// Returns the steps that are shown.
    pub fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        self.lines().filter_map(|(line, _)| Step::parse(line))
    }
}

/// \[iBuddy\]'s figure 5: of 16 frames, 0 to 7, 8, 9 and 11 are free. Slot n held frame n. They are freed from the last
/// one on, so that with iBuddy the first frame of a group represents it.
const FIGURE_5: &[&str] = &[
    "@ 0 0 1", "@ 0 1 1", "@ 0 2 1", "@ 0 3 1", "@ 0 4 1", "@ 0 5 1", "@ 0 6 1", "@ 0 7 1",
    "@ 0 8 1", "@ 0 9 1", "@ 0 10 1", "@ 0 11 1", "@ 0 12 1", "@ 0 13 1", "@ 0 14 1", "@ 0 15 1",
    "f 0 11", "f 0 9", "f 0 8", "f 0 7", "f 0 6", "f 0 5", "f 0 4", "f 0 3", "f 0 2", "f 0 1",
    "f 0 0", "q 0",
];

/// All scripts.
pub const SCRIPTS: &[Script] = &[
    Script {
        name: "ibuddy-6",
        title: "iBuddy, figures 5 and 6: two frames are allocated",
        about: "The standard buddy searches upwards and splits. iBuddy stores each free frame on its own, searches \
                downwards and splits nothing.",
        frames: 16,
        order: 3,
        pair: ["bs", "is"],
        before: FIGURE_5,
        steps: &[
            (
                "a 0 0",
                "The standard buddy finds frame 11 at level 0. iBuddy finds frame 0 at level 3.",
            ),
            (
                "a 0 0",
                "The standard buddy splits the group of frames 8 and 9. iBuddy takes frame 4, now its highest.",
            ),
        ],
        recorded: "",
    },
    Script {
        name: "ibuddy-7",
        title: "iBuddy, figure 7: frame 10 is released",
        about: "The standard buddy coalesces frame 10 with 11, then with 8 and 9. iBuddy moves nothing but frame 10, \
                which ascends to level 2.",
        frames: 16,
        order: 3,
        pair: ["bs", "is"],
        before: FIGURE_5,
        steps: &[
            (
                "f 0 10",
                "Frame 11 is free, so is the group of 8 and 9; the group of 12 to 15 is not.",
            ),
            (
                "a 0 3",
                "A request for eight frames: iBuddy has to take each of frames 0 to 7 from its list (section 3.1.3).",
            ),
        ],
        recorded: "",
    },
    Script {
        name: "spring-5",
        title: "Spring Buddy, figure 5: the spring is extended",
        about: "Two CPUs call at the same moment, and one domain exists. The second CPU waits as a ghost, and gets a \
                part of the domain when the first one returns it. Other systems let it wait for their lock, or not \
                at all.",
        frames: 64,
        order: 3,
        pair: ["spring-core", "bs"],
        before: &[],
        steps: &[
            ("a 0 0", "The only domain serves CPU 0."),
            (
                "a 0 0 / a 1 0",
                "CPU 1 asks while CPU 0 holds the only domain: steps a to g of the figure.",
            ),
            (
                "a 0 0 / a 1 0",
                "Now each CPU has a domain, so neither waits.",
            ),
            (
                "f 1 0",
                "Frames go into any domain: CPU 1 frees what CPU 0 allocated, into its own.",
            ),
        ],
        recorded: "",
    },
    Script {
        name: "spring-6",
        title: "Spring Buddy, figure 6: the spring is compressed",
        about: "Two domains, and the halves of blocks lie in different ones. When a domain has long been idle, it is \
                merged with another one, and what was separate coalesces.",
        frames: 64,
        order: 3,
        pair: ["spring-core", "is"],
        before: &[
            "a 0 0",
            "a 0 0 / a 1 0",
            "f 1 0",
            "f 0 2",
            "f 1 1",
            "s 0 0",
            "s 0 0",
            "s 0 0",
            "s 0 0",
            "s 0 0",
            "s 0 0",
            "s 0 0",
        ],
        steps: &[
            (
                "s 0 0",
                "Steps a and b: an idle CPU looks for domains that were not in use. It has looked seven times before.",
            ),
            (
                "s 0 0",
                "Step c: the two domains are merged. No block has moved, so this takes no time.",
            ),
            (
                "s 0 0",
                "Step d: blocks of the former domain move, and coalesce beyond the former border.",
            ),
            (
                "s 0 0",
                "All frames are in blocks of the largest order again.",
            ),
            ("s 0 0", ""),
            ("s 0 0", "Steps e and f: one domain is left in the spring."),
        ],
        recorded: "",
    },
    Script {
        name: "spring-7",
        title: "Spring Buddy, figure 7: the lazy layer is extended",
        about: "A process releases its frames in a run. Spring Buddy predicts that the run goes on, and widens the \
                limit of the list; a list of fixed length drains again and again.",
        frames: 64,
        order: 4,
        pair: ["spring", "fixlazy-186"],
        before: &[
            "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0",
            "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0",
        ],
        steps: &[
            ("f 0 0", "The first frame of the run is placed in the list."),
            ("f 0 1", ""),
            ("f 0 2", ""),
            ("f 0 3", ""),
            ("f 0 4", ""),
            ("f 0 5", ""),
            ("f 0 6", ""),
            ("f 0 7", ""),
            ("f 0 8", ""),
            ("f 0 9", ""),
            ("f 0 10", ""),
            ("f 0 11", ""),
            ("f 0 12", ""),
            ("f 0 13", ""),
            ("f 0 14", ""),
            ("f 0 15", "The run ends here."),
            ("a 0 0", "The next request notices that the run has ended."),
        ],
        recorded: "",
    },
    Script {
        name: "delay-2",
        title: "Barkley and Lee, figure 2: a class of six blocks",
        about: "A free is local, and coalesces nothing, as long as the class has slack. When the slack is used up, a \
                free releases two blocks globally. The states are (locally free, globally free).",
        frames: 16,
        order: 3,
        pair: ["delay-2", "bs"],
        before: &["a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0"],
        steps: &[
            ("f 0 0", "(0, 0) to (1, 0): a local free."),
            ("f 0 2", "(1, 0) to (2, 0)."),
            ("f 0 4", "(2, 0) to (3, 0): the slack is used up."),
            (
                "f 0 1",
                "(3, 0) to (2, 2): the block and one more are freed globally.",
            ),
            (
                "a 0 0",
                "(2, 2) to (1, 2): a locally free block serves, and nothing has to be split.",
            ),
            ("a 0 0", "(1, 2) to (0, 2)."),
            ("a 0 0", "(0, 2) to (0, 1): now a globally free one."),
            ("f 0 3", "(0, 1) to (1, 1): there is slack again."),
        ],
        recorded: "",
    },
    Script {
        name: "serewa-1",
        title: "Serewa, figure 1: dividing and linking are separate",
        about: "A request removes one block and leaves the rest to the dividing service. A free is an entry in the \
                queue of the linking service.",
        frames: 64,
        order: 5,
        pair: ["serewa", "bs"],
        before: &[],
        steps: &[
            (
                "n 0 5",
                "5 frames of a block of 8: the 3 others are not lost, they wait.",
            ),
            ("s 1 0", "Dividing files a piece."),
            ("s 1 0", ""),
            ("s 1 0", ""),
            ("n 0 3", ""),
            ("f 0 0", "The freed frames wait to be linked."),
            ("f 0 1", ""),
            ("s 1 1", "Linking merges an area with its neighbours."),
            ("s 1 1", ""),
            ("s 1 1", ""),
            ("s 1 0", ""),
            ("s 1 1", ""),
        ],
        recorded: "",
    },
    Script {
        name: "burst",
        title: "A burst",
        about: "A CPU allocates ten frames and frees them. A list makes most of these calls without the lock.",
        frames: 64,
        order: 4,
        pair: ["bs", "lbs-31"],
        before: &[],
        steps: &[
            ("a 0 0", "The first request fills the list."),
            ("a 0 0", ""),
            ("a 0 0", ""),
            ("a 0 0", ""),
            ("a 0 0", ""),
            ("a 0 0", ""),
            ("a 0 0", ""),
            ("a 0 0", ""),
            ("a 0 0", ""),
            ("a 0 0", ""),
            ("f 0 9", "Now all of them return."),
            ("f 0 8", ""),
            ("f 0 7", ""),
            ("f 0 6", ""),
            ("f 0 5", ""),
            ("f 0 4", ""),
            ("f 0 3", ""),
            ("f 0 2", ""),
            ("f 0 1", ""),
            (
                "f 0 0",
                "What stays in the list keeps its buddies from coalescing.",
            ),
            ("d 0", "The list is drained."),
        ],
        recorded: "",
    },
    Script {
        name: "handover",
        title: "A handover: one CPU allocates, another one frees",
        about: "Messages, pipes and network packets: frames move from a producer to a consumer. Lists fill at one end \
                and run dry at the other.",
        frames: 128,
        order: 5,
        pair: ["linux-6", "everybuddy"],
        before: &[],
        steps: &[
            ("a 0 0", "CPU 0 produces."),
            ("a 0 0", ""),
            ("a 0 0", ""),
            (
                "f 1 0",
                "CPU 1 consumes, and becomes the owner of the free frame, or returns it.",
            ),
            ("f 1 1", ""),
            ("f 1 2", ""),
            ("a 0 0", ""),
            ("a 0 0", ""),
            ("a 0 0", ""),
            ("f 1 3", ""),
            ("f 1 4", ""),
            ("f 1 5", ""),
            ("a 0 0", ""),
            ("a 0 0", ""),
            ("a 0 0", ""),
            ("f 1 6", ""),
            ("f 1 7", ""),
            ("f 1 8", ""),
            ("q 0", "All lists are drained."),
        ],
        recorded: "",
    },
    Script {
        name: "fragmentation",
        title: "Fragmentation, and its recovery",
        about: "Half of the memory is free, but no two free frames are buddies. When the others return, whatever can \
                coalesce does so.",
        frames: 16,
        order: 4,
        pair: ["bs", "lbs-31"],
        before: &[
            "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0",
            "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0",
        ],
        steps: &[
            ("f 0 0", "Every second frame is freed."),
            ("f 0 2", ""),
            ("f 0 4", ""),
            ("f 0 6", ""),
            ("f 0 8", ""),
            ("f 0 10", ""),
            ("f 0 12", ""),
            ("f 0 14", ""),
            (
                "a 0 1",
                "Eight frames are free, but is there a block of two?",
            ),
            ("f 0 1", "The others return."),
            ("f 0 3", ""),
            ("f 0 5", ""),
            ("f 0 7", ""),
            ("a 0 2", "A block of four frames."),
            ("f 0 9", ""),
            ("f 0 11", ""),
            ("f 0 13", ""),
            ("f 0 15", ""),
            ("a 0 3", "A block of eight frames."),
        ],
        recorded: "",
    },
    Script {
        name: "shortage",
        title: "What another CPU keeps",
        about: "CPU 0 has allocated all memory, and freed some of it. It keeps those frames for itself, until CPU 1 \
                finds nothing else.",
        frames: 16,
        order: 3,
        pair: ["lbs-31", "everybuddy"],
        before: &[
            "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0",
            "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0", "a 0 0",
        ],
        steps: &[
            ("f 0 0", ""),
            ("f 0 1", ""),
            ("f 0 2", ""),
            ("f 0 3", "Four frames are free. Which CPU has them?"),
            ("a 1 1", "CPU 1 asks for a block of two frames."),
            ("a 1 0", "And for a frame."),
            ("a 1 0", ""),
            ("a 1 0", "Nothing is left."),
        ],
        recorded: "",
    },
    Script {
        name: "sysbench",
        title: "A recorded program: sysbench with two threads",
        about: "Of the bundled trace sysbench_mt_cut, every 1,500th block, allocated and freed by the CPUs that did \
                so. One CPU allocates in a run, and the other one frees in a run.",
        frames: 64,
        order: 4,
        pair: ["linux-6", "everybuddy"],
        before: &[],
        steps: &[],
        recorded: include_str!("sysbench_mt_cut.txt"),
    },
];
