// Two pairs side by side: the last that has merged at theta, and the next that would.
import { ask, latest, problem } from "../../lib/ask.js";
import { el, fill, name, svg } from "../../lib/dom.js";

const WAIT = 160; // ms without a move before contents are asked for
const KEPT = 400; // contents that are remembered

const contentOf = (held) => {
  if (!held) return el("p", { class: "soft" }, "Loading.");
  if (held.image) return el("img", { src: held.image, alt: `the picture of ${held.name}` });
  if (held.text !== undefined) return el("p", { class: "text", dir: "auto", tabindex: "0" }, held.text);
  if (held.figures) return el("p", { class: "mono" }, held.figures.join("  "));
  return svg("svg", { viewBox: "0 0 256 40", class: "curve", role: "img", "aria-label": `${held.count} numbers as a curve` }, svg("path", { d: held.path }));
};

/** A part of the page; `rows` is the answer about the rows shown, `where` the body that names them. */
export class Examples {
  constructor() {
    this.held = new Map();
    this.node = el("div", { class: "examples" });
    this.fetch = latest((signal, where, wanted) => ask("/api/threshold/contents", { body: { ...where, rows: wanted }, signal, topic: "contents" }));
  }

  /** Other rows: nothing that was loaded is of use. */
  begin(rows, where) {
    Object.assign(this, { rows, where });
    this.held.clear();
    this.shown = "";
  }

  show(forest, theta, example) {
    const [above, below] = [forest.near(theta, example), forest.near(theta, -example)];
    const key = JSON.stringify([above, below]);
    if (key === this.shown) return;
    this.shown = key;
    const nth = example === 1 ? "" : `, ${example} matches from theta`;
    fill(this.node,
      this.card("above", `Matched at this theta${nth}`, above, "Nothing is matched at this theta."),
      this.card("below", `Not matched at this theta${nth}`, below, "All that can be matched is matched."));
    clearTimeout(this.timer);
    const wanted = [above, below].filter(Boolean).flatMap((pair) => [this.rows.place[pair.left], this.rows.place[pair.right]]);
    const missing = [...new Set(wanted)].filter((row) => !this.held.has(row));
    if (missing.length) this.timer = setTimeout(() => this.load(missing, forest, theta, example), WAIT);
  }

  async load(missing, forest, theta, example) {
    const key = this.shown;
    try {
      const found = await this.fetch(this.where, missing);
      if (!found) return;
      if (this.held.size > KEPT) this.held.clear();
      for (const each of found.contents) this.held.set(each.row, each);
      if (this.shown !== key) return;
      this.shown = "";
      this.show(forest, theta, example);
    } catch (error) {
      fill(this.node, problem(error));
    }
  }

  card(side, title, pair, none) {
    if (!pair) return el("section", { class: "card", dataset: { side } }, el("h3", {}, title), el("p", { class: "soft" }, none));
    return el("section", { class: "card", dataset: { side } },
      el("h3", {}, title),
      el("p", { class: "soft" }, "similarity ", el("b", { "data-score": pair.score }, pair.score.toFixed(4)), this.relation(pair)),
      el("div", { class: "two" }, this.half(pair.left), this.half(pair.right)));
  }

  relation({ left, right }) {
    const { owner, label } = this.rows;
    const parts = [];
    if (owner) parts.push(owner[left] === owner[right] ? "one owner" : "two owners");
    if (label) parts.push(label[left] === label[right] ? "one class" : "two classes");
    return parts.length ? `, ${parts.join(", ")}` : "";
  }

  half(row) {
    const place = this.rows.place[row];
    const held = this.held.get(place);
    const { owner, owners, label, labels } = this.rows;
    return el("figure", { dataset: { row: place } },
      contentOf(held),
      el("figcaption", {}, held ? name(held.name) : `row ${place}`,
        label ? [", ", name(labels[label[row]])] : null, owner ? [", of ", name(owners[owner[row]])] : null));
  }
}
