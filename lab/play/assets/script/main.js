// Buttons, keys and the address.

const find = (id) => document.getElementById(id);
const shown = { catalogue: null, script: null, lines: [], remarks: [], systems: [], runs: [], at: 0, timer: 0, keeping: 0 };
const NONE = "(none)";
const PACE = 1400;

// Runs the script again on both systems: the steps or the systems have changed.
function run() {
  shown.runs = shown.systems.map((system) => timeline(system, shown.script, shown.lines));
  find("slider").max = shown.lines.length;
  listSteps();
  show(Math.min(shown.at, shown.lines.length));
}

function choose(name) {
  const script = shown.catalogue.scripts.find((one) => one.name === name) ?? shown.catalogue.scripts[0];
  shown.script = script;
  shown.lines = script.steps.map(([line]) => line);
  shown.remarks = script.steps.map(([, remark]) => remark);
  shown.at = 0;
  find("script").value = script.name;
  find("about").textContent = script.about;
}

function pair(left, right) {
  find("left").value = left;
  find("right").value = right ?? NONE;
  shown.systems = [left, right].filter((name) => name && name !== NONE);
}

// Shows the state after step `at`.
function show(at) {
  shown.at = at;
  find("slider").value = at;
  find("slider").setAttribute("aria-valuetext", at ? stepWords(shown.lines[at - 1]) : "before the first step");
  find("count").textContent = `${at} / ${shown.lines.length}`;
  find("step").textContent = at ? `Step ${at}: ${stepWords(shown.lines[at - 1])}.` : "Before the first step.";
  const remark = at ? shown.remarks[at - 1] : "";
  find("remark").textContent = remark || (at < shown.lines.length ? `Next: ${stepWords(shown.lines[at])}.` : "");
  for (const [index, id] of ["stage-left", "stage-right"].entries()) {
    const stage = find(id);
    const one = shown.runs[index];
    stage.hidden = !one;
    if (!one) continue;
    const summary = shown.catalogue.systems.find(([name]) => name === one.system)?.[1] ?? "";
    drawStage(stage, one, summary, at, (slot) => own(`f ${cpu()} ${slot}`));
  }
  for (const id of ["first", "back"]) find(id).disabled = at === 0;
  for (const id of ["next", "last"]) find(id).disabled = at === shown.lines.length;
  listSlots();
  [...find("steps").children].forEach((item, index) => item.toggleAttribute("data-now", index === at));
  keepAddress();
}

function listSlots() {
  const held = new Set(shown.runs.flatMap((one) => (one.states[shown.at]?.slots ?? []).flatMap((slot, id) => (slot ? [id] : []))));
  const options = [...held].sort((a, b) => a - b).map((slot) => new Option(`#${slot}`, slot));
  find("slots").replaceChildren(...options);
  find("slots").disabled = find("free").disabled = options.length === 0;
}

function listSteps() {
  const items = [];
  for (let at = 0; at <= shown.lines.length; at++) {
    const item = element("li", { value: at }, element("p", {}, at ? `${stepWords(shown.lines[at - 1])}.` : "Before the first step."));
    for (const one of shown.runs) {
      const state = one.states[at];
      if (state) item.append(element("p", {}, element("code", {}, one.system), ` ${state.why} `, element("span", {}, `${stateWords(state)}.`)));
    }
    items.push(item);
  }
  find("steps").replaceChildren(...items);
}

const cpu = () => Number(document.querySelector("input[name=cpu]:checked").value);

// Makes a step of the reader's own after the one that is shown.
function own(line) {
  stop();
  const other = 1 - cpu();
  const whole = find("during").checked ? `a ${other} 0 / ${line}` : line;
  shown.lines = [...shown.lines.slice(0, shown.at), whole];
  shown.remarks = [...shown.remarks.slice(0, shown.at), ""];
  shown.at += 1;
  run();
}

function stop() {
  clearInterval(shown.timer);
  shown.timer = 0;
  find("play").textContent = "Play";
}

function play() {
  if (shown.timer) return stop();
  if (shown.at === shown.lines.length) show(0);
  find("play").textContent = "Stop";
  shown.timer = setInterval(() => {
    show(Math.min(shown.at + 1, shown.lines.length));
    if (shown.at === shown.lines.length) stop();
  }, PACE);
}

function go(at) {
  stop();
  show(Math.max(0, Math.min(at, shown.lines.length)));
}

// The address names what is shown, so it can be kept; the reader's own steps are a part of it.
function address() {
  const words = new URLSearchParams({ script: shown.script.name, systems: shown.systems.join(","), step: shown.at });
  const lines = shown.lines.join(";");
  if (lines !== shown.script.steps.map(([line]) => line).join(";")) words.set("steps", lines);
  return `#${words}`;
}

// Changes the address when nothing else happens: a browser refuses many changes in a short time.
function keepAddress() {
  clearTimeout(shown.keeping);
  shown.keeping = setTimeout(() => history.replaceState(null, "", address()), 250);
}

function fromAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  choose(words.get("script"));
  const known = new Set(shown.catalogue.systems.map(([name]) => name));
  const systems = (words.get("systems") ?? "").split(",").filter((name) => known.has(name));
  const [left, right] = systems.length ? systems : shown.script.pair;
  pair(left, right);
  const step = /^\s*[anfdqs@] [01](\s\d+){0,2}(\s*\/\s*[anfdqs@] [01](\s\d+){0,2})?$/;
  const lines = (words.get("steps") ?? "").split(";").filter((line) => step.test(line));
  if (lines.length) {
    shown.remarks = lines.map((line, at) => (line === shown.lines[at] ? shown.remarks[at] : ""));
    shown.lines = lines;
  }
  shown.at = Math.max(0, Number.parseInt(words.get("step") ?? "0", 10) || 0);
  if (words.get("theme")) document.documentElement.dataset.theme = words.get("theme");
  run();
}

function restart(name) {
  stop();
  choose(name);
  pair(...shown.script.pair);
  run();
}

function themes() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const is = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const words = () => (find("theme").textContent = is() ? "Light" : "Dark");
  find("theme").hidden = false;
  find("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = is() ? "light" : "dark";
    words();
  });
  words();
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, summary")) return;
  const free = () => find("slots").value !== "" && own(`f ${cpu()} ${find("slots").value}`);
  const scripts = shown.catalogue.scripts;
  const number = scripts.indexOf(shown.script);
  const actions = {
    ArrowLeft: () => go(shown.at - 1),
    ArrowRight: () => go(shown.at + 1),
    Home: () => go(0),
    End: () => go(shown.lines.length),
    " ": play,
    s: () => restart(scripts[(number + 1) % scripts.length].name),
    c: () => (document.querySelector(`input[name=cpu][value="${1 - cpu()}"]`).checked = true),
    f: free,
    d: () => own(`d ${cpu()}`),
    q: () => own(`q ${cpu()}`),
    v: () => own(`s ${cpu()} 0`),
    r: () => restart(shown.script.name),
    t: () => find("text").toggleAttribute("open"),
    m: () => find("theme").click(),
  };
  for (const order of "0123") actions[order] = () => own(`a ${cpu()} ${order}`);
  const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  const isButton = event.target.closest("button, input[type=checkbox]") && event.key === " ";
  if (!action || isButton) return;
  event.preventDefault();
  action();
}

async function main() {
  try {
    await startEngine();
  } catch (error) {
    find("notice").textContent = `The systems could not be started: ${error.message}`;
    find("notice").hidden = false;
    return;
  }
  shown.catalogue = ask("play_catalogue");
  find("script").replaceChildren(...shown.catalogue.scripts.map((one) => new Option(one.title, one.name)));
  const options = () => shown.catalogue.systems.map(([name]) => new Option(name, name));
  find("left").replaceChildren(...options());
  find("right").replaceChildren(new Option(NONE, NONE), ...options());
  fromAddress();
  themes();
  find("main").hidden = false;
  find("script").addEventListener("change", () => restart(find("script").value));
  for (const id of ["left", "right"]) {
    find(id).addEventListener("change", () => {
      pair(find("left").value, find("right").value);
      run();
    });
  }
  find("slider").addEventListener("input", () => go(Number(find("slider").value)));
  find("first").addEventListener("click", () => go(0));
  find("back").addEventListener("click", () => go(shown.at - 1));
  find("next").addEventListener("click", () => go(shown.at + 1));
  find("last").addEventListener("click", () => go(shown.lines.length));
  find("play").addEventListener("click", play);
  find("again").addEventListener("click", () => restart(shown.script.name));
  find("free").addEventListener("click", () => own(`f ${cpu()} ${find("slots").value}`));
  for (const button of document.querySelectorAll("[data-do]")) {
    const [kind, ...rest] = button.dataset.do.split(" ");
    button.addEventListener("click", () => own([kind, cpu(), ...rest].join(" ")));
  }
  addEventListener("keydown", keys);
  addEventListener("hashchange", fromAddress);
}

const started = main();
