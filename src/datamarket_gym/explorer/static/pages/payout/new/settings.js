// The settings in groups, each with the help of the command line; what is wrong with one stands beside it.
import { field, select } from "../../../lib/controls.js";
import { el, fill } from "../../../lib/dom.js";

let lists = 0;

const listed = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);

const READ = {
  text: (text) => text.trim() || undefined,
  suggested: (text) => text.trim() || undefined,
  choice: (text) => text || undefined,
  list: (text) => (listed(text).length ? listed(text) : undefined),
  whole: (text) => (text.trim() === "" ? undefined : Number.isInteger(Number(text)) ? Number(text) : text),
  number: (text) => (text.trim() === "" ? undefined : Number.isFinite(Number(text)) ? Number(text) : text),
};

const written = (value) => (Array.isArray(value) ? value.join(", ") : value === undefined || value === null ? "" : String(value));

const control = (page, about) => {
  const put = (value) => page.choose({ [about.name]: value === about.default ? undefined : value });
  if (about.kind === "flag") {
    const box = el("input", { type: "checkbox", name: about.name, on: { change: () => put(box.checked) } });
    return { node: box, move: (value) => (box.checked = Boolean(value ?? about.default)) };
  }
  if (about.kind === "choice") {
    const box = select({ name: about.name, options: about.choices, value: about.default, onchange: put });
    return { node: box, move: (value) => (box.value = value ?? about.default) };
  }
  const list = about.choices ? `suggested-${(lists += 1)}` : null;
  const box = el("input", {
    type: "text", name: about.name, autocomplete: "off", spellcheck: "false", list, placeholder: written(about.default),
    inputmode: about.kind === "whole" || about.kind === "number" || about.name === "amount" ? "decimal" : null,
    on: { change: () => put(READ[about.kind](box.value)) },
  });
  const node = list ? el("div", {}, box, el("datalist", { id: list }, about.choices.map((each) => el("option", { value: each })))) : box;
  return { node, input: box, move: (value) => document.activeElement !== box && (box.value = written(value)) };
};

/** The form. */
export const settingsView = (page) => {
  const fields = new Map();
  const paid = el("p", { class: "soft", "aria-live": "polite", "data-paid-for": "" });
  const one = (about) => {
    const made = control(page, about);
    const fault = el("span", { class: "fault", role: "alert", hidden: true });
    const row = field({ label: about.label, help: about.help, control: made.node, note: fault });
    row.dataset.setting = about.name;
    row.classList.toggle("yes", about.kind === "flag");
    fields.set(about.name, { ...made, input: made.input || made.node, fault });
    return about.name === "learner" ? [row, paid] : row;
  };
  const groups = page.form.groups.map((group) => {
    const inside = el("div", { class: "fields" }, group.fields.map(one));
    const used = group.fields.some((each) => page.state.value.set[each.name] !== undefined);
    const node = el("details", { open: group.open || used }, el("summary", {}, group.title), inside);
    return { node, names: group.fields.map((each) => each.name) };
  });
  return {
    node: el("div", { class: "groups" }, groups.map((each) => each.node)),
    refresh: () => {
      for (const [key, each] of fields) each.move(page.state.value.set[key]);
    },
    tell: ({ faults, paid_for }) => {
      const begun = Object.keys(page.state.value.files).length || Object.keys(page.state.value.set).length;
      for (const [key, each] of fields) {
        const words = begun ? faults[key] : undefined;
        each.fault.hidden = !words;
        each.fault.textContent = words || "";
        if (words) each.input.setAttribute("aria-invalid", "true");
        else each.input.removeAttribute("aria-invalid");
      }
      for (const group of groups) if (group.names.some((key) => begun && faults[key])) group.node.open = true;
      fill(paid, paid_for);
    },
  };
};
