// Experiments: any result folder as heat maps, pictures and rows, beside the paper's numbers.
import { ask, latest, problem } from "../lib/ask.js";
import { field, select, tabs } from "../lib/controls.js";
import { el, fill, name, shown } from "../lib/dom.js";
import { keys } from "../lib/keys.js";
import { urlState } from "../lib/url.js";
import { heatView } from "./benchmark/heat.js";
import { pictureView } from "./benchmark/pictures.js";
import { paperView } from "./benchmark/paper.js";
import { rowView } from "./benchmark/rows.js";

export const title = "Benchmark";

const DEFAULTS = {
  result: "", name: "", view: "Heat map", metric: "", down: "", across: "", picked: {}, cell: "",
  picture: "", group: "", every: false, filters: {}, search: "", sort: "",
};
/** What belongs to one experiment, and is forgotten with it. */
const FRESH = { metric: "", down: "", across: "", picked: {}, cell: "", picture: "", group: "", filters: {}, search: "", sort: "" };

const empty = () => [
  el("p", { class: "note" }, "No result folder was named. A result folder is a run of an experiment, a folder of such runs, or one of compact results."),
  el("p", {}, "Make one (a minute on two cores), then open it:"),
  el("pre", {}, "datamarket run s2 --seeds 5 --out runs/s2\ndatamarket explore runs"),
  el("p", { class: "soft" }, "The results that come with the source lie in docs/results: datamarket explore docs/results"),
];

const question = (value, what, more = {}) =>
  `/api/benchmark/${what}?${new URLSearchParams({ result: value.result, name: value.name, ...more })}`;

const facts = (told) =>
  el("dl", { class: "facts" },
    [
      ["seeds", told.seeds[0] === told.seeds[1] ? String(told.seeds[0]) : `${told.seeds[0]} to ${told.seeds[1]}`],
      ["rows", shown(told.rows, 0)],
      told.paper.claims.length ? ["of the paper", `${told.paper.within} within, ${told.paper.outside} outside`] : null,
    ].filter(Boolean).map(([head, text]) => el("div", {}, el("dt", {}, head), el("dd", {}, text))));

/** What is shown of an experiment, each as a panel that loads when it is opened. */
const views = (told) => ({
  "Heat map": heatView,
  ...(told.charts.length ? { Pictures: pictureView } : {}),
  ...(told.paper.claims.length ? { Paper: paperView } : {}),
  Rows: rowView,
});

export const show = async (main, site) => {
  main.append(el("h1", {}, title));
  const results = site.places.results;
  if (!results.length) {
    main.append(...empty());
    return undefined;
  }
  const state = urlState({ ...DEFAULTS, result: results[0] });
  const choose = el("div", { class: "choices" });
  const head = el("div", { "aria-live": "polite" });
  const body = el("div");
  main.append(choose, head, body);
  let names = [];
  let held = {}; // what is on the page: the folder, the experiment, what is told of it

  const experiments = async (signal, value) => {
    if (held.result !== value.result) {
      const found = await ask(`/api/benchmark/experiments?${new URLSearchParams({ result: value.result })}`, { signal, progress: head });
      held = { result: value.result };
      names = found.experiments;
    }
    fill(choose,
      field({ label: "Result folder", control: select({ name: "result", options: results, value: value.result, onchange: (to) => state.set({ ...FRESH, result: to, name: "" }, { push: true }) }) }),
      names.length ? field({
        label: "Experiment",
        control: select({
          name: "experiment", value: value.name || names[0].name,
          options: names.map((each) => ({ value: each.name, label: `${each.name}${each.title ? `: ${each.title}` : ""}${each.finished ? "" : " (not finished)"}` })),
          onchange: (to) => state.set({ ...FRESH, name: to }, { push: true }),
        }),
      }) : null);
  };

  const tell = (told) => fill(head,
    el("h2", {}, name(told.experiment === told.name ? told.name : `${told.name} (${told.experiment})`), `: ${told.title}`),
    told.about && told.about !== told.title ? el("details", {}, el("summary", {}, "About this experiment"), el("p", {}, told.about), told.made ? el("p", { class: "soft" }, `Made with ${told.made}.`) : null) : null,
    facts(told));

  const panels = (told, value) => {
    const offered = views(told);
    const nodes = Object.fromEntries(Object.keys(offered).map((each) => [each, el("div", { class: "view" })]));
    const chosen = value.view in offered ? value.view : "Heat map";
    fill(body, tabs("view", nodes, chosen, (to) => state.set({ view: to, cell: "" }, { push: true })));
    return { nodes, offered, chosen };
  };

  const render = latest(async (signal) => {
    try {
      await experiments(signal, state.value);
      const value = { ...state.value, name: state.value.name || names[0]?.name || "" };
      if (!value.name) {
        fill(head, el("p", { class: "note" }, "This folder holds no results. Run an experiment into it: ", el("code", {}, "datamarket run s2 --out FOLDER/s2")));
        fill(body);
        return;
      }
      if (held.name !== value.name) {
        fill(body);
        const told = await ask(question(value, "experiment"), { signal, progress: head });
        held = { ...held, name: value.name, told };
        tell(told);
      }
      const wanted = value.view in views(held.told) ? value.view : "Heat map";
      if (held.open?.name !== value.name || held.open.chosen !== wanted || !body.childElementCount) held.open = { name: value.name, ...panels(held.told, value) };
      const place = held.open.nodes[wanted];
      await held.open.offered[wanted](place, { value, state, told: held.told, signal, question: (what, more) => question(value, what, more) });
    } catch (error) {
      if (error.name === "AbortError") return;
      held = { result: held.result };
      fill(head, problem(error));
      fill(body);
    }
  });

  const step = (by) => {
    const at = names.findIndex((each) => each.name === (state.value.name || names[0]?.name));
    const next = names[at + by];
    if (next) state.set({ ...FRESH, name: next.name }, { push: true });
  };
  keys({
    "[": ["the experiment before", () => step(-1)],
    "]": ["the next experiment", () => step(1)],
    h: ["heat map", () => state.set({ view: "Heat map" }, { push: true })],
    p: ["pictures", () => state.set({ view: "Pictures" }, { push: true })],
    r: ["rows", () => state.set({ view: "Rows" }, { push: true })],
  });
  state.onchange(render);
  await render();
  return undefined;
};
