// The pictures of an experiment: panels of lines, dots or cells, as its figures have them.
import { ask } from "../../lib/ask.js";
import { draw, plain } from "../../lib/chart.js";
import { field, select } from "../../lib/controls.js";
import { el, fill } from "../../lib/dom.js";
import { cellTable, legend, saveButtons } from "./cells.js";
import { refill } from "./heat.js";
import { dotChart, lineChart } from "./plots.js";

const cells = (panel, file) => {
  const listing = { heads: panel.heads, columns: panel.columns, corner: `${panel.down} \\ ${panel.across}`, cells: panel.cells.map((line) => line.map((cell) => cell && { ...cell, error: cell.se >= 0.005 ? `\u00b1 ${cell.se.toFixed(2)}` : "" })) };
  const table = cellTable({ ...listing, centre: panel.centre, caption: panel.title, limit: panel.limit });
  const alike = { highest: "The largest numbers are most alike.", lowest: "The smallest numbers are most alike." }[panel.alike];
  return el("section", { class: "wide" }, el("h3", {}, panel.title), alike ? el("p", { class: "soft" }, alike) : legend(panel.centre), table, saveButtons(table, file, listing));
};

/** What the best attacks were, in words, where a panel knows. */
const attacks = (panel) => {
  const first = panel.series?.[0];
  if (!first?.attack.some(Boolean)) return null;
  return el("details", {}, el("summary", {}, "The best attack found against each mechanism"),
    el("dl", { class: "pairs attacks" }, first.at.map((at, i) => [el("dt", {}, panel.heads[at]), el("dd", {}, first.attack[i])])));
};

const plot = (panel, file, make) => {
  const place = el("div");
  const wide = panel.kind === "dots" ? "wide" : "";
  return { node: el("section", { class: wide }, el("h3", {}, panel.title), place, attacks(panel)), drawn: () => draw(place, { ...make(panel, plain, place.clientWidth), name: file }) };
};

export const pictureView = async (node, { value, state, told, question, signal }) => {
  const picture = told.charts.some((each) => each.value === value.picture) ? value.picture : told.charts[0].value;
  const wait = el("div");
  if (!node.childElementCount) fill(node, wait);
  const asked = question("chart", { picture });
  const found = node.asked === asked ? node.found : await ask(asked, { signal, progress: wait, topic: "chart" });
  Object.assign(node, { asked, found });
  const group = found.groups.includes(value.group) ? value.group : found.groups[0] || "";
  const shown = found.panels.map((panel, i) => [panel, `${value.name}-${picture}-${i + 1}`]).filter(([panel]) => !group || panel.group === group);
  const made = shown.map(([panel, file]) => (panel.kind === "cells" ? { node: cells(panel, file) } : plot(panel, file, panel.kind === "dots" ? dotChart : lineChart)));
  refill(node,
    el("div", { class: "choices roomy" },
      told.charts.length > 1 ? field({ label: "Picture", control: select({ name: "picture", options: told.charts, value: picture, onchange: (to) => state.set({ picture: to, group: "" }) }) }) : null,
      found.groups.length > 1 ? field({ label: "Market", control: select({ name: "group", options: found.groups, value: group, onchange: (to) => state.set({ group: to }) }) }) : null),
    el("h3", { class: "picture" }, found.title),
    found.notes.map((line) => el("p", { class: "soft" }, `${line.startsWith("n = ") ? line : line[0].toUpperCase() + line.slice(1)}.`)),
    el("div", { class: "pictures" }, made.map((each) => each.node)));
  await Promise.all(made.filter((each) => each.drawn).map((each) => each.drawn()));
};
