// Statistics of the trace.

/** Formats bin edges such as half-decades, as `1 ms`. */
const binName = (bins, at) => `≤ ${time(Number(bins[at].upper.toPrecision(1)))}`;

figures.demand = {
  panels: {
    live(view) {
      const { live } = view.trace.statistics;
      if (!live.length) return null;
      const colour = onGround(BLUE);
      const y = live.map((sample) => sample.frames / 256);
      const data = [
        {
          type: "scatter",
          mode: "lines",
          x: live.map((sample) => sample.time_ns / 1e9),
          y,
          fill: "tozeroy",
          fillcolor: `${colour}30`,
          line: { color: colour, width: 1.8 },
          text: live.map((sample) => `${memory(sample.frames)} after ${time(sample.time_ns)}`),
          hovertemplate: "%{text}<extra></extra>",
        },
      ];
      return {
        data,
        height: 260,
        layout: { xaxis: { title: "seconds" }, yaxis: { title: "MiB in use", rangemode: "tozero" } },
      };
    },
    orders(view) {
      const { orders } = view.trace.statistics;
      return columns(
        orders.map((one) => String(one.order)),
        [
          { name: "of allocations", values: orders.map((one) => one.allocation_share * 100) },
          { name: "of frames", values: orders.map((one) => one.frame_share * 100) },
        ],
        (value) => `${short(value)} %`,
        "%",
        orders.map((one) => `order ${one.order}`),
        "order",
      );
    },
    lifetimes(view) {
      const bins = view.trace.statistics.lifetimes;
      const all = bins.reduce((sum, bin) => sum + bin.count, 0);
      if (!all) return null;
      return columns(
        bins.map((_, at) => binName(bins, at)),
        [{ values: bins.map((bin) => (bin.count / all) * 100) }],
        (value) => `${short(value)} %`,
        "% of frees",
      );
    },
    contexts(view) {
      const { contexts } = view.trace.statistics;
      const known = contexts.filter((one) => one.share > 0).sort((a, b) => b.share - a.share);
      if (!known.length) return null;
      const names = known.map((one) => plain(one.name));
      const data = [
        {
          type: "bar",
          orientation: "h",
          y: names,
          x: known.map((one) => one.share * 100),
          text: known.map((one) => percent(one.share)),
          textposition: "outside",
          cliponaxis: false,
          textfont: { color: theme().ink },
          marker: { color: onGround(BLUE) },
          hovertemplate: "%{y}: %{text}<extra></extra>",
        },
      ];
      return {
        data,
        height: 260,
        layout: {
          margin: { l: 10, r: 20, t: 8, b: 42 },
          bargap: 0.4,
          xaxis: { title: "% of allocations", range: [0, known[0].share * 124] },
          yaxis: {
            type: "category",
            showgrid: false,
            categoryarray: [...names].reverse(),
            categoryorder: "array",
            ticksuffix: " ",
            tickfont: { size: 12, color: theme().ink },
          },
        },
      };
    },
  },
  rows(view) {
    const { orders, live, lifetimes, contexts } = view.trace.statistics;
    return {
      head: ["what", "at", "value", "unit"],
      rows: [
        ...orders.flatMap((one) => [
          ["allocations of order", one.order, one.allocations, "allocations"],
          ["share of allocations of order", one.order, one.allocation_share, "1"],
          ["share of frames of order", one.order, one.frame_share, "1"],
        ]),
        ...live.map((sample) => ["frames in use at ns", sample.time_ns, sample.frames, "frames"]),
        ...lifetimes.map((bin) => ["lifetime up to ns", bin.upper, bin.count, "frees"]),
        ...contexts.map((one) => ["share of allocations", one.name, one.share, "1"]),
      ],
    };
  },
};

const RUNS = {
  "task-allocate": ["task_runs", 0],
  "task-free": ["task_runs", 1],
  "region-allocate": ["region_runs", 0],
  "region-free": ["region_runs", 1],
};

/** Lengths in powers of two: 1, 2–3, 4–7 ... */
const lengthName = (power) =>
  power === 0 ? "runs of 1" : `runs of ${count(2 ** power)} to ${count(2 ** (power + 1) - 1)}`;
const lengthMark = (power) =>
  power < 10 ? String(2 ** power) : power < 20 ? `${2 ** (power - 10)}K` : `${2 ** (power - 20)}M`;

figures.runs = {
  panels: Object.fromEntries(
    Object.entries(RUNS).map(([name, [kind, direction]]) => [
      name,
      (view) => {
        const { histogram } = view.trace.statistics[kind][direction];
        const all = histogram.reduce((sum, calls) => sum + calls, 0);
        if (!all) return null;
        const last = histogram.findLastIndex((calls) => calls > 0);
        const kept = histogram.slice(0, last + 1);
        const drawn = columns(
          kept.map((_, power) => lengthMark(power)),
          [{ values: kept.map((calls) => (calls / all) * 100) }],
          (value) => `${short(value)} %`,
          "% of calls",
          kept.map((_, power) => lengthName(power)),
          "calls in a run, from",
        );
        return { ...drawn, height: 230 };
      },
    ]),
  ),
  rows: (view) => ({
    head: ["runs", "operation", "length from", "calls"],
    rows: Object.entries(RUNS).flatMap(([name, [kind, direction]]) =>
      view.trace.statistics[kind][direction].histogram.map((calls, power) => [
        name.split("-")[0],
        DIRECTIONS[direction],
        2 ** power,
        calls,
      ]),
    ),
  }),
};
