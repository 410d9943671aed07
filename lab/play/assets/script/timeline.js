// The states of one system during a list of steps: what the slider shows.

// Runs all steps. `lines` are the steps that are shown, `before` those that happened earlier.
function timeline(system, script, lines) {
  const opened = ask("play_open", `${system} ${script.frames} ${script.order}`);
  if (opened.error) return { system, options: "", error: opened.error, states: [] };
  const states = [opened.picture];
  for (const line of script.before) states[0] = ask("play_step", line, opened.number);
  states[0].why = "";
  for (const line of lines) states.push(ask("play_step", line, opened.number));
  engine.exports.play_close(opened.number);
  return { system, options: opened.options, error: "", states };
}

// The use of each frame, as one word: for comparing states, and for tests.
function uses(state) {
  const all = [];
  for (const [start, frames, part, kind, who, cpu] of state.pieces) {
    const word = [kind, part, who ?? "", cpu ?? ""].join(" ");
    for (let i = 0; i < frames; i++) all.push(`${word} ${kind === "listed" ? start + i : start}`);
  }
  return all;
}

// The frames whose use differs between two states.
function changes(from, to) {
  if (!from || !to) return new Set();
  const [a, b] = [uses(from), uses(to)];
  return new Set([...b.keys()].filter((frame) => a[frame] !== b[frame]));
}
