// Experiments: any result folder as heat maps, figures and rows, beside the paper.
import { ask, latest, problem } from "../lib/ask.js";
import { draw, plain } from "../lib/chart.js";
import { copyButton, dialog, field, select, checkbox, tabs } from "../lib/controls.js";
import { el, facts, fill, shown, name } from "../lib/dom.js";
import { csvOf, download } from "../lib/files.js";
import { keys } from "../lib/keys.js";
import { table } from "../lib/table.js";
import { urlState } from "../lib/url.js";
import { dotChart, lineChart } from "./benchmark/plots.js";

const MOST = 50; // percent of colour in the strongest cell: ink stays readable on it, light and dark

/** How far a value is from the middle, from -1 to 1: for ratios by doublings and halvings, else by the largest. */
const reach = (value, centre, largest) => {
  if (value === null || value === undefined) return 0;
  if (centre === 1) return value <= 0 ? -1 : Math.max(-1, Math.min(1, Math.log2(value)));
  return largest ? Math.max(-1, Math.min(1, value / largest)) : 0;
};

const colour = (share) => {
  const strength = Math.round(MOST * Math.sqrt(Math.abs(share)));
  return strength < 2 ? "var(--paper)" : `color-mix(in srgb, var(${share > 0 ? "--alt" : "--main"}) ${strength}%, var(--paper))`;
};

/** The lines written in a cell. */
const written = (cell) => [
  cell.text,
  cell.error || "",
  cell.paper === null || cell.paper === undefined ? "" : `paper ${Number(cell.paper.toPrecision(4))}${cell.difference === null || cell.difference === undefined ? "" : ` (${cell.difference < 0 ? "\u2212" : "+"}${Math.abs(cell.difference).toFixed(3)})`}${cell.within === false ? " !" : ""}`,
  cell.left_out ? `${cell.seeds} of ${cell.seeds + cell.left_out} seeds` : "",
].filter(Boolean);

const square = (cell, share, { limit, open, where }) => {
  const [first, ...more] = written(cell);
  const above = limit !== null && limit !== undefined && cell.value !== null && cell.value > limit;
  const inside = [el("span", { class: above ? "value above" : "value" }, above ? `${first} \u25b2` : first), more.map((line) => el("span", { class: line.endsWith("!") ? "line miss" : "line" }, line))];
  return el("td", { class: "heat", style: { "background-color": colour(share) } },
    open ? el("button", { type: "button", class: "cell", name: `cell-${where.join("-")}`, "aria-label": `${where[2]}, ${where[3]}: ${written(cell).join(", ")}`, on: { click: open } }, inside) : inside);
};

/** The table. open(i, j) makes cells that can be opened. */
const cellTable = ({ heads, columns, cells, centre, corner, caption, limit = null, open = null }) => {
  const values = cells.flat().filter(Boolean).map((each) => Math.abs(each.value ?? 0));
  const largest = Math.max(0, ...values);
  return el("div", { class: "scroll heats", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { class: "heat-table", "aria-label": caption },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, corner), columns.map((each) => el("th", { scope: "col" }, each)))),
      el("tbody", {}, cells.map((line, i) =>
        el("tr", {}, el("th", { scope: "row" }, heads[i]),
          line.map((cell, j) => (cell
            ? square(cell, reach(cell.value, centre, largest), { limit, open: open ? () => open(i, j) : null, where: [i, j, heads[i], columns[j]] })
            : el("td", { class: "heat none" }, el("span", { class: "soft" }, "\u2013")))))))));
};

/** What the colours mean, in words. */
const legend = (centre) =>
  el("p", { class: "soft legend" },
    el("span", { class: "swatch", style: { "background-color": colour(-1) } }), centre === 1 ? "at most half of 1" : "below 0",
    el("span", { class: "swatch", style: { "background-color": colour(0) } }), centre === 1 ? "1: what honesty pays" : "0",
    el("span", { class: "swatch", style: { "background-color": colour(1) } }), centre === 1 ? "twice that and more" : "the largest here");

/** A button that saves the table as CSV. */
const saveButton = (file, { heads, columns, cells, corner }) => {
  const rows = cells.flatMap((line, i) => line.flatMap((cell, j) => (cell ? [{ down: heads[i], across: columns[j], value: cell.value, se: cell.se, paper: cell.paper, text: cell.text }] : [])));
  const listed = [{ key: "down", title: corner.split(" \\ ")[0] }, { key: "across", title: corner.split(" \\ ")[1] || "column" }, "value", "se", "paper", "text"];
  return el("div", { class: "tools small" },
    el("button", { type: "button", class: "quiet", name: `csv-${file}`, on: { click: () => download(`${file}.csv`, csvOf({ columns: listed, rows }), "text/csv") } }, "CSV"));
};

const PLACES = [{ value: "*across", label: "all, beside one another" }, { value: "*down", label: "all, below one another" }];

/** Replace what a node holds, and stay at the control that was used. */
const refill = (node, ...children) => {
  const at = node.contains(document.activeElement) ? document.activeElement.name : "";
  fill(node, ...children);
  if (at) node.querySelector(`[name="${CSS.escape(at)}"]`)?.focus();
};

const told = (cell) => {
  const rows = [
    ...cell.labels.map((each) => [each.label, each.words]),
    ["mean", cell.value === null ? cell.text : shown(cell.value, 4)],
    ["standard error", cell.se === null ? "none: one seed, or one number in all of them" : shown(cell.se, 4)],
    ["seeds it rests on", cell.seeds ?? "\u2014"],
    ["ratio of means", cell.ratio === null ? null : shown(cell.ratio, 4)],
    ["the paper's value", cell.paper === null ? "none for this cell" : shown(cell.paper, 4)],
    ["difference", cell.difference === null ? null : `${shown(cell.difference, 4)}${cell.tolerance === null ? ", no tolerance claimed" : `; the tolerance is ${shown(cell.tolerance, 4)}: ${cell.within ? "within" : "outside"}`}`],
    ["to know", cell.remarks.length ? cell.remarks.map((each) => el("div", {}, each)) : null],
  ];
  return el("dl", { class: "pairs" }, rows.filter(([, value]) => value !== null).map(([head, value]) => [el("dt", {}, head), el("dd", {}, value)]));
};

let window_ = null;

const openCell = (map, i, j, close) => {
  const cell = map.cells[i]?.[j];
  if (!cell || window_) return;
  const json = JSON.stringify(cell.row, null, 1);
  window_ = dialog(`${map.heads[i]}, ${map.columns[j]}`, told(cell),
    el("details", {}, el("summary", {}, "The row, as table.json has it"), el("pre", {}, json)),
    copyButton("Copy the row", () => json, "copy-row"));
  window_.addEventListener("close", () => {
    window_ = null;
    close();
  });
};

const controls = (map, { value, state, told: about }) =>
  el("div", { class: "choices" },
    field({ label: "Metric", control: select({ name: "metric", options: about.metrics, value: map.metric, onchange: (to) => state.set({ metric: to, cell: "" }) }) }),
    map.free.length > 1 ? [
      field({ label: "Down", control: select({ name: "down", options: map.free, value: map.down, onchange: (to) => state.set({ down: to, across: to === map.across ? map.down : map.across, cell: "" }) }) }),
      field({ label: "Across", control: select({ name: "across", options: map.free, value: map.across, onchange: (to) => state.set({ across: to, down: to === map.down ? map.across : map.down, cell: "" }) }) }),
    ] : null,
    map.labels.filter((each) => each.options.length > 1).map((each) => field({
      label: each.label[0].toUpperCase() + each.label.slice(1),
      control: select({ name: `label-${each.key}`, options: [...each.options, ...PLACES], value: each.value, onchange: (to) => state.set({ picked: { ...value.picked, [each.key]: to }, cell: "" }) }),
    })));

/** What the address names, if it is offered; else the first. */
const offered = (options, value) => (options.some((each) => each.value === value) ? value : options[0].value);

/** The answer to a question; one that the node holds already is not asked again. */
const answered = async (node, { question, signal }, what, more) => {
  const asked = question(what, more);
  const wait = el("div");
  if (!node.childElementCount) fill(node, wait);
  if (node.asked !== asked) Object.assign(node, { found: await ask(asked, { signal, progress: wait, topic: what }), asked });
  return node.found;
};

const heatView = async (node, page) => {
  const { value, state, told: about } = page;
  const metric = offered(about.metrics, value.metric);
  node.classList.add("stale");
  const map = await answered(node, page, "heat", { metric, down: value.down, across: value.across, picked: JSON.stringify(value.picked) });
  node.classList.remove("stale");
  const words = (key) => map.free.find((each) => each.value === key)?.label || "all";
  const corner = `${words(map.down)} \\ ${words(map.across)}`;
  const open = (i, j) => state.set({ cell: `${i}.${j}` }, { push: true });
  const caption = `${map.words[0].toUpperCase()}${map.words.slice(1)} of ${value.name}: mean over seeds \u00b1 standard error${map.paper ? ", the paper's value and the difference (! beyond the tolerance)" : ""}`;
  const listing = { heads: map.heads, columns: map.columns, cells: map.cells, corner };
  const table = cellTable({ ...listing, centre: map.centre, caption, open });
  refill(node, controls(map, page), el("p", {}, caption), legend(map.centre), table, saveButton(`${value.name}-${map.metric}`, listing),
    el("p", { class: "soft" }, "Open a cell for all that is known of it. No error is written where all seeds give one number. ", map.note));
  const [i, j] = value.cell.split(".").map(Number);
  if (value.cell) openCell(map, i, j, () => state.value.cell && state.set({ cell: "" }));
  else window_?.close();
};

const MANY = 80; // values of a label beyond which it is searched for, not chosen

const cellText = (key, whole) => (row) => {
  const value = row[key];
  if (typeof value !== "number") return value;
  return Number.isInteger(value) || whole ? String(value) : value.toFixed(4);
};

const rowView = async (node, page) => {
  const { value, state, told } = page;
  const metric = offered(told.metrics, value.metric);
  const found = await answered(node, page, "rows", { metric: value.every ? "" : metric });
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
      columns: found.columns.map((each) => ({ ...each, show: cellText(each.key, each.label) })),
    }));
};

const paperView = (node, { told, value, state }) => {
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

const cells = (panel, file) => {
  const listing = { heads: panel.heads, columns: panel.columns, corner: `${panel.down} \\ ${panel.across}`, cells: panel.cells.map((line) => line.map((cell) => cell && { ...cell, error: cell.se >= 0.005 ? `\u00b1 ${cell.se.toFixed(2)}` : "" })) };
  const table = cellTable({ ...listing, centre: panel.centre, caption: panel.title, limit: panel.limit });
  const alike = { highest: "The largest numbers are most alike.", lowest: "The smallest numbers are most alike." }[panel.alike];
  return el("section", { class: "wide" }, el("h3", {}, panel.title), alike ? el("p", { class: "soft" }, alike) : legend(panel.centre), table, saveButton(file, listing));
};

/** What the best attacks were, in words, where a panel knows. */
const attacks = (panel) => {
  const first = panel.series?.[0];
  if (!first?.attack.some(Boolean)) return null;
  return el("details", {}, el("summary", {}, "The best attack found against each mechanism"),
    el("dl", { class: "pairs attacks" }, first.at.map((at, i) => [el("dt", {}, panel.heads[at]), el("dd", {}, first.attack[i])])));
};

const plot = (panel, file, make) => {
  const place = el("div");
  const wide = panel.kind === "dots" ? "wide" : "";
  return { node: el("section", { class: wide }, el("h3", {}, panel.title), place, attacks(panel)), drawn: () => draw(place, { ...make(panel, plain, place.clientWidth), name: file }) };
};

const pictureView = async (node, page) => {
  const { value, state, told } = page;
  const picture = offered(told.charts, value.picture);
  const found = await answered(node, page, "chart", { picture });
  const group = found.groups.includes(value.group) ? value.group : found.groups[0] || "";
  const shown = found.panels.map((panel, i) => [panel, `${value.name}-${picture}-${i + 1}`]).filter(([panel]) => !group || panel.group === group);
  const made = shown.map(([panel, file]) => (panel.kind === "cells" ? { node: cells(panel, file) } : plot(panel, file, panel.kind === "dots" ? dotChart : lineChart)));
  refill(node,
    el("div", { class: "choices roomy" },
      told.charts.length > 1 ? field({ label: "Picture", control: select({ name: "picture", options: told.charts, value: picture, onchange: (to) => state.set({ picture: to, group: "" }) }) }) : null,
      found.groups.length > 1 ? field({ label: "Market", control: select({ name: "group", options: found.groups, value: group, onchange: (to) => state.set({ group: to }) }) }) : null),
    el("h3", { class: "picture" }, found.title),
    found.notes.map((line) => el("p", { class: "soft" }, `${line.startsWith("n = ") ? line : line[0].toUpperCase() + line.slice(1)}.`)),
    el("div", { class: "pictures" }, made.map((each) => each.node)));
  await Promise.all(made.filter((each) => each.drawn).map((each) => each.drawn()));
};

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

const factsOf = (told) => facts([
  ["seeds", told.seeds[0] === told.seeds[1] ? String(told.seeds[0]) : `${told.seeds[0]} to ${told.seeds[1]}`],
  ["rows", shown(told.rows, 0)],
  ...(told.paper.claims.length ? [["of the paper", `${told.paper.within} within, ${told.paper.outside} outside`]] : []),
]);

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
    factsOf(told));

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
