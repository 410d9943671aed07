// Runs every script to its end on every system, reads from the page what it shows, and replaces the page by that, one
// state a line: ci/play.sh compares it with what sessions say natively. What is wrong is a line that begins with `fault`.

const faults = [];
addEventListener("error", (event) => faults.push(event.message));
addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));

// Reads the state of a system from its part of the page.
function read(stage) {
  const pieces = [];
  for (const piece of stage.querySelectorAll(".piece")) {
    const [start, count] = piece.dataset.frames.split(" ").map(Number);
    const use = piece.dataset.use.trim();
    const last = pieces.at(-1);
    // Rectangles of one piece follow each other; only the first has the start of the piece.
    if (last && piece.dataset.rest) last.count += count;
    else pieces.push({ start, count, use });
  }
  const texts = (key) => [...stage.querySelectorAll(`[data-${key}]`)].map((chip) => chip.dataset[key]);
  const all = pieces.map(({ start, count, use }) => `${start}+${count} ${use}`);
  return [stage.querySelector(".why").dataset.why, all.join(","), texts("list").join(","), texts("cpu").join(",")].join("|");
}

function fault(test, what) {
  if (!test) faults.push(what);
}

function press(key) {
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}

// Every key, button and direction gives the same states as the script played forward.
function controls() {
  const stage = find("stage-left");
  restart("burst");
  const forward = [];
  for (let at = 0; at <= shown.lines.length; at++) forward.push((show(at), read(stage)));
  for (let at = shown.lines.length; at >= 0; at--) fault((go(at), read(stage) === forward[at]), `backward, step ${at}`);
  press("End");
  fault(read(stage) === forward.at(-1), "the key End");
  press("ArrowLeft");
  fault(read(stage) === forward.at(-2), "the left arrow");
  press("Home");
  press("ArrowRight");
  fault(read(stage) === forward[1], "the right arrow");
  find("slider").value = 7;
  find("slider").dispatchEvent(new Event("input"));
  fault(read(stage) === forward[7], "the slider");
  fault(find("stage-right").querySelector(".piece") !== null, "the second system");
  const held = stage.querySelectorAll("button.piece").length;
  stage.querySelector("button.piece").click();
  fault(stage.querySelectorAll("button.piece").length === held - 1, "a click on a block frees it");
  fault(shown.at === 8 && shown.lines.length === 8, "an own step replaces those behind it");
  document.querySelector('[data-do="a 2"]').click();
  fault(stage.querySelector(".why").textContent.includes("asks for a block of 4 frames"), "a button allocates");
  press("c");
  press("0");
  fault(stage.querySelector(".piece.cpu1") !== null, "the other CPU allocates");
  const kept = address();
  const state = read(stage);
  restart("delay-2");
  location.hash = kept;
  fromAddress();
  fault(read(stage) === state, "the address keeps own steps");
  press("r");
  fault(shown.lines.length === shown.script.steps.length, "the script as it was");
  press("s");
  fault(shown.script.name !== "burst", "the next script");
  for (const item of find("steps").children) fault(item.textContent.length > 10, "the text of a step");
  const width = document.documentElement;
  fault(width.scrollWidth <= width.clientWidth, `the page is ${width.scrollWidth} wide in ${width.clientWidth}`);
}

started.then(() => {
  const lines = [];
  for (const script of shown.catalogue.scripts) {
    for (const [system] of shown.catalogue.systems) {
      choose(script.name);
      pair(system);
      run();
      if (shown.runs[0].error) lines.push(`${script.name}|${system}|${shown.runs[0].error}`);
      for (let at = 0; at < shown.runs[0].states.length; at++) {
        show(at);
        lines.push(`${script.name}|${system}|${at}|${read(find("stage-left"))}`);
      }
    }
  }
  controls();
  fault(!find("main").hidden, "the page is hidden");
  // What would still change the page, after it is replaced.
  removeEventListener("hashchange", fromAddress);
  clearTimeout(shown.keeping);
  const text = [...lines, ...faults.map((what) => `fault: ${what}`), "checked"].join("\n");
  document.body.replaceChildren(element("pre", {}, `\n${text}\n`));
});
