// Figures of documents, drawn from plain data when they become visible.

const views = [...document.querySelectorAll("figure.fig")].map((element) => ({ element, figure: null }));

const watcher = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      const view = views.find((one) => one.element === target);
      if (isIntersecting && !view.element.dataset.drawn) bring(view).then(() => draw(view)).catch(trouble);
    }
  },
  { rootMargin: "600px" },
);

/** Fetches the data of a view. */
async function bring(view) {
  const { parcel } = view.element.dataset;
  const data = once(`read ${parcel}`, async () => (await inflated(parcel)).json());
  [view.figure] = await Promise.all([data, library()]);
}

function draw(view) {
  const { element, figure } = view;
  element.querySelector(".key").replaceChildren(...keys(figure));
  element.querySelectorAll(".panel").forEach((panel, at) => {
    chart(panel.querySelector(".plot"), drawingOf(figure.panels[at], widthOf(panel.querySelector(".plot"))));
  });
  element.dataset.drawn = "yes";
}

/** Draws the legend. A ring belongs to the line of the same name, if there is one. */
function keys({ legend }) {
  const isOwn = ({ name, shape }) =>
    shape !== "ring" || !legend.some((other) => other.name === name && other.shape !== "ring");
  return legend.filter(isOwn).map(({ name, look, shape }) => make("li", {}, piece(lookAt(look), shape), name));
}

/** Converts a panel to a chart. */
function drawingOf(panel, width) {
  if (!panel.series.some((series) => series.points.length))
    return { words: "No data: there are no measurements." };
  return {
    data: panel.series.map((series) => traceOf(series, panel)),
    layout: {
      xaxis: { ...marked(panel.x, width - 70), title: panel.x.label },
      yaxis: { ...marked(panel.y, Infinity) },
      ...shaded(panel),
    },
    height: width < 420 ? 270 : 310,
  };
}

/** Chooses the tick marks of an axis: if marks would overlap, only every second, third ... */
function marked({ range, marks }, width) {
  const longest = Math.max(1, ...marks.map(([, text]) => text.length));
  // Names cannot be skipped, so they are slanted.
  const areNames = marks.some(([, text]) => /[a-z]{3}/i.test(text));
  const fitting = Math.max(2, Math.floor(width / (longest * 7 + 12)));
  const step = areNames ? 1 : Math.max(1, Math.ceil(marks.length / fitting));
  const kept = marks.filter((_, at) => at % step === 0);
  return {
    range,
    tickmode: "array",
    tickvals: kept.map(([at]) => at),
    ticktext: kept.map(([, text]) => plain(text)),
    tickangle: step === 1 && marks.length > fitting ? -35 : 0,
  };
}

/** Formats a position: the label of its mark, or a number. */
function said(axis, position) {
  const mark = axis.marks.find(([at]) => Math.abs(at - position) < 1e-9);
  if (mark) return mark[1];
  if (axis.base) return short(axis.base ** position);
  return axis.marks.some(([, text]) => /[a-z]{3}/i.test(text)) ? nearest(axis, position) : short(position);
}

const nearest = ({ marks }, position) =>
  marks.reduce((best, mark) => (Math.abs(mark[0] - position) < Math.abs(best[0] - position) ? mark : best))[1];

function traceOf({ name, look, shape, points, intervals, labels }, panel) {
  const { colour, dash, symbol } = lookAt(look);
  const lines = shape === "line" || shape === "interval";
  const marks = shape !== "line";
  const hasIntervals = marks && intervals.length === points.length;
  const isFilled = shape !== "ring";
  return {
    type: "scatter",
    mode: [lines && "lines", marks && "markers", labels.length && "text"].filter(Boolean).join("+"),
    name: plain(name),
    x: points.map(([x]) => x),
    y: points.map(([, y]) => y),
    text: points.map((_, at) => plain(labels[at] ?? "")),
    textposition: "top right",
    textfont: { size: 11, color: colour },
    hovertext: points.map(([x, y]) => `${plain(said(panel.x, x))}: ${plain(said(panel.y, y))}`),
    hovertemplate: `%{hovertext}<extra>${plain(name)}</extra>`,
    line: { color: colour, width: 1.9, dash },
    marker: isFilled
      ? { color: colour, symbol, size: 7.5 }
      : { color: colour, symbol: "circle-open-dot", size: 14, line: { width: 3 } },
    error_y: hasIntervals
      ? {
          type: "data",
          symmetric: false,
          array: intervals.map(([, most], at) => most - points[at][1]),
          arrayminus: intervals.map(([least], at) => points[at][1] - least),
          color: colour,
          thickness: 1,
          width: 3,
        }
      : undefined,
    cliponaxis: false,
  };
}

/** Shades a range with a different meaning. */
function shaded({ shade }) {
  if (!shade) return {};
  const [from, to, why] = shade;
  const colours = theme();
  const area = { type: "rect", layer: "below", line: { width: 0 }, fillcolor: colours.shade };
  const place = { xref: "x", x0: from, x1: to, yref: "paper", y0: 0, y1: 1 };
  const words = { text: plain(why), showarrow: false, font: { size: 11, color: colours.muted } };
  const corner = { xref: "x", x: from, xanchor: "left", yref: "paper", y: 1, yanchor: "top" };
  return { shapes: [{ ...area, ...place }], annotations: [{ ...words, ...corner }] };
}

/** Redraws all drawn figures after a change of colours or width. */
function redraw() {
  for (const view of views) if (view.figure) draw(view);
}

/** Prints all figures on white. Data that has not arrived is omitted, because printing cannot wait. */
function printing() {
  const root = document.documentElement;
  window.addEventListener("beforeprint", () => {
    root.setAttribute("data-printing", "");
    redraw();
  });
  window.addEventListener("afterprint", () => {
    root.removeAttribute("data-printing");
    redraw();
  });
}
