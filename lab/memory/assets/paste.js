"use strict";
// The module reads what was pasted and dropped, and answers with HTML. Nothing is kept and nothing is sent.

const find = (id) => document.getElementById(id);
const page = { exports: null, files: [], timer: 0 };

async function startEngine() {
  const packed = Uint8Array.from(atob(find("engine").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(stream).arrayBuffer();
  page.exports = (await WebAssembly.instantiate(bytes, {})).instance.exports;
}

// Passes files to the module, names and bytes, and returns its answer for the needs and a report; without a number, for
// the last one. Its memory may grow, so views are new.
function answer(files, needs, report = null) {
  const { memory, memory_room, memory_answer, memory_length } = page.exports;
  const head = { needs, report, files: files.map(([name, bytes]) => [name, bytes.length]) };
  const parts = [new TextEncoder().encode(`${JSON.stringify(head)}\n`), ...files.map(([, bytes]) => bytes)];
  let at = memory_room(parts.reduce((sum, part) => sum + part.length, 0)) >>> 0;
  for (const part of parts) {
    new Uint8Array(memory.buffer, at, part.length).set(part);
    at += part.length;
  }
  const start = memory_answer() >>> 0;
  return JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, start, memory_length())));
}

function needs() {
  const count = Math.floor(Number(find("count").value));
  return count >= 1 ? `${count}x${find("size").value}${find("movable").checked ? ",movable" : ""}` : "";
}

function show(report = null) {
  const text = find("text").value;
  const pasted = text.trim() ? [["pasted text", new TextEncoder().encode(text)]] : [];
  const files = [...pasted, ...page.files];
  const { notes, reports, shown, html } = files.length ? answer(files, needs(), report) : { notes: [], reports: [] };
  find("notes").replaceChildren(...notes.map((note) => Object.assign(document.createElement("li"), { textContent: note })));
  find("notes").hidden = notes.length === 0;
  find("reports").replaceChildren(...reports.map((title, at) => new Option(`${at + 1}: ${title}`, at, false, at === shown)));
  find("reports-label").hidden = reports.length < 2;
  // The module escapes every name of the input.
  find("answer").innerHTML = html ?? "";
  drawMaps();
}

function again() {
  find("names").textContent = page.files.map(([name, bytes]) => `${name} (${bytes.length.toLocaleString("en")} bytes)`).join(", ");
  show();
}

async function add(files) {
  for (const file of files) {
    try {
      page.files.push([file.name, new Uint8Array(await file.arrayBuffer())]);
    } catch (error) {
      find("names").textContent = `${file.name}: ${error.message}`;
      return;
    }
  }
  again();
}

function clear() {
  find("text").value = "";
  page.files = [];
  again();
}

async function main() {
  try {
    await startEngine();
  } catch (error) {
    find("broken").textContent = `The reader could not be started: ${error.message}`;
    find("broken").hidden = false;
    return;
  }
  const sizes = ["4KiB", "16KiB", "64KiB", "256KiB", "1MiB", "2MiB", "4MiB", "8MiB", "16MiB", "32MiB", "64MiB", "128MiB", "512MiB", "1GiB"];
  find("size").replaceChildren(...sizes.map((size) => new Option(size.replace(/(?=[KMG])/, " "), size, false, size === "32MiB")));
  find("main").hidden = false;
  find("text").addEventListener("input", () => {
    clearTimeout(page.timer);
    page.timer = setTimeout(again, 200);
  });
  for (const id of ["count", "size", "movable"]) find(id).addEventListener("input", () => show());
  find("reports").addEventListener("change", () => show(Number(find("reports").value)));
  find("choose").addEventListener("click", () => find("files").click());
  find("files").addEventListener("change", () => add(find("files").files));
  find("clear").addEventListener("click", clear);
  find("example").addEventListener("click", () => {
    clear();
    find("text").value = find("sample").textContent;
    again();
  });
  for (const name of ["dragover", "dragleave", "drop"]) {
    addEventListener(name, (event) => {
      event.preventDefault();
      document.body.classList.toggle("dropping", name === "dragover");
      if (name === "drop") add(event.dataTransfer.files);
    });
  }
}

const started = main();
