// The memory map: two systems side by side at one moment, with a common cursor.

figures.map = {
  start: (trace) => ({
    mode: "owner",
    moment: Math.floor(trace.moments.length / 2),
    cursor: null,
  }),

  controls(view) {
    const { moments } = view.trace;
    if (!moments.length) return [];
    for (const [name, wishes, otherwise] of [
      ["left", ["lbs-31", "bs"], 0],
      ["right", ["everybuddy", "spring", "lis-31"], 1],
    ]) {
      view.panel(name).prepend(side(view, name, wishes, otherwise));
      furnish(view, name);
    }
    const last = moments.length - 1;
    const time = slider(
      "Moment",
      last,
      view.options.moment,
      (at) => `after ${short(moments[at] * 100)} % of the calls`,
      view.set("moment"),
    );
    view.legend = make("ul", { class: "owners" });
    view.element.querySelector(".panels").before(view.legend);
    const colour = choice(
      "Colour by",
      [
        ["owner", "owner"],
        ["order", "order of the block"],
        ["regions", "owners in its 2 MiB"],
      ],
      "owner",
      view.set("mode"),
    );
    return last > 0 ? [colour, time.control, playButton(time, last)] : [colour];
  },

  async draw(view) {
    if (!view.trace.moments.length) {
      for (const name of ["left", "right"]) chart(view.place(name), null);
      return;
    }
    const key = `${view.at}-${view.options.moment}`;
    const all = ready.maps.get(key) || (await maps(view.at, view.options.moment));
    // The slider has moved on in the meantime.
    if (key !== `${view.at}-${view.options.moment}`) return;
    view.orders = ordersIn(all);
    view.table = colouring(view.options.mode, Math.max(10, ...view.orders));
    explain(view);
    for (const name of ["left", "right"]) {
      const part = view.parts[name];
      part.frames = unfold(all[view.options[name]]);
      part.regions = all[view.options[name]].regions;
      part.shown = view.options.mode === "regions" ? sharing(part) : part.frames;
      part.lines = linesOf(part.frames);
      part.picture = pictured(part.shown, part.lines, view.table);
      const { free, listed, whole, rows } = summary(part.frames);
      const folded = part.lines.reduce((sum, line) => sum + (line.rows > 1 ? line.rows : 0), 0);
      part.summary.textContent = part.frames.length
        ? [
            `${count(whole)} of ${count(rows)} rows empty${folded ? `, ${count(folded)} of them folded into dashed lines` : ""}`,
            `${percent(free / part.frames.length)} free`,
            `${percent(listed / part.frames.length)} in lists`,
          ].join(" · ")
        : "No map was recorded for this system.";
      const system = view.trace.systems[view.options[name]].name;
      part.all.setAttribute(
        "aria-label",
        `Memory of ${system}, ${part.summary.textContent}. Arrow keys move from frame to frame and row to row.`,
      );
    }
    pointAt(view, view.options.cursor ?? firstMixed(view.parts.left.frames));
  },

  rows(view) {
    const head = ["system", "first frame", "frames", "owner", "order"];
    const all = ready.maps.get(`${view.at}-${view.options.moment}`);
    if (!all) return { head, rows: [] };
    return {
      head,
      rows: ["left", "right"].flatMap((name) => {
        const { values, lengths } = all[view.options[name]];
        let first = 0;
        return [...values].map((value, run) => {
          const row = [
            view.trace.systems[view.options[name]].name,
            first,
            lengths[run],
            ownerName(view, value & 15),
            value >> 4,
          ];
          first += lengths[run];
          return row;
        });
      }),
    };
  },
};

/** Inserts the canvases of one side and installs their event handlers. */
function furnish(view, name) {
  const all = make("canvas", {
    class: "memory",
    tabindex: 0,
    role: "application",
    "aria-roledescription": "memory map",
  });
  const enlarged = make("canvas", { class: "enlarged", "aria-hidden": "true" });
  const part = {
    all,
    enlarged,
    summary: make("p", { class: "summary" }),
    readout: make("p", { class: "readout", role: "status" }),
  };
  view.parts = { ...view.parts, [name]: part };
  view
    .place(name)
    .replaceChildren(
      part.summary,
      all,
      make("p", { class: "hint" }, "The row under the cursor, enlarged:"),
      enlarged,
      part.readout,
    );
  const frameUnder = (event) => {
    const box = all.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * ROW);
    const y = Math.max(0, event.clientY - box.top);
    const line = part.lines.findLast((own) => own.y <= y);
    const row = line.row + Math.min(line.rows - 1, Math.floor(((y - line.y) / line.high) * line.rows));
    return row * ROW + Math.min(ROW - 1, Math.max(0, column));
  };
  const follow = (event) => part.lines?.length && pointAt(view, frameUnder(event));
  all.addEventListener("pointermove", follow);
  all.addEventListener("pointerdown", follow);
  all.addEventListener("keydown", (event) => {
    const steps = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -ROW,
      ArrowDown: ROW,
      PageUp: -8 * ROW,
      PageDown: 8 * ROW,
      Home: -Infinity,
      End: Infinity,
    };
    if (!(event.key in steps) || !part.frames) return;
    event.preventDefault();
    pointAt(view, view.options.cursor + steps[event.key] * (event.shiftKey ? 16 : 1));
  });
}

const ownerName = (view, owner) =>
  owner === FREE
    ? "free"
    : owner === LISTED
      ? "cached in a list"
      : view.trace.owners[owner - 1] || `owner ${owner}`;

/** Moves the cursor on both sides. */
function pointAt(view, wanted) {
  const most = Math.max(...Object.values(view.parts).map((part) => part.frames.length)) - 1;
  const cursor = Math.max(0, Math.min(most, wanted));
  view.options.cursor = cursor;
  for (const part of Object.values(view.parts)) {
    const { all, enlarged, readout, frames, shown } = part;
    paintAll(all, part, cursor);
    if (cursor >= frames.length) continue;
    paintRow(enlarged, shown, view.table, cursor);
    const [owner, order] = [frames[cursor] & 15, frames[cursor] >> 4];
    const isKnown = owner !== LISTED && (owner !== FREE || order > 0);
    const block = isKnown ? `, ${owner === FREE ? "in a free block" : "block"} of order ${order}` : "";
    const place = `Frame ${count(cursor)} (row ${count(Math.floor(cursor / ROW))})`;
    const owners = part.regions[Math.floor(cursor / REGION)];
    const shared = owners ? `; owners in its 2 MiB: ${owners}` : "";
    readout.textContent = `${place}: ${ownerName(view, owner)}${block}${shared}`;
  }
}

/** Draws the colour legend. */
function explain(view) {
  const colour = (value) => `rgb(${view.table[value].join(",")})`;
  const item = (value, text) =>
    make("li", {}, make("span", { class: "patch", style: `background:${colour(value)}` }), text);
  const items = [item(FREE, "free"), item(LISTED, "cached in a CPU’s list")];
  if (view.options.mode === "owner")
    view.trace.owners.forEach((owner, at) => items.push(item(at + 1, owner)));
  else if (view.options.mode === "regions")
    SHARED.forEach(([, text], at) => items.push(item(at + 1, text)));
  else for (const order of view.orders) items.push(item(1 | (order << 4), `order ${order}`));
  view.legend.replaceChildren(...items);
}

/** Returns the orders of blocks in use, in increasing order. */
function ordersIn(all) {
  const found = new Set();
  for (const { values } of all)
    for (const value of values) if ((value & 15) !== FREE && (value & 15) !== LISTED) found.add(value >> 4);
  return [...found].sort((a, b) => a - b);
}

/** Plays the moments in order, up to the last. */
function playButton(time, last) {
  let running = null;
  const stop = () => {
    clearInterval(running);
    running = null;
    button.textContent = "▶ Play";
  };
  const button = make(
    "button",
    {
      type: "button",
      class: "play",
      onclick: () => {
        if (running) return stop();
        if (time.get() >= last) time.set(0);
        button.textContent = "■ Stop";
        running = setInterval(() => {
          time.set(time.get() + 1);
          if (time.get() >= last) stop();
        }, 900);
      },
    },
    "▶ Play",
  );
  return button;
}
