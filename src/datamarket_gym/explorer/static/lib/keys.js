// Shortcuts: what they do is told by "?", and none works while something is typed.
import { dialog } from "./controls.js";
import { el } from "./dom.js";

const known = new Set();

/** Shortcuts of a page: {key: [words, f]}. Returns what removes them. */
export const keys = (map) => {
  known.add(map);
  return () => known.delete(map);
};

/** The shell calls it when a page is left. */
export const forget = () => known.clear();

const SAID = { ArrowLeft: "\u2190", ArrowRight: "\u2192", ArrowUp: "\u2191", ArrowDown: "\u2193", " ": "space" };

/** Tell all shortcuts of the page. */
export const tell = () => {
  const rows = [...known].flatMap((map) => Object.entries(map));
  dialog("Keyboard",
    rows.length ? el("table", {}, el("tbody", {}, rows.map(([key, [words]]) => el("tr", {}, el("td", {}, el("kbd", {}, SAID[key] || key)), el("td", {}, words))))) : el("p", {}, "This page has no shortcuts of its own."),
    el("p", { class: "soft" }, "Everywhere: Tab to go from control to control, arrows to move a slider, Enter to press, ? for this list, Escape to close it."));
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const at = event.target instanceof Element ? event.target : document.body;
  if (at.closest("input:not([type=checkbox]):not([type=radio]), select, textarea, [contenteditable]")) return;
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "?") {
    event.preventDefault();
    tell();
    return;
  }
  if (at.closest("[role=tab]") && event.key.startsWith("Arrow")) return;
  for (const map of known) {
    if (map[event.key]) {
      event.preventDefault();
      map[event.key][1](event);
      return;
    }
  }
});
