// Data in the page: gzip in base64, decompressed on first use.

const parcels = new Map();

/** Decompresses the content of an element once; later calls return the same promise. */
function inflated(id) {
  if (!parcels.has(id)) {
    const element = document.getElementById(id);
    const text = atob(element.textContent);
    element.textContent = "";
    const bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    parcels.set(id, new Response(stream));
  }
  return parcels.get(id);
}

function once(key, make) {
  if (!parcels.has(key)) parcels.set(key, make());
  return parcels.get(key);
}

/** Returns the numbers of a trace. */
const numbers = (at) =>
  once(`read numbers-${at}`, async () => {
    const trace = await inflated(`numbers-${at}`).json();
    ready.numbers.set(at, trace);
    return trace;
  });

/** Returns the maps of one moment, one per system: values and lengths of runs. */
const maps = (at, moment) =>
  once(`read map-${at}-${moment}`, async () => {
    const all = split(new Uint8Array(await inflated(`map-${at}-${moment}`).arrayBuffer()));
    ready.maps.set(`${at}-${moment}`, all);
    return all;
  });

/** Loads the chart library by adding it to the page as a script. */
const library = () =>
  once("read library", async () => {
    const script = document.createElement("script");
    script.textContent = await inflated("library").text();
    document.head.append(script);
    if (!window.Plotly) throw new Error("the chart library did not start");
    ready.library = true;
  });

/** Returns the data that has arrived, for callers that cannot wait: there is no time before printing. */
const ready = { library: false, numbers: new Map(), maps: new Map() };

/**
 * Decodes maps. Each has the number of runs, one byte per run, then lengths with seven bits per byte, then the number of
 * regions, and one byte per region.
 */
function split(bytes) {
  const view = new DataView(bytes.buffer);
  const all = [];
  let at = 0;
  while (at < bytes.length) {
    const runs = view.getUint32(at, true);
    const values = bytes.subarray(at + 4, at + 4 + runs);
    const lengths = new Uint32Array(runs);
    at += 4 + runs;
    for (let run = 0; run < runs; run++) {
      let shift = 0;
      let byte;
      do {
        byte = bytes[at++];
        lengths[run] |= (byte & 127) << shift;
        shift += 7;
      } while (byte & 128);
    }
    const end = at + 4 + view.getUint32(at, true);
    all.push({ values, lengths, regions: bytes.subarray(at + 4, end) });
    at = end;
  }
  return all;
}
