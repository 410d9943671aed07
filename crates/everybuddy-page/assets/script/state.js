// What is shown: one choice of systems for all figures of all traces.

const state = {
  /** All systems of all traces, each once. */
  names: [],
  shown: new Set(),
  /** The section of the trace that is in front. */
  section: null,
  listeners: [],
};

const FLOOR = Number(document.body.dataset.floor) || 0;

/** Calls back when what is shown, or how, has changed. */
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

/** The systems of a trace that are shown, in the order of the table. */
const shownOf = (trace) => trace.systems.filter((system) => state.shown.has(system.name));

/** The system to begin with in a list of all: the first of the wished that exists. */
function wished(trace, names, otherwise) {
  for (const name of names) {
    const at = trace.systems.findIndex((system) => system.name === name);
    if (at >= 0) return at;
  }
  return Math.min(otherwise, trace.systems.length - 1);
}
