// Colours, dashes and markers: systems never differ by colour alone.

// Okabe and Ito's colours without yellow, which is too pale on white, and adjusted to each ground: [light, dark].
const [INK, BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY] = [
  ["#33363c", "#e8e6e1"],
  ["#0072b2", "#4f93ee"],
  ["#d55e00", "#f07d2e"],
  ["#009e73", "#1fbf92"],
  ["#b8588c", "#e39ac4"],
  ["#c98500", "#f0b429"],
  ["#3a9bd6", "#a5dcff"],
];
const COLOURS = [INK, VERMILLION, GREEN, BLUE, ORANGE, PURPLE, SKY];
const DASHES = ["solid", "7px,3px", "2px,3px", "11px,3px,2px,3px"];
const SYMBOLS = [
  "circle",
  "square",
  "diamond",
  "triangle-up",
  "x",
  "triangle-down",
  "star",
  "cross",
  "circle-open",
  "square-open",
  "diamond-open",
  "triangle-up-open",
  "hexagon",
  "triangle-down-open",
  "star-open",
  "pentagon",
];
// Linux 6.12 as it is: its lists have locks.
const LINUX = "linux-6+percpu=locked";
// Selected by default if present: one system of each kind, and the lists without locks where Linux is missing.
const FIRST = ["everybuddy", "bs", "lbs-31", "lis-31", "spring", LINUX, "linux-6", "llfree"];

const looks = new Map();

/** Assigns a look to every system. The systems shown by default get the most distinct colours. */
function dress(names) {
  const first = firstShown(names);
  const ordered = [...first, ...names.filter((name) => !first.includes(name))];
  ordered.forEach((name, at) =>
    looks.set(name, {
      colour: COLOURS[at % COLOURS.length],
      dash: DASHES[Math.floor(at / COLOURS.length) % DASHES.length],
      symbol: SYMBOLS[at % SYMBOLS.length],
    }),
  );
}

function firstShown(names) {
  const isFirst = (name) => names.includes(name) && (name !== "linux-6" || !names.includes(LINUX));
  const known = FIRST.filter(isFirst);
  for (const name of names)
    if (known.length < Math.min(4, names.length) && !known.includes(name)) known.push(name);
  return known;
}

/** Returns a colour for the current theme. */
const onGround = (pair) => pair[isDark() ? 1 : 0];

/** Returns the line and marker of a system in the current theme. */
function look(name) {
  const { colour, dash, symbol } = looks.get(name);
  return { colour: onGround(colour), dash, symbol };
}

/** Returns the look with a given index, in the current theme. */
const lookAt = (at) => ({
  colour: onGround(COLOURS[at % COLOURS.length]),
  dash: DASHES[at % DASHES.length],
  symbol: SYMBOLS[at % SYMBOLS.length],
});

/** Draws the look next to a name. */
const swatch = (name) => piece(look(name));

/** Draws a line segment, a marker, or both, depending on the kind of series. */
function piece({ colour, dash, symbol }, kind = "interval") {
  const shape = {
    circle: "M14 6m-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0",
    square: "M11 3h6v6h-6z",
    diamond: "M14 2l4 4l-4 4l-4 -4z",
    "triangle-up": "M14 2.2l3.9 6.6h-7.8z",
    "triangle-down": "M14 9.8l3.9 -6.6h-7.8z",
    x: "M11 3l6 6M17 3l-6 6",
    cross: "M14 2v8M10 6h8",
    star: "M14 1.6l1.2 3h3.2l-2.5 2l1 3.2l-2.9 -1.9l-2.9 1.9l1 -3.2l-2.5 -2h3.2z",
    hexagon: "M12 2.6h4l2 3.4l-2 3.4h-4l-2 -3.4z",
    pentagon: "M14 2l4 3l-1.5 4.6h-5l-1.5 -4.6z",
  }[symbol.replace("-open", "")];
  const stroked = symbol.endsWith("-open") || symbol === "x" || symbol === "cross";
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 28 12");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "swatch");
  const path = (d, rest) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", "path");
    element.setAttribute("d", d);
    for (const [key, value] of Object.entries(rest)) element.setAttribute(key, value);
    svg.append(element);
  };
  const pattern = dash === "solid" ? "none" : dash.replaceAll("px", "");
  if (kind === "line" || kind === "interval") path("M0 6H28", { stroke: colour, "stroke-width": 2, "stroke-dasharray": pattern, fill: "none" });
  if (kind !== "line") path(shape, { stroke: colour, "stroke-width": 1.6, fill: stroked ? "var(--panel)" : colour });
  return svg;
}

const isPrinting = () => document.documentElement.hasAttribute("data-printing");

function isDark() {
  if (isPrinting()) return false;
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Returns the page's colours, resolved for a chart. */
function theme() {
  const probe = make("span", { hidden: true });
  document.body.append(probe);
  const resolved = {};
  for (const name of ["ink", "muted", "line", "panel", "shade", "accent", "empty", "listed"]) {
    probe.style.color = `var(--${name})`;
    resolved[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return resolved;
}
