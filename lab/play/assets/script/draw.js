// The picture of a state: memory, lists, CPUs.

const COLUMNS = 16;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

// Divides a run of frames into rectangles: whole rows together, otherwise one for each row.
function rectangles(start, frames) {
  const found = [];
  let at = start;
  const end = start + frames;
  while (at < end) {
    const column = at % COLUMNS;
    const rows = column === 0 ? Math.floor((end - at) / COLUMNS) : 0;
    const count = rows > 0 ? rows * COLUMNS : Math.min(COLUMNS - column, end - at);
    found.push({ at, count, row: Math.floor(at / COLUMNS), column, rows: Math.max(rows, 1), columns: rows > 0 ? COLUMNS : count });
    at += count;
  }
  return found;
}

function place(box) {
  return `grid-row:${box.row + 1} / span ${box.rows};grid-column:${box.column + 2} / span ${box.columns}`;
}

// The classes and the words of a piece.
function pieceLooks([start, frames, part, kind, who, cpu], state) {
  const where = frames === 1 ? `frame ${start}` : `frames ${range(start, frames)}`;
  const many = state.domains > 1 && state.parts.length === 0;
  switch (kind) {
    case "allocated":
      return { look: `cpu${cpu}`, label: `#${who}`, words: `${where}: allocation ${who}, by CPU ${cpu}` };
    case "listed":
      return { look: `list${who}`, label: "", words: `${where}: free, in the list of CPU ${who}` };
    case "dividing":
      return { look: "waiting", label: "divide", words: `${where}: waits to be divided` };
    case "linking":
      return { look: "waiting", label: "link", words: `${where}: waits to be linked` };
    case "delayed":
      return { look: "delayed", label: "", words: `${where}: free, coalescing is delayed` };
    default: {
      const domain = many ? `, domain ${part}` : "";
      return { look: `free${many ? ` domain${part % 4}` : ""}`, label: many ? `D${part}` : "", words: `${where}: free${domain}` };
    }
  }
}

function drawMemory(state, before, after, onFree) {
  const grid = element("div", { class: "memory", role: "group", "aria-label": "Memory" });
  const frames = state.pieces.reduce((sum, piece) => sum + piece[1], 0);
  const owners = (part) => state.cpus.flatMap((cpu, id) => (cpu.parts.includes(part) ? [id] : []));
  state.parts.forEach(([start, count], part) => {
    const rows = Math.max(1, Math.ceil(count / COLUMNS));
    const own = owners(part);
    const text = own.length ? `CPU ${own.join(", ")}` : "";
    const bar = element("div", { class: `part ${own.length === 1 ? `of${own[0]}` : own.length ? "ofboth" : ""}` }, text);
    bar.title = `${state.word} ${part}: frames ${range(start, count)}${text ? `, ${text}` : ", no CPU"}`;
    bar.style.cssText = `grid-column:1;grid-row:${Math.floor(start / COLUMNS) + 1} / span ${rows}`;
    grid.append(bar);
  });
  for (const piece of state.pieces) {
    const [start, , , kind, who] = piece;
    const { look, label, words } = pieceLooks(piece, state);
    rectangles(start, piece[1]).forEach((box, index) => {
      const isHeld = kind === "allocated";
      const made = element(isHeld ? "button" : "div", {
        class: `piece ${look}`,
        title: isHeld ? `${words}. Click to free.` : words,
        "aria-label": isHeld ? `Free ${words}` : null,
        style: place(box),
      });
      if (isHeld) made.type = "button";
      made.dataset.frames = `${box.at} ${box.count}`;
      if (index > 0) made.dataset.rest = "yes";
      made.dataset.use = [kind, piece[2], who ?? "", piece[5] ?? ""].join(" ");
      made.append(element("small", {}, `${box.at}`));
      if (index === 0 && label) made.append(element("b", {}, label));
      if (isHeld) made.addEventListener("click", () => onFree(who));
      grid.append(made);
    });
  }
  const now = changes(before, state);
  const next = changes(state, after);
  for (let frame = 0; frame < frames; frame++) {
    for (const [set, look] of [[now, "now"], [next, "next"]]) {
      if (!set.has(frame)) continue;
      const box = { row: Math.floor(frame / COLUMNS), column: frame % COLUMNS, rows: 1, columns: 1 };
      grid.append(element("i", { class: `mark ${look}`, style: place(box), "aria-hidden": "true" }));
    }
  }
  return grid;
}

// The lists by order, the largest one first; or the numbers of free blocks, if the system has no lists.
function drawLists(state) {
  const table = element("table", { class: "lists" });
  const has = state.lists.length > 0 || state.pieces.every((piece) => piece[3] !== "free");
  table.append(element("caption", {}, has ? "Lists" : "Free blocks"));
  const orders = new Set([...state.lists.map((list) => list[1]), ...state.free.keys()]);
  const parts = new Set(state.lists.map((list) => list[0]));
  for (const order of [...orders].sort((a, b) => b - a)) {
    const row = element("tr", {}, element("th", { scope: "row" }, "2", element("sup", {}, `${order}`)));
    const cell = element("td");
    for (const [part, , heads, local] of state.lists.filter((list) => list[1] === order)) {
      if (parts.size > 1) cell.append(element("em", {}, state.parts.length ? `${state.word} ${part}` : `D${part}`));
      heads.forEach((head, at) => {
        const chip = element("span", { class: at < local ? "chip delayed" : "chip free" }, `${head}`);
        chip.dataset.list = `${part} ${order} ${head}${at < local ? " local" : ""}`;
        cell.append(chip);
      });
    }
    if (!has) cell.append(`${state.free[order] ?? 0}`);
    row.append(cell);
    table.append(row);
  }
  return table;
}

function drawCpus(state) {
  const table = element("table", { class: "cpus" });
  table.append(element("caption", {}, "CPUs"));
  state.cpus.forEach((cpu, id) => {
    const cell = element("td");
    for (const frame of cpu.list) {
      const chip = element("span", { class: `chip list${id}` }, `${frame}`);
      chip.dataset.cpu = `${id} ${frame}`;
      cell.append(chip);
    }
    if (cpu.parts.length) cell.append(element("em", {}, `${state.word} ${cpu.parts.join(", ")}`));
    if (!cell.childNodes.length) cell.append(element("em", {}, "keeps nothing"));
    table.append(element("tr", {}, element("th", { scope: "row", class: `cpu${id}` }, `${id}`), cell));
  });
  return table;
}

function drawClasses(state) {
  const table = element("table", { class: "classes" });
  table.append(element("caption", {}, "Classes"));
  const head = ["order", "blocks", "locally free", "globally free", "slack"];
  table.append(element("tr", {}, ...head.map((word) => element("th", { scope: "col" }, word))));
  for (const row of state.classes) table.append(element("tr", {}, ...row.map((number) => element("td", {}, `${number}`))));
  return table;
}

// Draws one system: its name, the sentence of the step, and the state.
function drawStage(stage, run, summary, at, onFree) {
  const state = run.states[at];
  const title = element("h2", {}, element("code", {}, run.system));
  if (!state) {
    stage.replaceChildren(title, element("p", { class: "why" }, run.error));
    return;
  }
  const why = element("p", { class: "why" }, state.why || "The state before the first step.");
  why.dataset.why = state.why;
  const side = element("div", { class: "side" }, drawLists(state), drawCpus(state));
  if (state.classes.length) side.append(drawClasses(state));
  stage.replaceChildren(
    element("div", { class: "name" }, title, element("p", {}, summary), element("p", { class: "options" }, run.options)),
    why,
    drawMemory(state, run.states[at - 1], run.states[at + 1], onFree),
    side,
  );
}
