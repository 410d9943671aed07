// Events of the window: idle time, a new width, errors.

const whenIdle = (act) =>
  window.requestIdleCallback ? requestIdleCallback(act, { timeout: 2000 }) : setTimeout(act, 60);

function resizing() {
  let width = innerWidth;
  let due = null;
  window.addEventListener("resize", () => {
    if (innerWidth === width || isPrinting()) return;
    width = innerWidth;
    clearTimeout(due);
    due = setTimeout(redraw, 120);
  });
}

function trouble(error) {
  const place = document.getElementById("trouble");
  place.hidden = false;
  place.textContent = `The figures cannot be drawn: ${error.message}. The tables are complete.`;
  console.error(error);
}
