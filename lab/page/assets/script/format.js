// Numbers as text.

const missing = (value) => value === null || value === undefined || !Number.isFinite(value);

/** Formats about three digits. */
function short(value) {
  if (missing(value)) return "";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.0995) return value.toPrecision(2);
  if (size < 9.95) return value.toFixed(2);
  if (size < 99.5) return value.toFixed(1);
  return Math.round(value).toLocaleString("en");
}

const count = (value) => (missing(value) ? "" : Math.round(value).toLocaleString("en"));

function percent(share) {
  if (missing(share)) return "";
  const value = share * 100;
  const size = Math.abs(value);
  if (size === 0 || size >= 99.95) return `${Math.round(value)} %`;
  return `${size < 0.995 ? Number(value.toPrecision(2)) : value.toFixed(1)} %`;
}

/** Formats nanoseconds in a suitable unit. */
function time(ns) {
  if (missing(ns)) return "";
  const [scale, unit] = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const value = ns / scale;
  return `${value < 9.95 && value % 1 ? value.toFixed(1) : Math.round(value).toLocaleString("en")} ${unit}`;
}

/** Formats a number of 4 KiB frames as memory. */
function memory(frames) {
  const mib = frames / 256;
  const few = (value) => Number(value.toPrecision(3)).toLocaleString("en");
  return mib < 1 ? `${frames * 4} KiB` : mib < 1024 ? `${few(mib)} MiB` : `${few(mib / 1024)} GiB`;
}

/** Formats a time that may be below the timer's resolution. */
const seen = (ns, floor) => (missing(ns) ? "" : ns <= floor ? `≤ ${time(floor)}` : time(ns));
