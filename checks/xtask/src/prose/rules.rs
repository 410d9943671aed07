//! The rules of plain English, each with sentences that break it and sentences that do not.
//!
//! # Invariants
//!
//! The examples of a rule are its test. A rule fires on each of its wrong examples and on none of the right ones, which
//! are the usual false positives and the corrected sentences.

/// A pattern that must not occur, and what to write instead.
pub(super) struct Rule {
    /// The name under which a fault is reported and counted.
    pub(super) name: &'static str,
    /// What to write instead.
    pub(super) advice: &'static str,
    /// The regular expression that finds it.
    pub(super) pattern: &'static str,
    /// A regular expression for matches that are correct after all; empty if there are none.
    pub(super) except: &'static str,
    /// Whether the rule holds for documents only, and not for source files.
    pub(super) documents_only: bool,
    /// Sentences that break the rule.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests read the examples"))]
    pub(super) wrong: &'static [&'static str],
    /// Sentences that do not.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests read the examples"))]
    pub(super) right: &'static [&'static str],
}

/// All rules, in the order in which faults of one line are reported.
pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "who-subject",
        advice: "give the verb a noun subject",
        pattern: r"(^|[.;:] |\(|, and |, but )[Ww]ho [a-z]+|\b[Ww]hoever\b|\b[Ww]homever\b",
        except: r"[Ww]ho (did|does|should)$",
        documents_only: false,
        wrong: &[
            "Who times nothing calls systems indirectly.",
            "The queue is full; who finds it full does the work.",
            "For whoever wants to change something here.",
        ],
        right: &[
            "Code that takes no timings calls systems indirectly.",
            "Readers who must choose a policy.",
            "Who should hold the lock?",
        ],
    },
    Rule {
        name: "who-object",
        advice: "name the reader, the caller or the CPU",
        pattern: r"\b([Ff]or|[Tt]o|[Bb]y|[Oo]f|than|[Uu]nless|[Ii]f|[Bb]ecause|[Ww]ith) who [a-z]+",
        except: r"of who (holds|owns)$",
        documents_only: false,
        wrong: &["For who has to choose when buddies are merged."],
        right: &[
            "For readers who must choose a policy.",
            "A ledger of who holds what.",
        ],
    },
    Rule {
        name: "person",
        advice: "write `no CPU`, `another thread`, `every caller`: CPUs and threads are not people",
        pattern: r"\b([Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body\b",
        except: "",
        documents_only: false,
        wrong: &["Nobody waits for a domain while holding one."],
        right: &["No CPU waits for a domain while it holds one."],
    },
    Rule {
        name: "is-no",
        advice: "negate the verb: `is not a ...`",
        pattern: concat!(
            r"\b([Tt]here |[Hh]ere )?((can|may|must|will|would|should|could) )?(is|are|was|were",
            r"|be) no [a-z]+"
        ),
        except: concat!(
            r"^[Tt]?[Hh]ere | no (longer|more|less|fewer|slower|faster|larger|smaller|better|worse",
            r"|other|different|doubt|use|need)$"
        ),
        documents_only: false,
        wrong: &[
            "A refused one is counted and is no block.",
            "Racing misuse is no undefined behaviour.",
        ],
        right: &[
            "A failed one is counted but creates no block.",
            "There is no lock.",
            "There can be no other holder.",
            "The list is no longer than the batch.",
        ],
    },
    Rule {
        name: "else-adverb",
        advice: "write `otherwise`",
        pattern: r"[;:] else\b|, else [a-z]+|\band else\b",
        except: r", else if$",
        documents_only: false,
        wrong: &[
            "With +high=N the bound; else a sixteenth of memory.",
            "If set, one; and else two.",
        ],
        right: &["Otherwise, 1/16 of memory.", "Nothing else holds it."],
    },
    Rule {
        name: "be-had",
        advice: "write `was available` or `was acquired`",
        pattern: r"\b(be|been|was|were|is|are) (not )?had\b",
        except: "",
        documents_only: false,
        wrong: &[
            "At least one lock was not had at once.",
            "The one that this CPU had last if it can be had.",
        ],
        right: &[
            "At least one lock was not acquired immediately.",
            "It has had two owners.",
        ],
    },
    Rule {
        name: "tells-whether",
        advice: "write `Returns `true` if ...`",
        pattern: r"(^|\. )Tells (whether|how|why)\b",
        except: "",
        documents_only: false,
        wrong: &["Tells whether the list is closed."],
        right: &["Returns `true` if the list is closed."],
    },
    Rule {
        name: "nothing-if",
        advice: "write `Returns `None` if ...`",
        pattern: concat!(
            r"; nothing (if|when|where|unless)\b|, or nothing (when|where|outside|if)\b",
            r"|\. Nothing (if|when)\b"
        ),
        except: "",
        documents_only: false,
        wrong: &[
            "Returns the first frame; nothing if the list is empty.",
            "Returns it. Nothing if there is none.",
        ],
        right: &[
            "Returns `None` if the list is empty.",
            "It frees nothing if the list is empty.",
        ],
    },
    Rule {
        name: "per-unit",
        advice: "write `per`: `bytes per frame`, `a lock per CPU`",
        pattern: concat!(
            r"\b(lists?|bytes?|locks?|records?|lines?|bits|batch|ns|instructions|cycles|operations",
            r"|frames|pairs?) an? (CPU|frame|class|thread|order|pair|call|block|row|space|system)\b"
        ),
        except: r"^frames a system$",
        documents_only: false,
        wrong: &["It needs 8.25 bytes a frame.", "One list a CPU."],
        right: &[
            "It needs 8.25 bytes per frame.",
            "The frames a system leaves idle.",
        ],
    },
    Rule {
        name: "so-many",
        advice: "name the number: `N frames`, `the given number of frames`",
        pattern: r"\b[Ss]o (many|much) [a-z]+",
        except: r"o (many|much) (as|that|more|less)$",
        documents_only: false,
        wrong: &[
            "Moves so many frames.",
            "After so much time it looks again.",
        ],
        right: &[
            "Moves the given number of frames.",
            "There are so many that the list overflows.",
        ],
    },
    Rule {
        name: "metaphor",
        advice: "name the mechanism: drain, be defined, fix",
        pattern: concat!(
            r"\b(brings?|brought|came|comes?|goes) home\b|\bstands? (here|there|once|beside)\b",
            r"|\bmend(s|ed)?\b"
        ),
        except: "",
        documents_only: false,
        wrong: &[
            "The lists are brought home.",
            "The rule stands here.",
            "`remnants=first` mends that.",
        ],
        right: &[
            "All lists are drained.",
            "The rule is defined here.",
            "The amended text.",
        ],
    },
    Rule {
        name: "calque",
        advice: "write `expensive`, `initially`, `finally`, `about 40`, `minus its`",
        pattern: concat!(
            r"\bdear(er|est)?\b|\b[Ii]n the (beginning|end)\b|\b[Ss]ome (\d|seconds\b|hundred\b",
            r"|ten\b|twenty\b)|, less (the|its|their) "
        ),
        except: "",
        documents_only: false,
        wrong: &[
            "A domain is dearer than a lock.",
            "It has the extent that it had in the end.",
            "A unit lasted some 40 µs.",
            "The total, less its own share.",
        ],
        right: &[
            "A domain is more expensive than a lock.",
            "It takes about 40 µs.",
            "Some systems refuse.",
        ],
    },
    Rule {
        name: "heading",
        advice: "name the content of the section with a noun",
        pattern: r"^#+ (What|Who|How|Where|When|Why)\b",
        except: "",
        documents_only: false,
        wrong: &["## How well it does", "# Who takes part"],
        right: &["## Accuracy", "How it works is explained below."],
    },
    Rule {
        name: "paper-number",
        advice: "cite by name: [iBuddy], [Porter], [Spring], [BL89], [Serewa], [LLFree], [NBBS]",
        pattern: r"\(00[0-4]\b|(^|[^\d.,])00[0-4]\)",
        except: "",
        documents_only: false,
        wrong: &["iBuddy (000) 3.1", "level (000), class (003)"],
        right: &[
            "[iBuddy] §3.1",
            "A frame number of 0x1000 (or more).",
            "The default (1,000) is high.",
        ],
    },
    Rule {
        name: "percent",
        advice: "write `4.7%` without a space",
        pattern: r"\d %",
        except: "",
        documents_only: true,
        wrong: &["It misses 4.7 % of the calls."],
        right: &["It misses 4.7% of the calls."],
    },
    Rule {
        name: "beside",
        advice: "write `next to`, `besides` or `compared with`",
        pattern: r"=?\b[Bb]eside[ .,;:]",
        except: "^=",
        documents_only: false,
        wrong: &["Two bits a frame beside the records."],
        right: &[
            "Two bits per frame, next to the records.",
            "lbs-31+line=beside",
        ],
    },
    Rule {
        name: "at-once",
        advice: "write `immediately`, `simultaneously` or `together`",
        pattern: r"\bat once\b",
        except: "",
        documents_only: false,
        wrong: &[
            "The lock was open at once.",
            "All of them are held at once.",
        ],
        right: &["The lock was acquired immediately.", "It looks once more."],
    },
    Rule {
        name: "makes",
        advice: "write `Creates`, `Builds` or `Returns`",
        pattern: r"(^|\. )Makes (a|an|the|it)\b",
        except: "",
        documents_only: false,
        wrong: &["Makes a trace of it."],
        right: &["Creates a trace.", "This makes a difference."],
    },
    Rule {
        name: "module-heads",
        advice: "write the headings Purpose, Invariants, Design decisions, Complexity, Source",
        pattern: concat!(
            r"^(Why it exists|Exists (because|so that|to)|Invariants?:$",
            r"|(Invariants?|Decides|Cost|Source): ?[A-Za-z\\\[(])"
        ),
        except: "",
        documents_only: false,
        wrong: &["Why it exists: a kernel needs frames before it has a heap."],
        right: &[
            "A kernel needs frames before it has a heap.",
            "No file exists because of it.",
            "Source: {}",
            "Source:",
        ],
    },
];
