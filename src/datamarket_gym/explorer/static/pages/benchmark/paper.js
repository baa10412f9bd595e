// Everything that the paper says of an experiment, beside ours.
import { el, fill } from "../../lib/dom.js";
import { table } from "../../lib/table.js";

export const paperView = (node, { told, value, state }) => {
  if (node.childElementCount) return;
  const { within, outside, not_claimed: free, claims } = told.paper;
  fill(node,
    el("p", {}, `Everything that the paper says of this experiment: ${within} within the tolerance, ${outside} outside it, ${free} not claimed.`),
    table({
      name: "claims", query: value.search, sort: value.sort, onstate: ({ search, sort }) => state.set({ search, sort }, { quiet: true }),
      columns: [
        { key: "cell", title: "the paper's cell" }, { key: "metric", title: "metric" }, { key: "paper", title: "paper", number: true },
        { key: "ours", title: "ours", number: true }, { key: "difference", title: "difference", number: true }, { key: "tolerance", title: "tolerance", number: true },
        { key: "verdict", title: "verdict", show: (row) => el("span", { class: { within: "tag good", outside: "tag bad" }[row.verdict] || "tag" }, row.verdict) },
        { key: "why", title: "why" },
      ],
      rows: claims,
    }));
};
