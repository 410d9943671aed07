// Sorts the table of systems by a column: best first, then reversed, then in the original order.

function sortable(table) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.querySelectorAll("th[data-sort]")];
  heads.forEach((head, column) => {
    const inside = head.querySelector(".head");
    const button = make(
      "button",
      { type: "button", class: "head", title: head.title || "Sort by name" },
      ...inside.childNodes,
    );
    inside.replaceWith(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const higherFirst = head.dataset.sort === "higher";
      const first = higherFirst ? "descending" : "ascending";
      const other = higherFirst ? "ascending" : "descending";
      const now = before === null ? first : before === first ? other : null;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      if (now) head.setAttribute("aria-sort", now);
      const sign = now === "descending" ? -1 : 1;
      const rows =
        now === null
          ? original
          : [...original].sort((a, b) => sign * compared(a.cells[column], b.cells[column], sign));
      body.append(...rows);
    });
  });
}

/** Compares two cells; cells without a number come last in both directions. */
function compared(a, b, sign) {
  if (a.tagName === "TH") return a.textContent.localeCompare(b.textContent, "en", { numeric: true });
  const [x, y] = [a.dataset.value, b.dataset.value];
  if (x === undefined || y === undefined) return sign * ((x === undefined) - (y === undefined));
  return Number(x) - Number(y);
}
