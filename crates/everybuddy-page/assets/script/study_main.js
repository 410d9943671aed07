// Starts the page of experiments.

function start() {
  themes();
  onChange(redraw);
  for (const { element } of views) watcher.observe(element);
  printing();
  resizing();
  document.documentElement.dataset.started = "";
  // Printing can't wait: everything is fetched early.
  whenIdle(() => Promise.all(views.map(bring)).catch(trouble));
}

if (typeof DecompressionStream === "function") start();
else
  trouble(
    new Error("this browser can’t inflate gzip (it lacks DecompressionStream; any of 2023 or later has it)"),
  );
