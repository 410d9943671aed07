// One visible trace, selected by tab, key or address.

function tabs() {
  const list = document.querySelector(".tabs");
  const all = [...list.querySelectorAll(".tab")];
  const sections = [...document.querySelectorAll("section.trace")];
  list.setAttribute("role", "tablist");
  all.forEach((tab, at) => {
    tab.id = `tab-${at}`;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", sections[at].id);
    sections[at].setAttribute("role", "tabpanel");
    sections[at].setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", (event) => {
      event.preventDefault();
      choose(sections[at], true);
    });
    tab.addEventListener("keydown", (event) => {
      const to = {
        ArrowRight: at + 1,
        ArrowDown: at + 1,
        ArrowLeft: at - 1,
        ArrowUp: at - 1,
        Home: 0,
        End: -1,
        " ": at,
      }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = (to + all.length) % all.length;
      choose(sections[next], true);
      all[next].focus();
    });
  });

  function choose(section, isNews) {
    state.section = section;
    sections.forEach((one, at) => {
      const chosen = one === section;
      one.hidden = !chosen;
      all[at].setAttribute("aria-selected", String(chosen));
      all[at].tabIndex = chosen ? 0 : -1;
    });
    if (isNews) {
      history.replaceState(null, "", `#${section.id}`);
      if (list.parentElement.getBoundingClientRect().top <= 0)
        document.getElementById("main").scrollIntoView();
    }
    changed();
  }

  /** An address may name a trace, a figure of a trace, or a definition. */
  function follow() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const section = target && target.closest("section.trace");
    if (section && section !== state.section) choose(section, false);
    if (!state.section && sections.length) choose(sections[0], false);
    if (target && target !== section) target.scrollIntoView();
  }
  window.addEventListener("hashchange", follow);
  follow();
}
