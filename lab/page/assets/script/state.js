// The selection of systems, common to all figures of all traces.

const state = {
  /** All systems of all traces, without duplicates. */
  names: [],
  shown: new Set(),
  /** The section of the visible trace. */
  section: null,
  listeners: [],
};

const FLOOR = Number(document.body.dataset.floor) || 0;

/** Registers a callback for changes of the selection or the theme. */
const onChange = (listener) => state.listeners.push(listener);
const changed = () => state.listeners.forEach((listener) => listener());

function show(name, isShown) {
  if (isShown) state.shown.add(name);
  else state.shown.delete(name);
  changed();
}

function showOnly(names) {
  state.shown = new Set(names);
  changed();
}

/** Returns the selected systems of a trace, in the order of the table. */
const shownOf = (trace) => trace.systems.filter((system) => state.shown.has(system.name));

/** Returns the initial system of a list: the first preferred one that exists. */
function wished(trace, names, otherwise) {
  for (const name of names) {
    const at = trace.systems.findIndex((system) => system.name === name);
    if (at >= 0) return at;
  }
  return Math.min(otherwise, trace.systems.length - 1);
}
