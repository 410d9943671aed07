// Paints frames: memory as rows of 1,024, and a row enlarged.

const ROW = 1024;
const REGION = 512;
// From this number of adjacent empty rows on, they are one line.
const FOLD = 8;
const FREE = 0;
const LISTED = 15;
// Okabe and Ito's colours for owners; [on light, on dark]. The last owner is often "other".
const OWNER_COLOURS = [
  BLUE,
  VERMILLION,
  GREEN,
  PURPLE,
  ORANGE,
  SKY,
  ["#8a7b00", "#f0e442"],
  ["#777c85", "#8d939d"],
];
// Single frames are pale, the largest blocks are saturated, in both themes.
const ORDER_ENDS = [
  ["#e3cf7a", "#7b7b78", "#00224e"],
  ["#31446b", "#8f8a76", "#fee838"],
];

// From this number of owners of a region of 2 MiB on, and what it is called.
const SHARED = [
  [1, "one owner"],
  [2, "two owners"],
  [3, "three or four"],
  [5, "five or more"],
];

/** Expands runs to one byte per frame. */
function unfold({ values, lengths }) {
  const all = new Uint8Array(lengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  values.forEach((value, run) => all.fill(value, at, (at += lengths[run])));
  return all;
}

/** Replaces the owner of each frame in use by how many owners its region has: a position in SHARED, from 1. */
const sharing = ({ frames, regions }) =>
  frames.map((value, frame) => {
    if ((value & 15) === FREE || (value & 15) === LISTED) return value;
    const owners = regions[Math.floor(frame / REGION)];
    return Math.max(1, SHARED.filter(([least]) => least <= owners).length);
  });

const hex = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

function mixed(ends, part) {
  const place = Math.min(1, Math.max(0, part)) * (ends.length - 1);
  const lower = Math.min(ends.length - 2, Math.floor(place));
  const [a, b] = [hex(ends[lower]), hex(ends[lower + 1])];
  return a.map((value, at) => Math.round(value + (b[at] - value) * (place - lower)));
}

/** Resolves any CSS colour to red, green and blue. */
const channels = (colour) =>
  colour
    .match(/[\d.]+/g)
    .slice(0, 3)
    .map(Number);

/** Returns the colour of each value: owner + 16 * order. */
function colouring(mode, mostOrder) {
  const ground = theme();
  const dark = isDark() ? 1 : 0;
  const table = [];
  for (let value = 0; value < 256; value++) {
    const owner = value & 15;
    const order = value >> 4;
    if (owner === FREE) table.push(channels(ground.empty));
    else if (owner === LISTED) table.push(channels(ground.listed));
    else if (mode === "order") table.push(mixed(ORDER_ENDS[dark], order / Math.max(1, mostOrder)));
    else if (mode === "regions") table.push(mixed(ORDER_ENDS[dark], (owner - 1) / (SHARED.length - 1)));
    else table.push(hex(OWNER_COLOURS[(owner - 1) % OWNER_COLOURS.length][dark]));
  }
  return table;
}

/** Returns the lines of a picture: a row of memory each, or a fold of many rows that are empty. */
function linesOf(frames) {
  const rows = Math.ceil(frames.length / ROW);
  const isEmpty = (row) => frames.subarray(row * ROW, (row + 1) * ROW).every((value) => (value & 15) === FREE);
  const lines = [];
  for (let row = 0; row < rows; ) {
    let end = row;
    while (end < rows && isEmpty(end)) end += 1;
    if (end - row >= FOLD) {
      lines.push({ row, rows: end - row });
      row = end;
    } else for (end = Math.max(end, row + 1); row < end; row++) lines.push({ row, rows: 1 });
  }
  // A row has at most 14 pixels, and at least 3. A fold is a fixed strip.
  const high = Math.max(3, Math.min(14, Math.round(560 / lines.length)));
  let y = 0;
  for (const line of lines) {
    [line.y, line.high] = [y, line.rows > 1 ? 12 : high];
    y += line.high;
  }
  return lines;
}

/** Returns the line that has a row of memory. */
const lineOf = (lines, row) => lines.findLast((line) => line.row <= row);

/** Paints all frames: one pixel per frame horizontally, and a line in the background colour between rows. */
function pictured(frames, lines, table) {
  const ground = channels(theme().panel);
  const last = lines.at(-1);
  const image = new ImageData(ROW, last ? last.y + last.high : 1);
  const pixels = new Uint32Array(image.data.buffer);
  const packed = (colour) => (255 << 24) | (colour[2] << 16) | (colour[1] << 8) | colour[0];
  const packedTable = table.map(packed);
  const [panel, empty] = [packed(ground), packed(channels(theme().empty))];
  pixels.fill(panel);
  for (const { row, rows, y, high } of lines) {
    const first = row * ROW;
    // A fold is dashed: what it stands for is not drawn.
    const colourAt = (column) =>
      rows === 1 ? packedTable[frames[first + column]] : column % 32 < 20 ? empty : panel;
    const [from, to] = rows === 1 ? [y, y + high - 1] : [y + 3, y + high - 4];
    for (let column = 0; column < ROW && first + column < frames.length; column++) {
      const colour = colourAt(column);
      for (let at = from; at < to; at++) pixels[at * ROW + column] = colour;
    }
  }
  return image;
}

/** Shows an image, with a border around the row of the cursor. */
function paintAll(canvas, { frames, lines, picture }, cursor) {
  if (canvas.width !== picture.width || canvas.height !== picture.height) {
    canvas.width = picture.width;
    canvas.height = picture.height;
    canvas.style.height = `${picture.height}px`;
  }
  const context = canvas.getContext("2d");
  context.putImageData(picture, 0, 0);
  if (cursor < frames.length) {
    const { y, high } = lineOf(lines, Math.floor(cursor / ROW));
    context.strokeStyle = theme().ink;
    context.lineWidth = 2;
    context.strokeRect(1, y - 1, ROW - 2, high + 1);
  }
}

/** Paints one row as 16 lines of 64 frames, each a small square. */
function paintRow(canvas, frames, table, cursor) {
  const [across, lines, cell] = [64, 16, 16];
  canvas.width = across * cell;
  canvas.height = lines * cell;
  const context = canvas.getContext("2d");
  context.fillStyle = theme().panel;
  context.fillRect(0, 0, canvas.width, canvas.height);
  const first = Math.floor(cursor / ROW) * ROW;
  for (let at = 0; at < ROW && first + at < frames.length; at++) {
    context.fillStyle = `rgb(${table[frames[first + at]].join(",")})`;
    context.fillRect((at % across) * cell, Math.floor(at / across) * cell, cell - 2, cell - 2);
  }
  const at = cursor - first;
  context.strokeStyle = theme().ink;
  context.lineWidth = 4;
  context.strokeRect((at % across) * cell, Math.floor(at / across) * cell, cell - 2, cell - 2);
}

/** Returns the first frame of the first row that is neither empty nor full. */
function firstMixed(frames) {
  for (let first = 0; first + ROW <= frames.length; first += ROW) {
    const row = frames.subarray(first, first + ROW);
    const isUsed = (value) => (value & 15) !== FREE;
    if (row.some(isUsed) && !row.every(isUsed)) return first;
  }
  return 0;
}

/** Summarizes a memory at one moment. */
function summary(frames) {
  let [free, listed, whole] = [0, 0, 0];
  for (let first = 0; first < frames.length; first += ROW) {
    let empty = 0;
    for (let frame = first; frame < Math.min(first + ROW, frames.length); frame++) {
      if ((frames[frame] & 15) === FREE) empty += 1;
      else if ((frames[frame] & 15) === LISTED) listed += 1;
    }
    free += empty;
    if (empty === Math.min(ROW, frames.length - first)) whole += 1;
  }
  return { free, listed, whole, rows: Math.ceil(frames.length / ROW) };
}
