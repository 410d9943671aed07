// A figure's data as a table, and as a CSV file that the browser makes.

const MOST_ROWS = 400;

const field = (value) => {
  const text = missing(value) && typeof value !== "string" ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

function asCsv({ head, rows }) {
  return [head, ...rows].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}

/** Fills the data table of a figure whenever it is opened or its figure changes. */
function fillRows(view) {
  const disclosure = view.element.querySelector("details.data");
  if (!disclosure.open) return;
  const made = figures[view.key].rows(view);
  const { head, rows } = made;
  const download = make(
    "button",
    {
      type: "button",
      onclick: () => {
        const address = URL.createObjectURL(
          new Blob([asCsv(figures[view.key].rows(view))], { type: "text/csv" }),
        );
        make("a", { href: address, download: `${view.element.id}.csv` }).click();
        setTimeout(() => URL.revokeObjectURL(address), 1000);
      },
    },
    "Download CSV",
  );
  const cell = (value) =>
    make(
      "td",
      {},
      missing(value) && typeof value !== "string" ? "" : typeof value === "number" ? exact(value) : value,
    );
  const table = make(
    "table",
    { class: "plain" },
    make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...rows.slice(0, MOST_ROWS).map((row) => make("tr", {}, ...row.map(cell)))),
  );
  const words =
    rows.length > MOST_ROWS
      ? `The first ${count(MOST_ROWS)} of ${count(rows.length)} rows; the file contains all.`
      : `${count(rows.length)} rows.`;
  disclosure
    .querySelector(".rows")
    .replaceChildren(
      make("p", {}, download, ` ${words}`),
      make(
        "div",
        { class: "scroller tall", role: "region", tabindex: 0, "aria-label": "Data of the figure" },
        table,
      ),
    );
}

const exact = (value) => value.toLocaleString("en", { maximumSignificantDigits: 6 });
