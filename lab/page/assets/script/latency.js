// Latency of calls: the distribution, over the trace, and call by call.

const figures = {};
const DIRECTIONS = ["allocate", "free"];

/** Returns, for each bin of a histogram, the share of calls in it or the share of calls above its upper edge. */
function shares(histogram, isAbove) {
  const all = histogram.reduce((sum, bin) => sum + bin.count, 0);
  let passed = 0;
  return histogram.map((bin) => {
    passed += bin.count;
    return all ? (isAbove ? all - passed : bin.count) / all : 0;
  });
}

figures.latency = {
  hasLegend: true,
  start: () => ({ isAbove: true }),
  controls: (view) => [
    choice(
      "Show",
      [
        [true, "longer than"],
        [false, "share in each bin"],
      ],
      true,
      view.set("isAbove"),
    ),
  ],
  panels: Object.fromEntries(
    DIRECTIONS.map((name, direction) => [
      name,
      (view) => {
        const systems = shownOf(view.trace).filter((system) => system.latency[direction].histogram.length);
        if (!systems.length) return null;
        const { isAbove } = view.options;
        let most = FLOOR || 10;
        let least = 1;
        const data = systems.map((system) => {
          const { histogram } = system.latency[direction];
          const found = shares(histogram, isAbove);
          // A step covers its whole bin, so its point is halfway between the edges.
          const half =
            isAbove || histogram.length < 2 ? 1 : Math.sqrt(histogram[1].upper / histogram[0].upper);
          const x = histogram.map((bin) => bin.upper / half);
          // Empty bins are drawn below the visible range, where the curve ends.
          const y = found.map((share) => (share > 0 ? share * 100 : isAbove ? null : 1e-9));
          histogram.forEach((bin) => {
            if (bin.count) most = Math.max(most, bin.upper);
          });
          least = Math.min(least, ...found.filter((share) => share > 0));
          const text = found.map(
            (share, at) =>
              `${percent(share) || "0 %"} ${isAbove ? "above" : "up to"} ${time(histogram[at].upper)}`,
          );
          return line(system, x, y, text, { line: { shape: isAbove ? "linear" : "hvh" } });
        });
        const low = (FLOOR || 1) / 2;
        return {
          data,
          layout: {
            hovermode: "closest",
            ...floorShade("x", low),
            xaxis: {
              ...timeMarks(),
              title: "time of a call",
              range: [Math.log10(low), Math.log10(most) + 0.1],
            },
            yaxis: {
              type: "log",
              title: isAbove ? "calls above this time" : "calls in the bin",
              ...shareMarks(),
              range: [Math.log10(least * 70), 2.1],
            },
          },
        };
      },
    ]),
  ),
  rows: (view) => ({
    head: ["system", "operation", "bin up to ns", "calls"],
    rows: shownOf(view.trace).flatMap((system) =>
      system.latency.flatMap((latency, direction) =>
        latency.histogram.map((bin) => [system.name, DIRECTIONS[direction], bin.upper, bin.count]),
      ),
    ),
  }),
};

function shareMarks() {
  const tickvals = [100, 10, 1, 0.1, 0.01, 0.001, 0.0001];
  return { tickmode: "array", tickvals, ticktext: tickvals.map((value) => `${value} %`) };
}

const STATISTICS = [
  ["p50", "median"],
  ["p99", "p99"],
  ["max", "longest"],
];

figures.pace = {
  hasLegend: true,
  start: () => ({ direction: 0, statistic: "p99" }),
  controls: (view) => [
    choice(
      "Calls",
      [
        [0, "allocations"],
        [1, "frees"],
      ],
      0,
      view.set("direction"),
    ),
    choice("Statistic", STATISTICS, "p99", view.set("statistic")),
  ],
  panels: {
    over(view) {
      const { direction, statistic } = view.options;
      const of = (system) => system.latency[direction].over_trace[statistic];
      const systems = shownOf(view.trace).filter((system) => of(system).length);
      if (!systems.length) return null;
      const data = systems.map((system) => {
        const values = of(system);
        const x = values.map((_, at) => ((at + 0.5) / values.length) * 100);
        return line(
          system,
          x,
          values.map((ns) => (missing(ns) ? null : Math.max(ns, FLOOR || 1))),
          values.map((ns) => seen(ns, FLOOR)),
          { line: { width: 1.4 } },
        );
      });
      const low = (FLOOR || 1) / 1.8;
      const most = Math.max(...data.flatMap((one) => one.y.filter((y) => y !== null)), FLOOR * 3);
      return {
        data,
        height: 320,
        layout: {
          hovermode: hoverFor(data),
          ...floorShade("y", low),
          xaxis: { ...alongTrace, hoverformat: ".1f" },
          yaxis: { ...timeMarks(), range: [Math.log10(low), Math.log10(most) + 0.1] },
        },
      };
    },
  },
  rows: (view) => ({
    head: ["system", "operation", "section", "median ns", "p99 ns", "maximum ns"],
    rows: shownOf(view.trace).flatMap((system) =>
      system.latency.flatMap(({ over_trace: over }, direction) =>
        over.p50.map((p50, at) => [
          system.name,
          DIRECTIONS[direction],
          at + 1,
          p50,
          over.p99[at],
          over.max[at],
        ]),
      ),
    ),
  }),
};

/** Creates one side of a comparison, with a list to select its system. */
const side = (view, name, wishes, otherwise) => {
  const start = wished(view.trace, wishes, otherwise);
  view.options[name] = start;
  const names = view.trace.systems.map((system) => system.name);
  return selection(name === "left" ? "System" : "Compare with", names, start, view.set(name));
};

figures.window = {
  start: () => ({ direction: 0 }),
  controls(view) {
    view.panel("left").prepend(side(view, "left", ["lbs-31", "lis-31", "fixlazy-744"], 0));
    view.panel("right").prepend(side(view, "right", ["everybuddy", "spring", "linux-6"], 1));
    const recorded = (direction) =>
      view.trace.systems.some((system) => system.latency[direction].window.ns.length);
    return recorded(0) && recorded(1)
      ? [
          choice(
            "Calls",
            [
              [0, "allocations"],
              [1, "frees"],
            ],
            0,
            view.set("direction"),
          ),
        ]
      : [];
  },
  panels: Object.fromEntries(
    ["left", "right"].map((name) => [
      name,
      (view) => {
        const windowOf = (which) =>
          view.trace.systems[view.options[which]].latency[view.options.direction].window;
        const system = view.trace.systems[view.options[name]];
        const { ns, first } = windowOf(name);
        if (!ns.length) return null;
        const most = [...windowOf("left").ns, ...windowOf("right").ns].reduce(
          (a, b) => Math.max(a, b || 0),
          FLOOR * 10 || 100,
        );
        const low = (FLOOR || 1) / 1.8;
        const { colour } = look(system.name);
        const data = [
          {
            type: "scatter",
            mode: "markers",
            x: ns.map((_, at) => first + at),
            y: ns.map((one) => (missing(one) ? null : Math.max(one, FLOOR || 1))),
            text: ns.map((one) => seen(one, FLOOR)),
            marker: { color: colour, size: 5, opacity: 0.7 },
            hovertemplate: "call %{x:,}: %{text}<extra></extra>",
          },
        ];
        return {
          data,
          layout: {
            ...floorShade("y", low),
            xaxis: {
              title: `number of the ${view.options.direction ? "free" : "allocation"}`,
              tickformat: ",",
              nticks: 5,
            },
            yaxis: { ...timeMarks(), range: [Math.log10(low), Math.log10(most) + 0.1] },
          },
        };
      },
    ]),
  ),
  rows: (view) => ({
    head: ["system", "call", "ns"],
    rows: ["left", "right"].flatMap((name) => {
      const system = view.trace.systems[view.options[name]];
      const { ns, first } = system.latency[view.options.direction].window;
      return ns.map((one, at) => [system.name, first + at, one]);
    }),
  }),
};
