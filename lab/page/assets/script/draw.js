// Draws figures when they become visible, when their data or options change, and before printing.

const views = [];

/** Creates the views of all figures without drawing them. */
function prepare() {
  [...document.querySelectorAll("section.trace")].forEach((section, at) => {
    for (const element of section.querySelectorAll("figure.fig")) {
      const key = element.dataset.figure;
      const view = { element, section, key, at, options: null, isDue: true, inSight: false };
      view.panel = (name) => element.querySelector(`[data-panel="${name}"]`);
      view.place = (name) => view.panel(name).querySelector(".plot");
      view.set = (name) => (value) => {
        view.options[name] = value;
        draw(view);
      };
      element.querySelector("details.data").addEventListener("toggle", () => view.trace && fillRows(view));
      views.push(view);
      watcher.observe(element);
    }
  });
}

const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      const view = views.find((one) => one.element === entry.target);
      view.inSight = entry.isIntersecting;
      if (view.inSight && view.isDue) bring(view);
    }
  },
  { rootMargin: "500px" },
);

/** Draws a view once its data is available. */
async function bring(view) {
  view.isDue = false;
  try {
    await Promise.all([numbers(view.at), library()]);
    draw(view);
  } catch (error) {
    trouble(error);
  }
}

/** Draws a view immediately: its data and the library are available. */
function draw(view) {
  const figure = figures[view.key];
  if (!view.options) {
    view.trace = ready.numbers.get(view.at);
    view.options = figure.start ? figure.start(view.trace) : {};
    const controls = figure.controls ? figure.controls(view) : [];
    view.element.querySelector(".controls").replaceChildren(...controls);
  }
  view.isDue = false;
  if (figure.draw) {
    figure
      .draw(view)
      .then(() => finish(view))
      .catch(trouble);
    return;
  }
  for (const [name, panel] of Object.entries(figure.panels)) chart(view.place(name), panel(view));
  if (figure.hasLegend) view.element.querySelector(".key").replaceChildren(...shownOf(view.trace).map(keyOf));
  finish(view);
}

function finish(view) {
  fillRows(view);
  view.element.dataset.drawn = "yes";
}

/** Draws the legend next to the chart, so that a screenshot of one figure is readable. */
const keyOf = (system) => make("li", {}, swatch(system.name), system.name);

/** Redraws visible figures immediately, other drawn figures in idle time, and the rest when they become visible. */
function redraw() {
  for (const view of views) {
    view.isDue = true;
    delete view.element.dataset.drawn;
  }
  for (const view of views) if (view.inSight && view.options && !view.section.hidden) draw(view);
  whenIdle(redrawRest);
}

/** Redraws one outdated figure and schedules the next. */
function redrawRest() {
  const view = views.find((one) => one.isDue && one.options && !one.section.hidden);
  if (!view) return;
  try {
    draw(view);
  } catch (error) {
    trouble(error);
    return;
  }
  whenIdle(redrawRest);
}

/** Prints all figures of the trace on white. Data that has not arrived is omitted, because printing cannot wait. */
function printing() {
  const root = document.documentElement;
  window.addEventListener("beforeprint", () => {
    root.setAttribute("data-printing", "");
    for (const view of views) {
      const isReady = ready.library && ready.numbers.has(view.at);
      if (!view.section.hidden && isReady) draw(view);
    }
  });
  window.addEventListener("afterprint", () => {
    root.removeAttribute("data-printing");
    redraw();
  });
}

/** Prefetches the data that printing needs. */
async function foresee() {
  const at = views.findIndex((view) => !view.section.hidden);
  if (at < 0) return;
  await Promise.all([numbers(views[at].at), library()]);
  const { moments } = ready.numbers.get(views[at].at);
  if (moments.length) await maps(views[at].at, Math.floor(moments.length / 2));
}
