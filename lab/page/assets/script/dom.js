// Elements, and the controls of figures.

/** Creates an element. Strings become text, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

let serial = 0;
const freshId = () => `made-${serial++}`;

/** Creates a row of buttons, one of which is pressed. */
function choice(label, options, chosen, change) {
  const buttons = options.map(([value, text]) =>
    make(
      "button",
      {
        type: "button",
        "aria-pressed": String(value === chosen),
        onclick: () => {
          buttons.forEach((button, at) =>
            button.setAttribute("aria-pressed", String(options[at][0] === value)),
          );
          change(value);
        },
      },
      text,
    ),
  );
  const group = make("div", { class: "choice", role: "group", "aria-label": label }, ...buttons);
  return make(
    "div",
    { class: "control" },
    make("span", { class: "label", "aria-hidden": "true" }, label),
    group,
  );
}

/** Creates a selection list. */
function selection(label, options, chosen, change) {
  const id = freshId();
  const select = make(
    "select",
    { id, onchange: () => change(Number(select.value)) },
    ...options.map((text, at) => make("option", { value: at, selected: at === chosen }, text)),
  );
  return make("div", { class: "control" }, make("label", { class: "label", for: id }, label), select);
}

/** Creates a slider over integers, with its value in words. */
function slider(label, last, start, words, change) {
  const id = freshId();
  const output = make("output", { for: id }, words(start));
  const input = make("input", {
    id,
    type: "range",
    min: 0,
    max: last,
    step: 1,
    value: start,
    "aria-valuetext": words(start),
  });
  const moved = () => {
    const value = Number(input.value);
    output.textContent = words(value);
    input.setAttribute("aria-valuetext", words(value));
    change(value);
  };
  input.addEventListener("input", moved);
  const control = make(
    "div",
    { class: "control wide" },
    make("label", { class: "label", for: id }, label),
    input,
    output,
  );
  return {
    control,
    set(value) {
      input.value = value;
      moved();
    },
    get: () => Number(input.value),
  };
}
