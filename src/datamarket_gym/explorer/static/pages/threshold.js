// Threshold: how alike rows are, which theta they allow, and what merges at it.
import { ask, latest, problem } from "../lib/ask.js";
import { button, field, slider } from "../lib/controls.js";
import { el, fill } from "../lib/dom.js";
import { keys } from "../lib/keys.js";
import { urlState } from "../lib/url.js";
import { Examples } from "./threshold/examples.js";
import { Forest } from "./threshold/forest.js";
import { Merges } from "./threshold/merges.js";
import { Picture } from "./threshold/picture.js";
import { Side } from "./threshold/side.js";

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
