// Draws each canvas from its letters, names the cell below the pointer, and draws again if the colours change.
function drawMaps() {
  for (const map of document.querySelectorAll(".memory-map")) {
    const names = [...map.querySelectorAll("tbody td:first-child")];
    const name = (code) => (names.find((cell) => +cell.dataset.code === code) || { textContent: "" }).textContent;
    const [size, wide, edge, out] = [+map.dataset.cell, 64, 8, map.querySelector("output")];
    for (const canvas of map.querySelectorAll("canvas")) {
      const { cells, start } = canvas.dataset;
      const style = getComputedStyle(map);
      canvas.width = wide * edge;
      canvas.height = Math.ceil(cells.length / wide) * edge;
      const to = canvas.getContext("2d");
      for (let at = 0; at < cells.length; at++) {
        to.fillStyle = style.getPropertyValue(`--c${cells.charCodeAt(at) - 97}`);
        to.fillRect((at % wide) * edge, Math.floor(at / wide) * edge, edge - 1, edge - 1);
      }
      canvas.onpointermove = (event) => {
        const box = canvas.getBoundingClientRect();
        const x = Math.floor(((event.clientX - box.left) / box.width) * wide);
        const y = Math.floor(((event.clientY - box.top) / box.height) * canvas.height / edge);
        const at = y * wide + x;
        const code = cells.charCodeAt(at) - 97;
        if (code >= 0) out.textContent = `0x${(+start + at * size).toString(16)}: ${name(code)}`;
      };
    }
  }
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMaps);
drawMaps();
