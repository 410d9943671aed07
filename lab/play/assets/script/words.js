// Steps and states as text.

const plural = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;

function range(start, frames) {
  return frames === 1 ? `${start}` : `${start}–${start + frames - 1}`;
}

// One call of a step, in words.
function callWords(text) {
  const [kind, cpu, a, b] = text.trim().split(/\s+/);
  const who = `CPU ${cpu}`;
  switch (kind) {
    case "a":
      return a === "0" ? `${who} allocates a frame` : `${who} allocates a block of ${1 << a} frames`;
    case "n":
      return `${who} allocates ${plural(+a, "frame")}`;
    case "@":
      return `${who} allocates ${b === "1" ? `frame ${a}` : `frames ${range(+a, +b)}`}`;
    case "f":
      return `${who} frees allocation #${a}`;
    case "d":
      return `${who} drains its list`;
    case "q":
      return `${who} drains all lists`;
    default:
      return `${who} runs service ${a}`;
  }
}

function stepWords(line) {
  const [first, second] = line.split("/");
  return second ? `${callWords(first)}; in the middle of that, ${callWords(second)}` : callWords(first);
}

// A state in words, for those who do not see the picture.
function stateWords(state) {
  const names = { free: "free", delayed: "free, delayed", dividing: "waits to be divided", linking: "waits to be linked" };
  const parts = state.pieces.map(([start, frames, , kind, who, cpu]) => {
    const what =
      kind === "allocated" ? `#${who}, CPU ${cpu}` : kind === "listed" ? `list of CPU ${who}` : names[kind] ?? kind;
    return `${range(start, frames)} ${what}`;
  });
  return parts.join("; ");
}
