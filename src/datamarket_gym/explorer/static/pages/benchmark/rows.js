// The rows behind everything: filtered by several labels and by text, sorted, leafed through, saved as CSV.
import { ask } from "../../lib/ask.js";
import { checkbox, field, select } from "../../lib/controls.js";
import { el, fill } from "../../lib/dom.js";
import { table } from "../../lib/table.js";
import { refill } from "./heat.js";

const MANY = 80; // values of a label beyond which it is searched for, not chosen

const show = (key, whole) => (row) => {
  const value = row[key];
  if (typeof value !== "number") return value;
  return Number.isInteger(value) || whole ? String(value) : value.toFixed(4);
};

export const rowView = async (node, { value, state, told, question, signal }) => {
  const metric = told.metrics.some((each) => each.value === value.metric) ? value.metric : told.metrics[0].value;
  const wait = el("div");
  if (!node.childElementCount) fill(node, wait);
  const asked = question("rows", { metric: value.every ? "" : metric });
  const found = node.asked === asked ? node.found : await ask(asked, { signal, progress: wait, topic: "rows" });
  Object.assign(node, { asked, found });
  const labels = found.columns.filter((each) => each.label);
  const rows = found.rows.map((line) => Object.fromEntries(found.columns.map((each, i) => [each.key, line[i]])));
  const text = (each) => (each === null || each === undefined ? "" : String(each));
  const chosen = Object.entries(value.filters).filter(([key]) => labels.some((each) => each.key === key));
  const kept = rows.filter((row) => chosen.every(([key, wanted]) => text(row[key]) === wanted));
  const options = (key) => {
    const others = rows.filter((row) => chosen.every(([each, wanted]) => each === key || text(row[each]) === wanted));
    return [...new Set(others.map((row) => text(row[key])))];
  };
  const filter = (each) => {
    const values = options(each.key);
    const current = value.filters[each.key];
    if (values.length > MANY || (values.length < 2 && current === undefined)) return null;
    return field({
      label: each.title[0].toUpperCase() + each.title.slice(1),
      control: select({
        name: `filter-${each.key}`, value: current === undefined ? "*" : `=${current}`,
        options: [{ value: "*", label: "any" }, ...values.map((one) => ({ value: `=${one}`, label: one || "none" }))],
        onchange: (to) => {
          const { [each.key]: _, ...rest } = value.filters;
          state.set({ filters: to === "*" ? rest : { ...rest, [each.key]: to.slice(1) } });
        },
      }),
    });
  };
  refill(node,
    el("div", { class: "choices" },
      value.every ? null : field({ label: "Metric", control: select({ name: "metric", options: told.metrics, value: metric, onchange: (to) => state.set({ metric: to }) }) }),
      labels.map(filter)),
    checkbox({ name: "every", label: "all metrics", checked: value.every, onchange: (to) => state.set({ every: to }) }),
    found.constant.length ? el("p", { class: "soft" }, `In all rows: ${found.constant.map((each) => `${each.label}: ${each.value}`).join("; ")}.`) : null,
    table({
      name: "rows", caption: `Rows of ${value.name}, as table.json writes them`, rows: kept, query: value.search, sort: value.sort,
      onstate: ({ search, sort }) => state.set({ search, sort }, { quiet: true }),
      columns: found.columns.map((each) => ({ ...each, show: show(each.key, each.label) })),
    }));
};
