// Free memory over the trace: large blocks, unusable memory, frames in lists.

/** Draws a line per system over the samples. */
function sampled(view, values, text, yaxis, { height = 300, shape = "linear" } = {}) {
  const systems = shownOf(view.trace).filter((system) => (values(system) || []).length);
  if (!systems.length) return null;
  const data = systems.map((system) => {
    const y = values(system);
    const x = system.samples.positions.map((position) => position * 100);
    return line(system, x, y, y.map(text), { line: { shape } });
  });
  return {
    data,
    height,
    layout: {
      hovermode: hoverFor(data),
      xaxis: { ...alongTrace, hoverformat: ".1f" },
      yaxis: { rangemode: "tozero", ...yaxis },
    },
  };
}

const samplesAsRows = (view, head, ...lists) => ({
  head: ["system", "position", ...head],
  rows: shownOf(view.trace).flatMap((system) =>
    system.samples.positions.map((position, at) => [
      system.name,
      position,
      ...lists.map((list) => (list(system) || [])[at]),
    ]),
  ),
});

figures.blocks = {
  hasLegend: true,
  panels: {
    blocks: (view) =>
      sampled(
        view,
        (system) => system.samples.large_blocks,
        count,
        { title: "free 4 MiB blocks" },
        { height: 340 },
      ),
  },
  rows: (view) =>
    samplesAsRows(
      view,
      ["free 4 MiB blocks", "free frames"],
      (system) => system.samples.large_blocks,
      (system) => system.samples.free_frames,
    ),
};

figures.unusable = {
  hasLegend: true,
  start: (trace) => ({ order: ordersOf(trace) - 1 }),
  controls(view) {
    const last = ordersOf(view.trace) - 1;
    const words = (order) => `order ${order}, ${memory(2 ** order)}`;
    return last > 0 ? [slider("Order", last, last, words, view.set("order")).control] : [];
  },
  panels: {
    unusable: (view) =>
      sampled(
        view,
        (system) => (system.samples.unusable[view.options.order] || []).map(percentOf),
        (value) => `${short(value)} %`,
        { title: "unusable", ticksuffix: " %", range: [0, 102] },
        { height: 320 },
      ),
  },
  rows: (view) =>
    samplesAsRows(
      view,
      [`unusable index, order ${view.options.order}`],
      (system) => system.samples.unusable[view.options.order],
    ),
};

const ordersOf = (trace) => Math.max(1, ...trace.systems.map((system) => system.samples.unusable.length));

figures.kept = {
  hasLegend: true,
  panels: {
    buffered: (view) => sampled(view, (system) => system.samples.buffered, count, { title: "frames" }),
    domains(view) {
      const most = Math.max(...shownOf(view.trace).flatMap((system) => system.samples.domains), 1);
      const yaxis =
        most > 20
          ? { type: "log", rangemode: "normal", ...decades(1, most), tickmode: "array" }
          : { dtick: most > 8 ? undefined : 1 };
      return sampled(
        view,
        (system) => system.samples.domains,
        count,
        { title: "domains", ...yaxis },
        { shape: "hv" },
      );
    },
    allocate: (view) =>
      perSystem(shownOf(view.trace), (system) => system.residual[0], short, { title: "frames, mean" }),
    free: (view) =>
      perSystem(shownOf(view.trace), (system) => system.residual[1], short, { title: "frames, mean" }),
  },
  rows: (view) =>
    samplesAsRows(
      view,
      ["frames in lists", "domains", "residual of allocations, mean", "residual of frees, mean"],
      (system) => system.samples.buffered,
      (system) => system.samples.domains,
      (system) => system.samples.positions.map(() => system.residual[0]),
      (system) => system.samples.positions.map(() => system.residual[1]),
    ),
};
