// Two runs side by side: two months, or two drafts of one payday.
import { ask, problem } from "../../lib/ask.js";
import { draw } from "../../lib/chart.js";
import { button, field, select } from "../../lib/controls.js";
import { el, fill, name, percent, seen } from "../../lib/dom.js";
import { link, urlState } from "../../lib/url.js";
import { leafed } from "./leafed.js";

export const title = "Two runs";

const many = (n) => n.toLocaleString("en");

const differs = (caption, rows, key) =>
  el("div", { class: "scroll" }, el("table", { class: "stack", "data-table": key },
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, ["", "before", "now"].map((each) => el("th", { scope: "col" }, each)))),
    el("tbody", {}, rows.map((row) => el("tr", { class: row.before === row.after ? "same" : "" },
      el("td", {}, seen(row.what)), el("td", { class: "name", "data-h": "before" }, seen(row.before)), el("td", { class: "name", "data-h": "now" }, seen(row.after)))))));

const warned = (list) =>
  list.length
    ? el("ul", {}, list.map((each) => el("li", {}, el("span", { class: "tag" }, each.name), " ",
      each.before === null ? "came: " : each.after === null ? "went: " : `about ${many(each.after)}, before ${many(each.before)}: `, seen(each.title))))
    : el("p", {}, "Both runs have the same warnings.");

const standing = (each) =>
  each === null ? el("span", { class: "soft" }, "\u2014") : [each.paid, el("br"), el("span", { class: "soft" }, `${percent(each.share)}, place ${many(each.rank)}`)];

const units = (each) => (each === null ? "\u2014" : [many(each.units), each.for_others ? el("span", { class: "soft" }, ` (${many(each.for_others)} for others)`) : ""]);

const changes = (state) => {
  const { a, b, search, sort, leaf, who } = state.value;
  return leafed({
    path: "/api/payday/changes", params: { a, b, who }, name: "changes", caption: "Payees of both runs, the largest changes first", word: "payees",
    empty: "Nobody is in this list.",
    asked: { search, sort, leaf }, onstate: (chosen) => state.set(chosen, { quiet: true }),
    columns: [
      { key: "identity", title: "payee", show: (row) => el("a", { href: link("/payday/run", { run: row.after ? b : a, payee: row.identity }) }, name(row.identity)) },
      { key: "before", title: "before", number: true, show: (row) => standing(row.before) },
      { key: "after", title: "now", number: true, show: (row) => standing(row.after) },
      { key: "change", title: "change", number: true, show: (row) => el("span", { class: row.minor > 0 ? "up" : row.minor < 0 ? "down" : "" }, row.change === null ? `${percent(row.share)} of all` : row.change) },
      { key: "units", title: "units before", number: true, sorts: false, show: (row) => units(row.before) },
      { key: "units-now", title: "units now", number: true, sorts: false, show: (row) => units(row.after) },
      { key: "why", title: "why, as the records tell", sorts: false, show: (row) => (row.reasons.length ? seen(row.reasons.join("; ")) : "\u2014") },
    ],
  });
};

const choosing = (state, runs) => {
  const options = [{ value: "", label: "choose a run" }, ...runs.map((run) => ({ value: run, label: seen(run) }))];
  const pick = (key) => select({ name: key === "a" ? "before" : "after", options, value: state.value[key], onchange: (value) => state.set({ [key]: value, leaf: 0 }, { push: true }) });
  return el("div", { class: "tools two-runs" },
    field({ label: "before", control: pick("a") }), field({ label: "now", control: pick("b") }),
    button({ name: "swap", label: "Swap", onclick: () => state.set({ a: state.value.b, b: state.value.a, leaf: 0 }, { push: true }), kind: "quiet" }));
};

const body = async (place, state) => {
  const { a, b } = state.value;
  if (!a || !b) {
    fill(place, el("p", { class: "note" }, "Choose two runs: the one before, and the one now."));
    return;
  }
  const found = await ask(link("/api/payday/compare", { a, b }), { progress: place });
  const chart = el("div");
  let list = changes(state);
  const whose = select({ name: "who", value: state.value.who, options: [
    { value: "all", label: `all (${many(found.in_both + found.only_before + found.only_after)})` },
    { value: "before", label: `only before (${many(found.only_before)})` },
    { value: "after", label: `only now (${many(found.only_after)})` }],
  onchange: (who) => {
    state.set({ who, leaf: 0 }, { quiet: true });
    const next = changes(state);
    list.replaceWith(next);
    list = next;
  } });
  fill(place,
    el("p", { class: "lead" }, name(found.before.name), " before, ", name(found.after.name), " now: ",
      `${many(found.in_both)} payees are in both, ${many(found.only_before)} only before, ${many(found.only_after)} only now; ${many(found.changed)} are paid otherwise.`),
    found.units_in_both === null ? null : el("p", { class: "soft" }, `About ${many(found.units_in_both)} different units are in both.`),
    el("h2", {}, "The largest changes"), chart,
    el("p", { class: "soft" }, `The picture shows at most ${found.drawn}; the table has everybody.`),
    el("div", { class: "tools two-runs" }, field({ label: "Who", control: whose })), list,
    el("h2", {}, "What differs"),
    found.settings.length + found.inputs.length ? differs("Settings and inputs that are others", [...found.settings, ...found.inputs], "settings") : el("p", {}, "Settings and inputs are the same."),
    differs("Sums", found.totals, "totals"),
    el("h3", {}, "Warnings that came or went"), warned(found.warnings));
  await Promise.all([draw(chart, { ...found.chart, name: "changes", label: `Payments before and now of those whose payment changed most; the table beneath has the numbers.` }), list.ready]);
};

export async function show(main, site) {
  const state = urlState({ a: "", b: "", who: "all", search: "", sort: "", leaf: 0 });
  const place = el("div", { "aria-live": "polite" });
  let on = null;
  const page = async () => {
    on = `${state.value.a}\n${state.value.b}`;
    fill(main, el("p", {}, el("a", { href: "/payday" }, "All paydays")), el("h1", {}, "Two runs"), choosing(state, site.places.runs), place);
    fill(place);
    try {
      await body(place, state);
    } catch (error) {
      fill(place, problem(error));
    }
  };
  state.onchange(() => `${state.value.a}\n${state.value.b}` !== on && page());
  await page();
}
