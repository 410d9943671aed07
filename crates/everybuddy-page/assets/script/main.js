// Starts the page.

function start() {
  const names = [...document.querySelectorAll("tr[data-system]")].map((row) => row.dataset.system);
  state.names = [...new Set(names)];
  dress(state.names);
  state.shown = new Set(firstShown(state.names));
  document.querySelectorAll("table.systems").forEach(sortable);
  legend();
  themes();
  prepare();
  onChange(redraw);
  tabs();
  printing();
  resizing();
  document.documentElement.dataset.started = "";
  whenIdle(() => foresee().catch(trouble));
}

if (typeof DecompressionStream === "function") start();
else
  trouble(
    new Error("this browser can’t inflate gzip (it lacks DecompressionStream; any of 2023 or later has it)"),
  );
