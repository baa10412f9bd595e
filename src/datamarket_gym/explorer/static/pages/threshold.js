// Threshold: how similar rows are, which theta they allow, and what merges at it.
import { ask, attempt, latest, problem } from "../lib/ask.js";
import { button, field, slider } from "../lib/controls.js";
import { content, el, fill, shown, name } from "../lib/dom.js";
import { keys } from "../lib/keys.js";
import { urlState } from "../lib/url.js";
import { Picture } from "./threshold/picture.js";
import { Side } from "./threshold/side.js";

/** The forest of some rows: matches by similarity, the strongest first, and each row's owner and class (numbers). */
export class Forest {
  constructor({ rows, left, right, score, owner = null, label = null }) {
    Object.assign(this, { rows, left, right, score, owner, label });
  }

  /** How many matches there are at theta: those of at least as much. */
  merged(theta) {
    let low = 0;
    let high = this.score.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.score[middle] >= theta) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The first row of each row's component. */
  components(theta) {
    const parent = Int32Array.from({ length: this.rows }, (_, row) => row);
    const root = (row) => {
      while (parent[row] !== row) row = parent[row] = parent[parent[row]];
      return row;
    };
    const matches = this.merged(theta);
    for (let at = 0; at < matches; at += 1) {
      const [a, b] = [root(this.left[at]), root(this.right[at])];
      parent[Math.max(a, b)] = Math.min(a, b);
    }
    for (let row = 0; row < this.rows; row += 1) parent[row] = root(row);
    return parent;
  }

  /** Components at theta: how many, the largest, those that mix owners or classes (null: unknown), and sizes. */
  at(theta) {
    const first = this.components(theta);
    const size = new Int32Array(this.rows);
    for (const each of first) size[each] += 1;
    const sizes = new Map();
    let largest = 0;
    let components = 0;
    for (const each of size) {
      if (!each) continue;
      components += 1;
      largest = Math.max(largest, each);
      sizes.set(each, (sizes.get(each) || 0) + 1);
    }
    return { components, largest, sizes, owners: mixed(first, this.owner), classes: mixed(first, this.label) };
  }

  /** The match that is the n-th just above theta (n > 0), or just below (n < 0); null where there is none. */
  near(theta, n) {
    const at = this.merged(theta) - (n > 0 ? n : n + 1);
    if (at < 0 || at >= this.score.length) return null;
    return { left: this.left[at], right: this.right[at], score: this.score[at] };
  }
}

const mixed = (first, code) => {
  if (!code) return null;
  const many = new Set();
  for (let row = 0; row < first.length; row += 1) if (code[row] !== code[first[row]]) many.add(first[row]);
  return many.size;
};

const GROUPS = [[1, 1], [2, 2], [3, 5], [6, 10], [11, 50], [51, 200], [201, Infinity]];

const called = ([low, high]) => (low === 1 ? "alone" : low === high ? `${low} rows` : high === Infinity ? `over ${low - 1} rows` : `${low} to ${high} rows`);
const many = (n) => shown(n, 0);
const fact = (key, title, value, help) => el("div", { title: help }, el("dt", {}, title), el("dd", { "data-fact": key }, value));

/** A part of the page: facts, and rows by the size of their component. */
class Merges {
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

const WAIT = 160; // ms without a move before contents are asked for
const KEPT = 400; // contents that are remembered

/** A part of the page; `rows` is the answer about the rows shown, `where` the body that names them. */
class Examples {
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
    const found = await attempt(this.node, () => this.fetch(this.where, missing));
    if (!found) return;
    if (this.held.size > KEPT) this.held.clear();
    for (const each of found.contents) this.held.set(each.row, each);
    if (this.shown !== key) return;
    this.shown = "";
    this.show(forest, theta, example);
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
      held ? content(held) : el("p", { class: "soft" }, "Loading."),
      el("figcaption", {}, held ? name(held.name) : `row ${place}`,
        label ? [", ", name(labels[label[row]])] : null, owner ? [", of ", name(owners[owner[row]])] : null));
  }
}

export const title = "Threshold";

const LATE = 200; // ms without a move before the address is written

// What the library writes between backticks is code.
const worded = (text) => text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));

/** The two answers in words, and buttons that put theta where they say. */
class Verdict {
  constructor(go) {
    this.go = go;
    this.policy = el("div", { "aria-live": "polite" });
    this.check = el("div", { "aria-live": "polite" });
    this.places = el("div", { class: "places", role: "group", "aria-label": "Put theta at" });
    this.node = el("div", {}, this.policy, this.check);
  }

  show(check, policy, rows) {
    if (policy) fill(this.policy, el("p", { class: `note ${policy.theta === null ? "bad" : "good"}` }, worded(policy.words), rows?.evidence ? [" This run has used ", el("code", {}, rows.evidence), "."] : null));
    if (check) fill(this.check, el("p", { class: `note ${check.usable ? "good" : "bad"}` }, el("b", {}, "Components: "), `${check.verdict}.`));
    const entry = (key, color, words, value) => (value === null || value === undefined ? null :
      el("button", { type: "button", name: `at-${key}`, class: "quiet", title: "Put theta here", on: { click: () => this.go(value) } },
        el("span", { class: "swatch", style: { background: `var(${color})` } }), `${words} `, el("b", {}, value.toFixed(value > 0.995 && value < 1 ? 4 : 3))));
    fill(this.places,
      check ? [
        entry("pairwise", "--c1", `pairwise bound (p90 of ${check.classes ? "rows of one class" : "any two rows"})`, check.pairwise_floor),
        entry("chaining", "--bad", "chaining bound", check.chaining_floors[String(check.cutoff)]),
        entry("ceiling", "--c3", "ceiling (p10 of copies)", check.near_duplicate_p10),
        entry("middle", "--good", "within the band", check.theta),
      ] : null,
      policy ? entry("recommended", "--c4", "recommended takes", policy.theta) : null);
  }
}

export const show = async (main, site) => {
  const waiting = el("div", {});
  fill(main, el("h1", {}, title), waiting);
  let choices = await ask("/api/threshold/choices", { progress: waiting });
  const { sample, ...options } = choices.defaults; // of how many rows copies are made: as the command does
  const state = urlState({ source: "synthetic", theta: 0.9, example: 1, shown: "sample", columns: {}, content: "", ...options });
  const known = { rows: null, check: null, policy: null, forest: null };
  const within = (to) => Math.min(1, Math.max(0, to));
  let theta = within(state.value.theta);

  const picture = new Picture((to) => move(to));
  const merges = new Merges();
  const examples = new Examples();
  const verdict = new Verdict((to) => move(to));
  const range = slider({ name: "theta", min: 0, max: 1, step: 0.001, value: theta, oninput: (to) => move(to) });
  const side = new Side(choices, (changes, push = false) => state.set(changes, { push }), async () => {
    choices = await ask("/api/threshold/choices");
    side.offer(choices.sources);
  });
  const status = Object.fromEntries(["rows", "check", "policy"].map((key) => [key, el("div", { dataset: { status: key } })]));
  const about = el("p", { class: "soft" });
  const step = (by) => {
    const next = Math.max(1, state.value.example + by);
    if (known.forest && (by < 0 || known.forest.near(theta, next) || known.forest.near(theta, -next))) state.set({ example: next });
  };
  const previous = button({ name: "previous", label: "Nearer to theta", key: "k", onclick: () => step(-1) });
  const below = el("div", {});
  const handled = el("div", {}, verdict.places,
    field({ label: "Theta", help: "drag the line in the chart, or use this slider: arrows move it by a thousandth", control: range }));
  const next = button({ name: "next", label: "Further away", key: "j", onclick: () => step(1) });

  fill(main,
    el("h1", {}, title),
    el("p", { class: "lead" }, "From which similarity on do two rows count as the same? Too low, and honest providers are matched together; too high, and copies pass as new."),
    el("div", { class: "split" }, side.node,
      el("div", { class: "view" },
        status.rows, status.check, status.policy, verdict.node, picture.node, handled, below)));
  fill(below,
    el("h2", {}, "What merges at this theta"), about, merges.node,
    el("h2", {}, "Examples"),
    el("p", { class: "soft" }, "The weakest match that still holds two components together, and the strongest that does not yet."),
    el("div", { class: "tools" }, previous, next), examples.node);

  // Everything that follows theta is drawn here, from what the page holds already.
  const redraw = () => {
    const began = performance.now();
    picture.move(theta);
    if (known.forest) {
      merges.show(known.forest.at(theta), known.rows.rows);
      examples.show(known.forest, theta, state.value.example);
      previous.disabled = state.value.example === 1;
    }
    main.dataset.redraw = (performance.now() - began).toFixed(2);
  };
  let late = null;
  const move = (to) => {
    theta = to;
    if (Number(range.querySelector("input").value) !== to) range.move(to);
    redraw();
    clearTimeout(late);
    late = setTimeout(() => state.set({ theta, example: 1 }), LATE);
  };

  const draw = async () => {
    verdict.show(known.check, known.policy, known.rows);
    await picture.show(known.rows, known.check, known.policy);
    handled.hidden = picture.node.hidden;
  };
  const wanted = {};
  const question = (key, path, taken) => {
    const asked = latest((signal, body) => ask(path, { body, signal, progress: status[key], topic: key, cancellable: key === "check" }));
    return async (body) => {
      const text = JSON.stringify(body);
      if (wanted[key] === text) return;
      wanted[key] = text;
      main.dataset[key] = "asked";
      picture.node.classList.add("stale");
      try {
        const found = await asked(body);
        if (!found) return;
        known[key] = found;
        taken(found, body);
      } catch (error) {
        known[key] = null;
        taken(null, body);
        fill(status[key], problem(error));
        const said = Object.values(status).filter((each) => each.textContent === status[key].textContent);
        if (said.length > 1) fill(status[key]); // once is enough
      }
      main.dataset[key] = known[key] ? "shown" : "refused";
      if (["rows", "check", "policy"].every((each) => main.dataset[each] !== "asked")) picture.node.classList.remove("stale");
      await draw();
    };
  };
  const askRows = question("rows", "/api/threshold/rows", (found, { market, ...where }) => {
    known.forest = found && new Forest(found);
    below.hidden = !found;
    if (!found) return;
    examples.begin(found, where);
    const all = found.of.toLocaleString("en");
    fill(about, found.market ? `Market 1 of those simulated: ${found.rows.toLocaleString("en")} of ${all} rows, dealt to ${found.owners.length} providers.`
      : found.rows < found.of ? `A sample: ${found.rows.toLocaleString("en")} of ${all} rows.` : `All ${all} rows.`,
    " Components are rows joined by matches of at least theta, by way of others too; lineage, which ", el("code", {}, "recommended"), " pays by, matches each row to its nearest earlier one alone.");
    redraw();
  });
  const askCheck = question("check", "/api/threshold/check", () => fill(verdict.check));
  const askPolicy = question("policy", "/api/threshold/policy", () => fill(verdict.policy));

  const refresh = (value) => {
    side.show(value);
    if (within(value.theta) !== theta) {
      theta = within(value.theta);
      range.move(theta);
    }
    redraw();
    const { source, columns, content, shown, partition, providers, per_provider, trials, variants, cutoff, seed } = value;
    const where = { source, columns, content };
    askRows({ ...where, market: shown === "market" ? { shown, partition, providers, per_provider, seed } : { seed } });
    askCheck({ ...where, check: { partition, providers, per_provider, trials, variants, cutoff, seed } });
    askPolicy(where);
  };
  state.onchange(refresh);
  const unkeys = keys({
    j: ["the next example, further from theta", () => step(1)],
    k: ["the previous example, nearer to theta", () => step(-1)],
    ArrowLeft: ["a lower theta", () => move(within(Math.round(1000 * theta - 1) / 1000))],
    ArrowRight: ["a higher theta", () => move(within(Math.round(1000 * theta + 1) / 1000))],
  });
  refresh(state.value);
  return () => {
    unkeys();
    clearTimeout(late);
    picture.close();
    for (const key of ["rows", "check", "policy", "redraw"]) delete main.dataset[key];
  };
};
