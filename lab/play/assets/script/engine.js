"use strict";
// The module that contains the systems. Text goes in, JSON comes out.

const engine = { exports: null };

async function startEngine() {
  const packed = Uint8Array.from(atob(document.getElementById("engine").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(stream).arrayBuffer();
  engine.exports = (await WebAssembly.instantiate(bytes, {})).instance.exports;
}

// Calls a function of the module with a text, and returns its answer. The memory may have grown, so views are new.
function ask(call, text = "", ...numbers) {
  const { memory, play_room, play_length } = engine.exports;
  const bytes = new TextEncoder().encode(text);
  const room = play_room(bytes.length);
  new Uint8Array(memory.buffer, room, bytes.length).set(bytes);
  const start = engine.exports[call](...numbers);
  return JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, start, play_length())));
}
