// What must hold of an experiment and whether it does, and everything that the paper says of it beside ours.
import { el, fill, shown } from "../../lib/dom.js";
import { table } from "../../lib/table.js";

const promise = (each, i) =>
  el("li", { class: "card" },
    el("p", {}, el("span", { class: each.holds ? "tag good" : "tag bad" }, each.holds ? "\u2713 kept" : "\u2717 broken"), ` ${each.says}`),
    el("p", { class: "soft" }, each.counted.replace(/:$/, "."), each.spared ? ` Up to ${each.spared} such rows are allowed.` : ""),
    each.broken.length ? el("details", {}, el("summary", {}, each.broken.length === 1 ? "The row above it" : `The ${each.broken.length} rows above it`),
      table({ name: `promise-${i}`, search: each.broken.length > 10, columns: [{ key: "row", title: "row" }, { key: "number", title: "number", number: true, show: (row) => shown(row.number) }], rows: each.broken, sort: "-number" })) : null);

export const promiseView = (node, { told }) => {
  if (node.childElementCount) return;
  const held = told.promises.filter((each) => each.holds).length;
  fill(node,
    el("p", {}, `What was said, before it was measured or since, that must hold of these rows: ${held} of ${told.promises.length} kept.`),
    el("ul", { class: "promises" }, told.promises.map(promise)));
};

export const paperView = (node, { told, value, state }) => {
  if (node.childElementCount) return;
  const { within, outside, not_claimed: free, accounts } = told.paper;
  fill(node,
    el("p", {}, `Everything that the paper says of this experiment: ${within} within the bar, ${outside} outside it, ${free} not claimed.`),
    table({
      name: "accounts", query: value.search, sort: value.sort, onstate: ({ search, sort }) => state.set({ search, sort }, { quiet: true }),
      columns: [
        { key: "cell", title: "the paper's cell" }, { key: "metric", title: "metric" }, { key: "paper", title: "paper", number: true },
        { key: "ours", title: "ours", number: true }, { key: "difference", title: "difference", number: true }, { key: "bar", title: "bar", number: true },
        { key: "verdict", title: "verdict", show: (row) => el("span", { class: { within: "tag good", outside: "tag bad" }[row.verdict] || "tag" }, row.verdict) },
        { key: "why", title: "why" },
      ],
      rows: accounts,
    }));
};
