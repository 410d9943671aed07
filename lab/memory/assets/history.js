// Draws how many blocks were free over time, says since when fewer than half of the most are, and what grew since then.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("history");
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  function size(bytes) {
    let unit = 0;
    for (; Math.abs(bytes) >= 1024 && unit < 4; unit++) bytes /= 1024;
    return `${Number(bytes.toFixed(1)).toLocaleString("en")} ${units[unit]}`;
  }
  const time = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";
  function add(tag, text, parent = main, name) {
    const item = document.createElement(tag);
    item.textContent = text;
    if (name) item.className = name;
    return parent.appendChild(item);
  }
  // Blocks of an order, parts of larger ones included.
  const count = (at, order) =>
    at.zones.reduce((sum, { blocks }) => sum + blocks.reduce((all, own, of) => all + (of >= order ? own * 2 ** (of - order) : 0), 0), 0);
  function draw(values, since) {
    const most = Math.max(...values, 1);
    const [first, last] = [data[0].time, data.at(-1).time];
    const x = (at) => 10 + ((data[at].time - first) / (last - first || 1)) * 780;
    const y = (value) => 150 - (value / most) * 130;
    const points = values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    const mark = since > 0 ? `<line x1="${x(since)}" x2="${x(since)}" y1="10" y2="150"/>` : "";
    const box = add("div", "");
    box.innerHTML = `<svg viewBox="0 0 800 175" role="img" aria-label="Free blocks over time">${mark}<polyline points="${points}"/>
      <text x="10" y="14">${most.toLocaleString("en")}</text><text x="10" y="168">${time(first)}</text>
      <text x="790" y="168" text-anchor="end">${time(last)}</text></svg>`;
  }
  const frame = data[0].frame_bytes;
  const orders = Math.max(...data.flatMap(({ zones }) => zones.map(({ blocks }) => blocks.length)), 1);
  const shown = [...new Set([64 << 10, 2 << 20, frame * 2 ** (orders - 1)])].map((bytes) => Math.log2(bytes / frame));
  const verdicts = [];
  for (const order of shown.filter((order) => order >= 0 && order < orders).reverse()) {
    const values = data.map((at) => count(at, order));
    const most = Math.max(...values);
    // The first time after which the number never reaches half of the most again.
    const since = values.findLastIndex((value) => 2 * value >= most) + 1;
    const now = values.at(-1);
    const bytes = size(frame * 2 ** order);
    const gone = since < data.length && since > 0;
    const best = `${most.toLocaleString("en")} of ${time(data[values.indexOf(most)].time)}`;
    const trend = gone ? `Since ${time(data[since].time)}, there are fewer than half of the ${best}.` : `That is at least half of the most, the ${best}.`;
    const words = `Blocks of ${bytes}: ${now.toLocaleString("en")} are free now. ${trend}`;
    verdicts.push([words, gone, since, values, bytes, values.indexOf(most)]);
  }
  for (const [words, gone] of verdicts.slice(0, 1)) add("p", words, main, `verdict ${gone ? "no" : "yes"}`);
  add("h1", "Large blocks over time");
  add("p", `${data.length.toLocaleString("en")} moments from ${time(data[0].time)} to ${time(data.at(-1).time)}; a dashed line shows since when fewer than half are free.`);
  for (const [words, gone, since, values, bytes, from] of verdicts) {
    add("h2", `Blocks of ${bytes}`);
    add("p", words);
    draw(values, gone ? since : 0);
    if (!gone) continue;
    const [then, now] = [data[from].held_kib, data.at(-1).held_kib];
    const grown = Object.keys(now).filter((name) => name in then);
    const rows = grown.map((name) => [name, (now[name] - then[name]) * 1024]).filter(([, more]) => more > 0);
    rows.sort(([, one], [, other]) => other - one);
    if (rows.length) add("p", `Meanwhile grew: ${rows.slice(0, 5).map(([name, more]) => `${name} by ${size(more)}`).join(", ")}.`);
  }
})();
