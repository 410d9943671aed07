// Starts the page of a document.

function start() {
  themes();
  onChange(redraw);
  for (const { element } of views) watcher.observe(element);
  printing();
  resizing();
  document.documentElement.dataset.started = "";
  // Printing cannot wait, so all data is prefetched.
  whenIdle(() => Promise.all(views.map(bring)).catch(trouble));
}

if (typeof DecompressionStream === "function") start();
else
  trouble(
    new Error("this browser cannot decompress gzip (no DecompressionStream): use a browser from 2023 or later"),
  );
