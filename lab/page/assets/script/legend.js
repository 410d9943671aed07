// The legend of all figures: a button per system, usable with mouse and keyboard.

function legend() {
  const place = document.getElementById("chips");
  if (!place) return;
  const chips = new Map(
    state.names.map((name) => [
      name,
      make("button", {
        type: "button",
        class: "chip",
        onclick: () => show(name, !state.shown.has(name)),
      }),
    ]),
  );
  const all = make(
    "button",
    { type: "button", class: "chip plain-chip", onclick: () => showOnly(state.names) },
    "all",
  );
  const none = make(
    "button",
    { type: "button", class: "chip plain-chip", onclick: () => showOnly([]) },
    "none",
  );
  const few = make(
    "button",
    { type: "button", class: "chip plain-chip", onclick: () => showOnly(firstShown(state.names)) },
    "a few",
  );
  place.append(...chips.values(), all, none, few);
  const folder = document.getElementById("legend");
  folder.hidden = false;
  folder.open = innerWidth >= 900;
  const tableRows = [...document.querySelectorAll("tr[data-system] > th")];

  const paint = () => {
    for (const [name, chip] of chips) {
      chip.setAttribute("aria-pressed", String(state.shown.has(name)));
      chip.replaceChildren(swatch(name), name);
    }
    for (const cell of tableRows) {
      const name = cell.parentElement.dataset.system;
      cell.replaceChildren(swatch(name), name);
      cell.classList.toggle("off", !state.shown.has(name));
    }
    document.getElementById("legend-count").textContent =
      `${state.shown.size} of ${state.names.length} shown`;
  };
  onChange(paint);
}
