// When figures are drawn: when they come into sight, when what they show has changed, and before printing.

const views = [];

/** Makes the views of all figures; none is drawn yet. */
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

/** Draws a view after what it needs has arrived. */
async function bring(view) {
  view.isDue = false;
  try {
    await Promise.all([numbers(view.at), library()]);
    draw(view);
  } catch (error) {
    trouble(error);
  }
}

/** Draws a view now: its numbers and the library are there. */
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

/** What a line means, beside its chart: a picture of a figure alone can be read. */
const keyOf = (system) => make("li", {}, swatch(system.name), system.name);

/** Draws again what is in sight at once, what was drawn elsewhere in idle time, the rest when it comes into sight. */
function redraw() {
  for (const view of views) {
    view.isDue = true;
    delete view.element.dataset.drawn;
  }
  for (const view of views) if (view.inSight && view.options && !view.section.hidden) draw(view);
  whenIdle(redrawRest);
}

/** Draws one figure that is out of date, and comes back for the next. */
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

/** On paper all figures of the trace are there, on white. What has not arrived can't be waited for. */
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

/** Fetches early what printing would need. */
async function foresee() {
  const at = views.findIndex((view) => !view.section.hidden);
  if (at < 0) return;
  await Promise.all([numbers(views[at].at), library()]);
  const { moments } = ready.numbers.get(views[at].at);
  if (moments.length) await maps(views[at].at, Math.floor(moments.length / 2));
}
