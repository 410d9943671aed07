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
    new Error("this browser cannot decompress gzip (no DecompressionStream): use a browser from 2023 or later"),
  );
