// Passes the cases of ci/paste.sh through the page's own functions, and replaces the page by what it answers, one case
// per line: names, need, verdict or error, HTML in base64. What is wrong is a line that begins with `fault`.

const faults = [];
addEventListener("error", (event) => faults.push(event.message));
addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => faults.push(event.violatedDirective));

function fault(test, what) {
  if (!test) faults.push(what);
}

const base64 = (text) => btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(""));
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// The controls answer as the functions do.
async function controls() {
  const verdict = () => find("answer").querySelector(".verdict")?.textContent ?? "";
  find("example").click();
  fault(verdict().includes("200 x 32 MiB: 0 to 183 free now"), "the example");
  fault(find("reports").length === 2 && find("reports").value === "1", "the last report is shown");
  find("count").value = 10;
  find("size").value = "4MiB";
  find("size").dispatchEvent(new Event("input"));
  fault(verdict().includes("10 x 4 MiB: 1,474 free now"), "another need");
  fault(find("answer").querySelectorAll(".wanted").length === 3, "the row of this size in three zones");
  find("reports").value = "0";
  find("reports").dispatchEvent(new Event("change"));
  fault(find("answer").textContent.includes("Normal 804"), "another report");
  find("movable").click();
  fault(verdict().includes("movable"), "movable memory");
  const width = document.documentElement;
  fault(width.scrollWidth <= width.clientWidth, `the page is ${width.scrollWidth} wide in ${width.clientWidth}`);
  find("clear").click();
  fault(verdict() === "" && find("notes").hidden, "clear");
  find("text").value = "<img src=x onerror=alert(1)>\n";
  again();
  fault(find("notes").textContent.includes("no state of memory found"), "a text without a state");
  await add([new File(["Node 0, zone <b>N</b> 1 2 3 4 5 6 7 8 9 10 11\n"], "<i>name</i>")]);
  fault(!document.querySelector("#answer b b, #names i, #answer h2 b"), "names are escaped");
  clear();
  // The policy of the page forbids requests.
  let answered = true;
  await fetch("data:text/plain,x").catch(() => (answered = false));
  fault(!answered, "the page may make requests");
  faults.splice(0, faults.length, ...faults.filter((what) => what !== "connect-src"));
}

started.then(async () => {
  const lines = [];
  for (const [names, needs, ...contents] of cases) {
    const files = names.split(" ").map((name, at) => [name, bytes(contents[at])]);
    for (const need of needs.split(" ")) {
      const { notes, verdicts, html } = answer(files, need);
      const words = html === null ? `error: ${notes[0]}` : verdicts.join(" / ");
      lines.push([names, need, words, html === null ? "" : base64(html)].join("|"));
    }
  }
  await controls();
  const text = [...lines, ...faults.map((what) => `fault: ${what}`), "checked"].join("\n");
  const pre = Object.assign(document.createElement("pre"), { textContent: `\n${text}\n` });
  document.body.replaceChildren(pre);
});
