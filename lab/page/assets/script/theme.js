// Dark or light mode: the system's preference until the user selects one.

function themes() {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const words = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    words();
    changed();
  });
  preferred.addEventListener("change", () => {
    words();
    changed();
  });
  words();
}
