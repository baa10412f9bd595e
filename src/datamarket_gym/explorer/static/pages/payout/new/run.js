// The settings of a payout run, where it goes, as a command line, and running it.
import { ask, attempt, problem, Told, follow, send } from "../../../lib/ask.js";
import { copyButton, checkbox, field, select, textbox, button } from "../../../lib/controls.js";
import { el, fill, many, name } from "../../../lib/dom.js";
import { grid } from "../../../lib/table.js";
import { link } from "../../../lib/url.js";
import { warnings } from "../parts.js";

const block = (heading, key, text) =>
  el("div", { class: "written" }, el("div", { class: "tools" }, el("strong", {}, heading), copyButton("Copy", () => text, `copy-${key}`)), el("pre", { "data-written": key }, text));

/** The command line and the TOML. */
export const writtenView = (page) => {
  const place = el("div");
  const node = el("details", { name: "as-command" }, el("summary", {}, "The same on the command line"), place);
  return {
    node,
    tell: ({ command, config, toml }) => {
      const uploads = Object.values(page.state.value.set).some((value) => String(value).startsWith("upload:"));
      fill(place, command
        ? [
            uploads ? el("p", { class: "soft" }, "Files that were uploaded go by their own names: run it in the folder where they lie.") : null,
            block("Command line", "command", command), block("Or in a folder with this market.toml", "config", config), block("market.toml", "toml", toml),
          ]
        : el("p", { class: "soft" }, "When both tables are there and the settings are good, the command stands here."));
    },
  };
};

/** Where it goes. */
export const goesView = (page) => {
  const { form, state, first } = page;
  const markets = Object.keys(form.markets);
  const wrong = el("div", { "aria-live": "polite" });
  const notes = el("div");
  /** Another market: the settings are those of its market.toml, but for what was changed here. */
  const move = (market) => {
    const before = first(state.value.market);
    const own = Object.entries(state.value.set).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(before[key]));
    state.set({ market, set: { ...first(market), ...Object.fromEntries(own) } });
  };
  const market = select({ name: "market", value: state.value.market, options: markets.length ? markets : [{ value: "", label: "none was named" }], onchange: move });
  const folder = textbox({ name: "run-name", value: state.value.name, onchange: (value) => state.set({ name: value.trim() }) });
  const node = el("div", {}, notes,
    el("div", { class: "fields" },
      field({ label: "Market", help: markets.length ? "The folder in which the run will lie; its market.toml fills this page." : "To run it for real, start the explorer with a folder: datamarket explore MARKET/. A dry run needs none.", control: market }),
      field({ label: "Name of the run", help: "Its folder; one that was stopped is taken up again.", control: folder })),
    wrong);
  return {
    node,
    refresh: () => {
      fill(wrong);
      fill(notes, (form.markets[state.value.market]?.notes || []).map((words) => el("p", { class: "note bad" }, words)));
      market.value = state.value.market;
      if (document.activeElement !== folder) folder.value = state.value.name;
    },
    /** What is wrong: words, or a note. */
    tell: (fault) => fill(wrong, typeof fault === "string" ? el("p", { class: "fault", role: "alert" }, fault) : fault),
  };
};

let lists = 0;

const listed = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);

const READ = {
  text: (text) => text.trim() || undefined,
  suggested: (text) => text.trim() || undefined,
  list: (text) => (listed(text).length ? listed(text) : undefined),
  whole: (text) => (text.trim() === "" ? undefined : Number.isInteger(Number(text)) ? Number(text) : text),
  number: (text) => (text.trim() === "" ? undefined : Number.isFinite(Number(text)) ? Number(text) : text),
};

const written = (value) => (Array.isArray(value) ? value.join(", ") : value === undefined || value === null ? "" : String(value));

/** A choice among some; none is what is left out. */
const choice = (about, options, put) => {
  const box = select({ name: about.name, options, value: written(about.default), onchange: (value) => put(value || undefined) });
  return { node: box, move: (value) => (box.value = value ?? written(about.default)) };
};

/** Earlier runs that are approved: boxes to be ticked, or a choice of one. */
const earlier = (page, about, put) => {
  const place = el("div", {}, "\u2026");
  let moved = () => {};
  let last;
  attempt(place, async () => {
    const { runs } = await page.earlier();
    const words = (run) => `${run.period || run.run}: ${run.amount}, ${run.state} (${run.run})`;
    if (about.kind === "run") {
      const made = choice(about, [{ value: "", label: "none" }, ...runs.map((run) => ({ value: run.run, label: words(run) }))], put);
      moved = made.move;
      fill(place, made.node);
    } else {
      const chosen = () => page.state.value.set[about.name] || [];
      const boxes = runs.map((run) => checkbox({ name: `${about.name}-${run.run}`, label: words(run), onchange: (on) => put([...chosen().filter((each) => each !== run.run), ...(on ? [run.run] : [])]) }));
      moved = (value) => boxes.forEach((box, i) => (box.querySelector("input").checked = (value || []).includes(runs[i].run)));
      fill(place, runs.length ? boxes : el("span", { class: "soft" }, "No approved run lies in the folders that the explorer shows."));
    }
    moved(last);
  });
  return { node: place, move: (value) => moved((last = value)) };
};

/** The control of a setting, by its kind. */
const control = (page, about) => {
  const same = (value) => JSON.stringify(value) === JSON.stringify(about.default) || (Array.isArray(value) && !value.length);
  const put = (value) => page.choose({ [about.name]: same(value) ? undefined : value });
  if (about.kind === "flag") {
    const box = el("input", { type: "checkbox", name: about.name, on: { change: () => put(box.checked) } });
    return { node: box, move: (value) => (box.checked = Boolean(value ?? about.default)) };
  }
  if (about.kind === "choice") return choice(about, about.choices, put);
  if (about.kind === "ledger") return choice(about, [{ value: "", label: "as if left out" }, ...page.form.ledgers], put);
  if (about.kind === "run" || about.kind === "runs") return earlier(page, about, put);
  const list = about.choices ? `suggested-${(lists += 1)}` : null;
  const box = el("input", {
    type: "text", name: about.name, autocomplete: "off", spellcheck: "false", list, placeholder: written(about.default),
    inputmode: about.kind === "whole" || about.kind === "number" || about.name === "amount" ? "decimal" : null,
    on: { change: () => put(READ[about.kind](box.value)) },
  });
  const node = list ? el("div", {}, box, el("datalist", { id: list }, about.choices.map((each) => el("option", { value: each })))) : box;
  return { node, input: box, move: (value) => document.activeElement !== box && (box.value = written(value)) };
};

/** The form. */
export const settingsView = (page) => {
  const { state } = page;
  let runs = null;
  page.earlier = () => (runs ??= ask("/api/payout/runs").then((found) => ({ runs: found.runs.filter((run) => ["approved", "paid"].includes(run.state)) })));
  const fields = new Map();
  const paid = el("p", { class: "soft", "aria-live": "polite", "data-paid-for": "" });
  const one = (about) => {
    const made = control(page, about);
    const fault = el("span", { class: "fault", role: "alert", hidden: true });
    const row = field({ label: about.label, help: about.help, control: made.node, note: fault });
    row.dataset.setting = about.name;
    row.classList.toggle("yes", about.kind === "flag");
    fields.set(about.name, { ...made, input: made.input || made.node, fault });
    return about.name === "learner" ? [row, paid] : row;
  };
  const groups = page.form.groups.map((group) => {
    const inside = el("div", { class: "fields" }, group.fields.map(one));
    const used = group.fields.some((each) => state.value.set[each.name] !== undefined);
    const node = el("details", { open: group.open || used }, el("summary", {}, group.title), inside);
    return { node, names: group.fields.map((each) => each.name) };
  });
  return {
    node: el("div", { class: "groups" }, groups.map((each) => each.node)),
    refresh: () => {
      for (const [key, each] of fields) each.move(state.value.set[key]);
    },
    tell: ({ faults, paid_for }) => {
      const begun = Object.keys(state.value.set).length > 0;
      for (const [key, each] of fields) {
        const words = begun ? faults[key] : undefined;
        each.fault.hidden = !words;
        each.fault.textContent = words || "";
        if (words) each.input.setAttribute("aria-invalid", "true");
        else each.input.removeAttribute("aria-invalid");
      }
      for (const group of groups) if (begun && group.names.some((key) => faults[key])) group.node.open = true;
      fill(paid, paid_for);
    },
  };
};

const result = (found) =>
  el("section", { class: "result", "data-run": found.run, "data-place": found.place },
    el("h3", {}, found.dry ? "Dry run" : "Run", `: ${found.title}`),
    found.dry
      ? el("p", { class: "soft" }, "Nothing was entered into the market's ledger. The run lies among the uploads, and goes when the explorer ends.")
      : el("p", {}, "The run is in the ledger as a draft. Nobody is paid until it is approved."),
    el("p", { class: "tools" }, el("a", { href: link("/payout/run", { run: found.place }), "data-link": "run" }, "Open the run: payments, reasons, report"),
      found.dry ? null : el("a", { href: link("/payout/checks", { run: found.place }) }, found.checks ? "Draw the checks" : "Approve it")),
    found.notes.map((words) => el("p", { class: "note" }, words)),
    found.warnings.length ? [el("p", {}, el("strong", {}, `${found.warnings.length} ${found.warnings.length === 1 ? "warning stands" : "warnings stand"} before the money`)), warnings(found.warnings, "warned")] : null,
    grid(found.identities > found.payments.length ? `The ${found.payments.length} largest payments of ${many(found.identities)}` : "Payments",
      found.columns.map((key) => [key.replaceAll("_", " "), key !== "identity"]),
      found.payments.map((row) => found.columns.map((key) => (key === "identity" ? name(row[key]) : row[key])))),
    found.sentences.map((words) => el("p", {}, words)));

/** The buttons, and what came of them. */
export const runView = (page) => {
  const { state } = page;
  const outcome = el("div", { "aria-live": "polite" });
  const waiting = el("div");
  const why = el("p", { class: "soft" });
  const stop = new AbortController();
  const old = el("p", { class: "soft", hidden: true }, "What is asked for has changed since this run.");
  let busy = false;
  let good = false;
  let watched = "";
  let asked = "";
  const dry = button({ name: "dry-run", label: "Dry run", kind: "main", onclick: () => begin(false) });
  const real = button({ name: "real-run", label: "Do it for real", onclick: () => begin(true) });
  const lit = () => {
    dry.disabled = busy || !good;
    real.disabled = busy || !good || !state.value.market;
    why.textContent = busy ? "" : !good ? "Choose both tables and mend the settings that are marked; then it can be run." : !state.value.market ? "A dry run touches nothing. To run it for real, name a market's folder when the explorer is started." : "A dry run touches nothing; for real, the run is entered into the ledger as a draft.";
  };
  const begin = async (forReal) => {
    busy = true;
    lit();
    fill(outcome);
    try {
      asked = JSON.stringify(page.target());
      const started = await startedJob(`/api/payout/new/${forReal ? "run" : "dry-run"}`, page.target());
      watched = started;
      state.set({ job: started }, { push: true });
      await watch(started);
    } catch (error) {
      over(error);
    }
  };
  const watch = async (job) => {
    busy = true;
    watched = job;
    lit();
    fill(outcome);
    try {
      const found = await follow(job, { signal: stop.signal, progress: waiting, cancellable: true });
      busy = false;
      lit();
      fill(outcome, result(found));
    } catch (error) {
      over(error);
    }
  };
  const over = (error) => {
    if (error.name === "AbortError") return;
    busy = false;
    lit();
    if (error instanceof Told && error.status === 409) {
      fill(outcome, el("p", { class: "note", "data-stopped": "" }, "The run was stopped. What it had done is kept: run it again, with the same tables and settings, and it goes on from there."));
    } else if (error instanceof Told && error.status === 404) {
      fill(outcome, el("p", { class: "note" }, "The explorer does not know this run any more. Run it again: what was done before is taken up."));
    } else fill(outcome, el("h3", {}, "The run failed"), problem(error));
  };
  lit();
  return {
    node: el("div", { class: "run" }, el("div", { class: "tools" }, dry, real), why, waiting, old, outcome),
    ready: (now) => {
      good = now;
      old.hidden = !asked || !outcome.hasChildNodes() || asked === JSON.stringify(page.target());
      lit();
    },
    /** After a reload, and when the reader goes back or forward: the run that the address names. */
    refresh: () => {
      if (state.value.job === watched || busy) return;
      watched = state.value.job;
      asked = "";
      if (watched) watch(watched);
      else fill(outcome);
    },
    leave: () => stop.abort(),
  };
};

/** Begin long work; the id of its job. */
const startedJob = async (path, body) => {
  const response = await send(path, { method: "POST", body: JSON.stringify(body) });
  const told = await response.json();
  if (!response.ok) throw new Told(told.error || `The explorer answered ${response.status}.`, response.status);
  return told.job;
};
