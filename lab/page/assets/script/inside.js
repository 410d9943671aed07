// Internal counters: requests served by the lists, locks, waiting.

figures.lists = {
  panels: {
    service: (view) =>
      perSystem(
        shownOf(view.trace),
        (system) => percentOf(system.service_ratio),
        (value) => `${short(value)} %`,
        { title: "% of the requested frames" },
      ),
    miss: (view) =>
      perSystem(
        shownOf(view.trace),
        (system) => percentOf(system.miss_rate),
        (value) => `${short(value)} %`,
        { log: true, title: "% of order-0 calls" },
      ),
  },
  rows: (view) => ({
    head: ["system", "service ratio", "miss rate"],
    rows: shownOf(view.trace).map((system) => [system.name, system.service_ratio, system.miss_rate]),
  }),
};

const percentOf = (share) => (missing(share) ? null : share * 100);

figures.contention = {
  start: () => ({ rate: "contention_rate" }),
  controls: (view) =>
    view.trace.threads > 1
      ? [
          choice(
            "Waiting, of",
            [
              ["contention_rate", "all calls"],
              ["contention_rate_core", "visits to the zone layer"],
            ],
            "contention_rate",
            view.set("rate"),
          ),
        ]
      : [],
  panels: {
    locks: (view) =>
      perSystem(
        shownOf(view.trace),
        (system) => (missing(system.locks_per_call) ? null : system.locks_per_call * 1000),
        (value) => short(value),
        { log: true, title: "locks" },
      ),
    waits: (view) =>
      view.trace.threads > 1
        ? perSystem(
            shownOf(view.trace),
            (system) => percentOf(system[view.options.rate]),
            (value) => `${short(value)} %`,
            { title: view.options.rate === "contention_rate" ? "% of all calls" : "% of visits to the zone layer" },
          )
        : { words: "This replay had one thread, so there was no contention." },
  },
  rows: (view) => ({
    head: [
      "system",
      "locks per call",
      "contention rate",
      "contention rate of visits",
      "splits",
      "coalescings",
      "refused",
    ],
    rows: shownOf(view.trace).map((system) => [
      system.name,
      system.locks_per_call,
      system.contention_rate,
      system.contention_rate_core,
      system.splits,
      system.coalescings,
      system.refused,
    ]),
  }),
};
