// Small parts that several payout run pages show: the state of a run, facts, warnings.
import { el, name, seen } from "../../lib/dom.js";

const GOOD = new Set(["approved", "paid"]);

/** The state of a run, as its ledger has it. */
export const stateTag = (state) => el("span", { class: `tag state-${state} ${GOOD.has(state) ? "good" : ""}` }, state);

/** A run as people know it: what it is for, else its id. */
export const runTitle = (run) => (run.period ? name(run.period) : name(run.run));

/** Pairs of words and values. */
export const facts = (rows) => el("dl", { class: "facts" }, rows.map(([what, value]) => el("div", {}, el("dt", {}, what), el("dd", {}, value))));

/** Warnings at length: what each means, and the first of what it is about. */
export const warnings = (list) =>
  list.map((each) =>
    el("details", { class: "warning" },
      el("summary", {}, `${seen(each.title)} `, el("span", { class: "tag" }, each.name)),
      el("p", {}, seen(each.words)),
      each.items.length ? el("ul", {}, each.items.map((item) => el("li", {}, el("bdi", {}, seen(item))))) : null,
      each.more ? el("p", { class: "soft" }, `and ${each.more.toLocaleString("en")} more`) : null));

/** A time as people read it. */
export const moment = (text) => (text ? `${text.slice(0, 10)} ${text.slice(11, 16)}` : "");

/** Lines of words, each set in as far as it says. */
export const lines = (list) => el("ul", { class: "lines" }, list.map(([deep, words]) => el("li", { class: `deep-${Math.min(deep, 12)}` }, seen(words))));
