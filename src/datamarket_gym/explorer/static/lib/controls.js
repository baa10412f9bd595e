// Controls with their labels. Each has a name, by which keyboards, tests and readers' software find it.
import { el, fill } from "./dom.js";

let number_ = 0;
const fresh = () => `c${(number_ += 1)}`;

/** A labelled control with a line of help. */
export const field = ({ label, help = "", control, note = null }) => {
  const id = fresh();
  const input = control.matches("input, select, textarea") ? control : control.querySelector("input, select, textarea") || control;
  if (!input.id) input.id = id;
  const said = help ? el("span", { class: "soft help", id: `${input.id}-help` }, help) : null;
  if (said) input.setAttribute("aria-describedby", said.id);
  return el("div", { class: "field" }, el("label", { for: input.id }, label), control, note, said);
};

/** One of several: options are {value, label, help, disabled} or texts. */
export const select = ({ name, options, value, onchange = () => {} }) => {
  const entries = options.map((each) => (typeof each === "string" ? { value: each, label: each } : each));
  return el("select", { name, value, on: { change: (event) => onchange(event.target.value) } },
    entries.map((each) => el("option", { value: each.value, title: each.help, disabled: each.disabled }, each.label)));
};

/** A slider with its number beside it; arrows move it, the number can be typed. */
export const slider = ({ name, min, max, step, value, oninput = () => {}, format = null }) => {
  const range = el("input", { type: "range", name, min, max, step, value });
  const typed = el("input", { type: "number", name: `${name}-number`, class: "beside", min, max, step: "any", value, "aria-label": `${name}, as a number` });
  const said = format ? el("output", {}, format(value)) : null;
  const tell = (text, from) => {
    const found = Math.min(max, Math.max(min, Number(text)));
    if (text === "" || !Number.isFinite(found)) return;
    if (from !== range) range.value = found;
    if (from !== typed) typed.value = found;
    if (said) said.textContent = format(found);
    oninput(found);
  };
  range.addEventListener("input", () => tell(range.value, range));
  typed.addEventListener("change", () => {
    tell(typed.value, typed);
    typed.value = range.value && Number(typed.value) !== Number(range.value) ? Math.min(max, Math.max(min, Number(typed.value))) : typed.value;
  });
  const node = el("div", { class: "slider" }, range, typed, said);
  /** Move it without telling. */
  node.move = (to) => {
    range.value = to;
    typed.value = to;
    if (said) said.textContent = format(to);
  };
  return node;
};

/** A number. */
export const number = ({ name, value, min, max, step = "any", onchange = () => {} }) =>
  el("input", { type: "number", name, min, max, step, value, on: { change: (event) => event.target.validity.valid && event.target.value !== "" && onchange(Number(event.target.value)) } });

/** A line of text. */
export const textbox = ({ name, value = "", placeholder = "", onchange = () => {}, secret = false }) =>
  el("input", { type: "text", name, placeholder, value, autocomplete: "off", spellcheck: "false", class: secret ? "secret" : "", on: { change: (event) => onchange(event.target.value) } });

/** Yes or no, with its label. */
export const checkbox = ({ name, label, checked = false, onchange = () => {} }) => {
  const box = el("input", { type: "checkbox", name, checked, on: { change: (event) => onchange(event.target.checked) } });
  return el("label", { class: "check" }, box, el("span", {}, label));
};

/** A button; `key` is the shortcut that is shown on it. */
export const button = ({ name, label, onclick, key = "", kind = "" }) =>
  el("button", { type: "button", name, class: kind, on: { click: onclick } }, label, key ? el("kbd", {}, key) : null);

/** Copies a text; where the browser does not allow it, the text is shown to be copied by hand. */
export const copyButton = (label, text, name = "copy") =>
  button({
    name,
    label,
    onclick: async (event) => {
      const here = event.currentTarget;
      const what = await text();
      try {
        await navigator.clipboard.writeText(what);
        here.textContent = "Copied";
        setTimeout(() => (here.textContent = label), 1500);
      } catch {
        dialog("Copy it from here", el("textarea", { class: "code", readonly: true, rows: 14, value: what }));
      }
    },
  });

/** A window over the page; Escape and a button close it. Returns it. */
export const dialog = (title, ...children) => {
  const node = el("dialog", { "aria-label": title });
  const close = el("button", { type: "button", class: "quiet", name: "close", "aria-label": "Close", on: { click: () => node.close() } }, "\u00d7");
  fill(node, el("div", { class: "dialog-head" }, el("h2", {}, title), close), el("div", { class: "dialog-body" }, children));
  node.addEventListener("close", () => node.remove());
  node.addEventListener("click", (event) => event.target === node && node.close());
  document.body.append(node);
  node.showModal();
  return node;
};

/** Tabs: {title: node}. */
export const tabs = (name, panels, chosen = Object.keys(panels)[0], onchange = () => {}) => {
  const titles = Object.keys(panels);
  const place = el("div", { class: "panel", role: "tabpanel", tabindex: "0" });
  const heads = titles.map((title, i) =>
    el("button", {
      type: "button", role: "tab", name: `${name}-${title.toLowerCase().replaceAll(" ", "-")}`,
      on: {
        click: () => open(title),
        keydown: (event) => {
          const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (!step) return;
          const next = (i + step + titles.length) % titles.length;
          heads[next].focus();
          open(titles[next]);
        },
      },
    }, title));
  const open = (title, tell = true) => {
    heads.forEach((head, i) => {
      head.setAttribute("aria-selected", String(titles[i] === title));
      head.tabIndex = titles[i] === title ? 0 : -1;
    });
    place.setAttribute("aria-label", title);
    fill(place, panels[title]);
    if (tell) onchange(title);
  };
  open(titles.includes(chosen) ? chosen : titles[0], false);
  return el("div", { class: "tabs" }, el("div", { role: "tablist", "aria-label": name }, heads), place);
};
