// The heat map: a metric, labels down and across, a value of each other label; a cell opens all that is known of it.
import { ask } from "../../lib/ask.js";
import { copyButton, dialog, field, select } from "../../lib/controls.js";
import { el, fill, shown } from "../../lib/dom.js";
import { cellTable, legend, saveButtons } from "./cells.js";

const PLACES = [{ value: "*across", label: "all, beside one another" }, { value: "*down", label: "all, below one another" }];

/** Replace what a node holds, and stay at the control that was used. */
export const refill = (node, ...children) => {
  const at = node.contains(document.activeElement) ? document.activeElement.name : "";
  fill(node, ...children);
  if (at) node.querySelector(`[name="${CSS.escape(at)}"]`)?.focus();
};

const told = (cell) => {
  const rows = [
    ...cell.labels.map((each) => [each.label, each.words]),
    ["mean", cell.value === null ? cell.text : shown(cell.value, 4)],
    ["standard error", cell.se === null ? "none: one seed, or one number in all of them" : shown(cell.se, 4)],
    ["seeds it rests on", cell.seeds ?? "\u2014"],
    ["ratio of means", cell.ratio === null ? null : shown(cell.ratio, 4)],
    ["the paper's value", cell.paper === null ? "none for this cell" : shown(cell.paper, 4)],
    ["difference", cell.difference === null ? null : `${shown(cell.difference, 4)}${cell.tolerance === null ? ", no tolerance claimed" : `; the tolerance is ${shown(cell.tolerance, 4)}: ${cell.within ? "within" : "outside"}`}`],
    ["to know", cell.remarks.length ? cell.remarks.map((each) => el("div", {}, each)) : null],
  ];
  return el("dl", { class: "pairs" }, rows.filter(([, value]) => value !== null).map(([head, value]) => [el("dt", {}, head), el("dd", {}, value)]));
};

let window_ = null;

const openCell = (map, i, j, close) => {
  const cell = map.cells[i]?.[j];
  if (!cell || window_) return;
  const json = JSON.stringify(cell.row, null, 1);
  window_ = dialog(`${map.heads[i]}, ${map.columns[j]}`, told(cell),
    el("details", {}, el("summary", {}, "The row, as table.json has it"), el("pre", {}, json)),
    copyButton("Copy the row", () => json, "copy-row"));
  window_.addEventListener("close", () => {
    window_ = null;
    close();
  });
};

const controls = (map, { value, state, told: about }) =>
  el("div", { class: "choices" },
    field({ label: "Metric", control: select({ name: "metric", options: about.metrics, value: map.metric, onchange: (to) => state.set({ metric: to, cell: "" }) }) }),
    map.free.length > 1 ? [
      field({ label: "Down", control: select({ name: "down", options: map.free, value: map.down, onchange: (to) => state.set({ down: to, across: to === map.across ? map.down : map.across, cell: "" }) }) }),
      field({ label: "Across", control: select({ name: "across", options: map.free, value: map.across, onchange: (to) => state.set({ across: to, down: to === map.down ? map.across : map.down, cell: "" }) }) }),
    ] : null,
    map.labels.filter((each) => each.options.length > 1).map((each) => field({
      label: each.label[0].toUpperCase() + each.label.slice(1),
      control: select({ name: `label-${each.key}`, options: [...each.options, ...PLACES], value: each.value, onchange: (to) => state.set({ picked: { ...value.picked, [each.key]: to }, cell: "" }) }),
    })));

export const heatView = async (node, page) => {
  const { value, state, told: about, question, signal } = page;
  const metric = about.metrics.some((each) => each.value === value.metric) ? value.metric : about.metrics[0].value;
  node.classList.add("stale");
  const wait = el("div");
  if (!node.childElementCount) fill(node, wait);
  const asked = question("heat", { metric, down: value.down, across: value.across, picked: JSON.stringify(value.picked) });
  const map = node.asked === asked ? node.map : await ask(asked, { signal, progress: wait, topic: "heat" });
  Object.assign(node, { asked, map });
  node.classList.remove("stale");
  const words = (key) => map.free.find((each) => each.value === key)?.label || "all";
  const corner = `${words(map.down)} \\ ${words(map.across)}`;
  const open = (i, j) => state.set({ cell: `${i}.${j}` }, { push: true });
  const caption = `${map.words[0].toUpperCase()}${map.words.slice(1)} of ${value.name}: mean over seeds \u00b1 standard error${map.paper ? ", the paper's value and the difference (! beyond the tolerance)" : ""}`;
  const listing = { heads: map.heads, columns: map.columns, cells: map.cells, corner };
  const table = cellTable({ ...listing, centre: map.centre, caption, open });
  refill(node, controls(map, page), el("p", {}, caption), legend(map.centre), table, saveButtons(table, `${value.name}-${map.metric}`, listing),
    el("p", { class: "soft" }, "Open a cell for all that is known of it. No error is written where all seeds give one number. ", map.note));
  const [i, j] = value.cell.split(".").map(Number);
  if (value.cell) openCell(map, i, j, () => state.value.cell && state.set({ cell: "" }));
  else window_?.close();
};
