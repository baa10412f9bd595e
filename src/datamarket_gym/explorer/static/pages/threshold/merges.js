// What merges at theta, in numbers: components, the largest, those that mix, and how many rows are in which.
import { el, fill, shown } from "../../lib/dom.js";

const GROUPS = [[1, 1], [2, 2], [3, 5], [6, 10], [11, 50], [51, 200], [201, Infinity]];

const called = ([low, high]) => (low === 1 ? "alone" : low === high ? `${low} rows` : high === Infinity ? `over ${low - 1} rows` : `${low} to ${high} rows`);
const many = (n) => shown(n, 0);
const fact = (key, title, value, help) => el("div", { title: help }, el("dt", {}, title), el("dd", { "data-fact": key }, value));

/** A part of the page: facts, and rows by the size of their component. */
export class Merges {
  constructor() {
    this.facts = el("dl", { class: "facts", "aria-live": "polite" });
    this.sizes = el("table", { class: "sizes" });
    this.node = el("div", {}, this.facts, this.sizes);
  }

  show(found, rows) {
    fill(this.facts,
      fact("components", "components", many(found.components), "groups of rows that matches of at least theta hold together"),
      fact("largest", "rows in the largest", many(found.largest)),
      found.owners === null ? null : fact("owners", "components with several owners", many(found.owners)),
      found.classes === null ? null : fact("classes", "components with several classes", many(found.classes)));
    const lines = GROUPS.map((group) => {
      let [parts, within] = [0, 0];
      for (const [size, count] of found.sizes) if (size >= group[0] && size <= group[1]) [parts, within] = [parts + count, within + size * count];
      return { group, parts, within };
    });
    fill(this.sizes,
      el("caption", {}, "Rows by the size of their component at this theta"),
      el("tbody", {}, lines.map(({ group, parts, within }) =>
        el("tr", {},
          el("th", { scope: "row" }, called(group)),
          el("td", { class: "n" }, many(within)),
          el("td", { class: "share" }, el("span", { class: "filled", style: { width: `${(100 * within) / rows}%` } })),
          el("td", { class: "n soft" }, group[0] === 1 || !parts ? "" : `${many(parts)} component${parts === 1 ? "" : "s"}`)))));
  }
}
