// One number per system or per class: bars, or dots where the scale is logarithmic.

/** Draws a bar per system, or dots if `log` is set, because a logarithmic axis has no zero for a bar to start from. */
function perSystem(systems, value, text, { log = false, title = "" } = {}) {
  const known = systems.filter((system) => !missing(value(system)));
  if (!known.length) return null;
  const values = known.map(value);
  const names = known.map((system) => plain(system.name));
  const colours = known.map((system) => look(system.name).colour);
  const height = 24 * known.length + 58;
  const margin = { l: 10, r: 20, t: 4, b: 40 };
  const yaxis = {
    type: "category",
    categoryorder: "array",
    categoryarray: [...names].reverse(),
    showgrid: false,
    tickfont: { size: 12, color: theme().ink },
    ticksuffix: " ",
  };
  const both = {
    y: names,
    text: values.map(text),
    hovertemplate: "%{y}: %{text}<extra></extra>",
    cliponaxis: false,
  };
  if (!log) {
    const least = Math.min(0, ...values);
    const most = Math.max(0, ...values);
    const room = (most - least || 1) * 0.24;
    const data = [
      {
        ...both,
        type: "bar",
        orientation: "h",
        x: values,
        marker: { color: colours },
        textposition: "outside",
        textfont: { color: theme().ink },
      },
    ];
    const range = [least < 0 ? least - room : 0, most + room];
    return { data, height, layout: { margin, bargap: 0.35, yaxis, xaxis: { title, range, nticks: 6 } } };
  }
  const positive = values.filter((v) => v > 0);
  const low = positive.length ? Math.min(...positive) / 2 : 0.5;
  const high = positive.length ? Math.max(...positive) : 1;
  const x = values.map((v) => Math.max(v, low));
  const data = [
    {
      ...both,
      type: "scatter",
      mode: "markers+text",
      x,
      text: values.map((v) => `  ${text(v)}`),
      textposition: "middle right",
      textfont: { color: theme().ink },
      marker: { color: colours, size: 10, symbol: known.map((system) => look(system.name).symbol) },
    },
  ];
  const shapes = known.map((system, at) => ({
    type: "line",
    layer: "below",
    x0: low,
    x1: x[at],
    y0: names[at],
    y1: names[at],
    line: { color: colours[at], width: 2, dash: "dot" },
  }));
  const range = [Math.log10(low), Math.log10(high) + Math.max(0.35, Math.log10(high / low) * 0.24)];
  return {
    data,
    height,
    layout: {
      margin,
      shapes,
      yaxis,
      xaxis: { type: "log", title, range, tickmode: "array", ...decades(low, high) },
    },
  };
}

/** Tick marks at powers of ten, labelled as numbers. */
function decades(low, high) {
  const tickvals = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    tickvals.push(10 ** power);
  return {
    tickvals,
    ticktext: tickvals.map((value) => value.toLocaleString("en", { maximumFractionDigits: 6 })),
  };
}

/** Draws upright columns for classes; several lists are drawn side by side. */
function columns(classes, lists, text, yTitle, names = classes, xTitle = undefined) {
  if (!classes.length) return null;
  const colours = [BLUE, ORANGE].map(onGround);
  const data = lists.map(({ name, values }, at) => ({
    type: "bar",
    name,
    x: classes,
    y: values,
    text: values.map((value, i) => `${names[i]}: ${text(value)}`),
    textposition: "none",
    cliponaxis: false,
    marker: {
      color: colours[at],
      pattern: {
        shape: at ? "/" : "",
        bgcolor: colours[at],
        fgcolor: theme().panel,
        size: 7,
        solidity: 0.25,
      },
    },
    hovertemplate: `%{text}<extra>${name || ""}</extra>`,
  }));
  const layout = {
    bargap: 0.25,
    hovermode: "closest",
    xaxis: { type: "category", showgrid: false, title: xTitle },
    yaxis: { title: yTitle, rangemode: "tozero" },
  };
  if (lists.length > 1) {
    layout.showlegend = true;
    layout.legend = { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom" };
    layout.margin = { l: 54, r: 14, t: 30, b: 42 };
  }
  return { data, layout, height: 260 };
}
