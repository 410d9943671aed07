// Shared by all charts: axes, type, colours, hover.

const CONFIG = { displayModeBar: false, displaylogo: false, doubleClick: "reset", showTips: false };

/** Draws into an element, or states there that there is nothing to draw. */
function chart(place, drawing) {
  if (!drawing || drawing.words) {
    if (place.data) Plotly.purge(place);
    const words = drawing ? drawing.words : "No data: no system is selected, or nothing was recorded.";
    place.replaceChildren(make("p", { class: "nothing" }, words));
    place.style.height = "";
    return;
  }
  if (!place.data) place.replaceChildren();
  const { data, layout, height = 300 } = drawing;
  const width = widthOf(place);
  place.style.height = `${height}px`;
  Plotly.react(place, data, { ...common(width, height), ...layout, ...axes(layout) }, CONFIG);
}

/** Paper is about 700 pixels wide, independent of the window. */
function widthOf(place) {
  if (!isPrinting()) return Math.max(240, place.clientWidth);
  return place.closest(".panel").classList.contains("full") ? 690 : 336;
}

function common(width, height) {
  const colours = theme();
  const font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: colours.ink };
  return {
    width,
    height,
    autosize: false,
    showlegend: false,
    margin: { l: 54, r: 14, t: 8, b: 42 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font,
    hovermode: "closest",
    hoverlabel: { bgcolor: colours.panel, bordercolor: colours.line, font },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
  };
}

function axes(layout) {
  const colours = theme();
  const isUnified = layout.hovermode === "x unified";
  const spike = {
    showspikes: true,
    spikethickness: 1,
    spikedash: "solid",
    spikecolor: colours.muted,
    spikemode: "across",
  };
  const axis = (own, name) => ({
    gridcolor: colours.line,
    linecolor: colours.muted,
    zeroline: false,
    showspikes: false,
    ...(isUnified && name === "xaxis" ? spike : {}),
    ticks: "",
    automargin: true,
    fixedrange: name === "yaxis",
    tickfont: { color: colours.muted, size: 11 },
    ...own,
    title:
      own && own.title
        ? { text: own.title, font: { size: 12, color: colours.muted }, standoff: 8 }
        : undefined,
  });
  return { xaxis: axis(layout.xaxis, "xaxis"), yaxis: axis(layout.yaxis, "yaxis") };
}

/** Draws a line for a system from lists of x and y values, with hover texts. */
function line(system, x, y, text, more = {}) {
  const { colour, dash, symbol } = look(system.name);
  return {
    type: "scatter",
    mode: "lines+markers",
    name: system.name,
    x,
    y,
    text,
    line: { color: colour, width: 1.8, dash, ...more.line },
    marker: { color: colour, symbol, size: 7, maxdisplayed: 7 },
    hovertemplate: `%{text}<extra>${plain(system.name)}</extra>`,
    connectgaps: false,
  };
}

/** Escapes a name for a chart, because the library interprets a few tags. */
const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("%{", "% {");

/** A common hover box suits a few lines; with many lines it would cover the chart. */
const hoverFor = (lines) => (lines.length <= 8 && innerWidth > 600 ? "x unified" : "closest");

const alongTrace = { title: "calls of the trace", ticksuffix: " %", range: [0, 100] };

/** Tick marks of a logarithmic time axis: 10 ns, 100 ns, 1 µs ... */
function timeMarks() {
  const values = Array.from({ length: 14 }, (_, power) => 10 ** power);
  return { type: "log", tickmode: "array", tickvals: values, ticktext: values.map(time) };
}

/** Shades times below the timer's resolution, along x or y. */
function floorShade(along, from) {
  if (!FLOOR) return {};
  const colours = theme();
  const across = along === "x" ? "y" : "x";
  const shape = {
    type: "rect",
    layer: "below",
    line: { width: 0 },
    fillcolor: colours.shade,
    [`${along}ref`]: along,
    [`${along}0`]: from,
    [`${along}1`]: FLOOR,
    [`${across}ref`]: "paper",
    [`${across}0`]: 0,
    [`${across}1`]: 1,
  };
  const label =
    along === "x"
      ? {
          x: (Math.log10(from) + Math.log10(FLOOR)) / 2,
          y: 0.5,
          xref: "x",
          yref: "paper",
          textangle: -90,
          xanchor: "center",
        }
      : { x: 0.99, y: Math.log10(FLOOR), xref: "paper", yref: "y", xanchor: "right", yanchor: "top" };
  return {
    shapes: [shape],
    annotations: [
      {
        ...label,
        text: "below the timer’s resolution",
        showarrow: false,
        font: { size: 11, color: colours.muted },
      },
    ],
  };
}
