// The settings of a payout run, where it goes, as a command line, and running it.
import { ask, problem, Told, follow, send } from "../../../lib/ask.js";
import { copyButton, checkbox, field, select, textbox, button } from "../../../lib/controls.js";
import { el, fill } from "../../../lib/dom.js";
import { table } from "../../../lib/table.js";
import { link } from "../../../lib/url.js";
import { warnings } from "../parts.js";

const block = (heading, name, text) =>
  el("div", { class: "written" }, el("div", { class: "tools" }, el("strong", {}, heading), copyButton("Copy", () => text, `copy-${name}`)), el("pre", { "data-written": name }, text));

/** The command line and the TOML. */
export const writtenView = (page) => {
  const place = el("div");
  const node = el("details", { name: "as-command" }, el("summary", {}, "The same on the command line"), place);
  return {
    node,
    tell: ({ command, config, toml }) => {
      const uploads = Object.values(page.state.value.files).some((id) => id.startsWith("upload:"));
      fill(place, command
        ? [
            uploads ? el("p", { class: "soft" }, "Files that were uploaded go by their own names: run it in the folder where they lie.") : null,
            block("Command line", "command", command), block("Or in a folder with this market.toml", "config", config), block("market.toml", "toml", toml),
          ]
        : el("p", { class: "soft" }, "When both tables are there and the settings are good, the command stands here."));
    },
  };
};

const earlier = (page, place) => {
  const boxes = new Map();
  ask("/api/payout/new/earlier", { progress: place }).then(({ runs }) => {
    if (!runs.length) {
      fill(place, el("p", { class: "soft" }, "No approved run lies in the folders that the explorer shows."));
      return;
    }
    const toggle = (id, on) => {
      const left = page.state.value.acquired.filter((each) => each !== id);
      page.state.set({ acquired: on ? [...left, id] : left });
    };
    fill(place, runs.map((run) => {
      const box = checkbox({ name: `acquired-${run.id}`, label: `${run.period || run.id}: ${run.amount}, ${run.state} (${run.id})`, checked: page.state.value.acquired.includes(run.id), onchange: (on) => toggle(run.id, on) });
      boxes.set(run.id, box.querySelector("input"));
      return box;
    }));
  }, (error) => fill(place, problem(error)));
  return () => boxes.forEach((box, id) => (box.checked = page.state.value.acquired.includes(id)));
};

/** Where it goes. */
export const goesView = (page) => {
  const { form, state } = page;
  const wrong = el("div", { "aria-live": "polite" });
  const market = select({ name: "market", value: state.value.market, options: form.markets.length ? form.markets : [{ value: "", label: "none was named" }], onchange: (value) => state.set({ market: value }) });
  const folder = textbox({ name: "run-name", value: state.value.name, onchange: (value) => state.set({ name: value.trim() }) });
  const ledger = select({ name: "ledger", value: state.value.ledger, options: [{ value: "", label: "the one beside the run" }, ...form.ledgers.map((each) => ({ value: each, label: each }))], onchange: (value) => state.set({ ledger: value }) });
  const log = select({ name: "intake", value: state.value.intake, options: [{ value: "", label: "none: times are as the table has them" }, ...form.ledgers.map((each) => ({ value: each, label: each }))], onchange: (value) => state.set({ intake: value }) });
  const list = el("div");
  const moved = earlier(page, list);
  const node = el("div", {},
    el("details", { open: state.value.acquired.length > 0 || Boolean(state.value.intake) }, el("summary", {}, "Earlier runs and the intake log"),
      el("p", { class: "soft" }, "Units that evidence matches to what earlier runs have acquired earn nothing. New ones are paid as new; or, as the settings say, for what they add to it."),
      list, field({ label: "Intake log", help: "A ledger with your intake log: times are when it received each unit, and nothing that the table says.", control: log })),
    el("div", { class: "fields" },
      field({ label: "Market", help: form.markets.length ? "The folder in which the run will lie." : "To run it for real, start the explorer with a folder: datamarket explore MARKET/. A dry run needs none.", control: market }),
      field({ label: "Name of the run", help: "Its folder; one that was stopped is taken up again.", control: folder }),
      field({ label: "Ledger", help: "In which the run is entered; its balances are taken up. A dry run looks at a copy.", control: ledger })),
    wrong);
  return {
    node,
    refresh: () => {
      fill(wrong);
      market.value = state.value.market;
      ledger.value = state.value.ledger;
      log.value = state.value.intake;
      if (document.activeElement !== folder) folder.value = state.value.name;
      moved();
    },
    tell: (error) => fill(wrong, problem(error)),
    showFaults: ({ faults }) => fill(wrong, faults.name ? el("p", { class: "fault", role: "alert" }, faults.name) : null),
  };
};

let lists = 0;

const listed = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);

const READ = {
  text: (text) => text.trim() || undefined,
  suggested: (text) => text.trim() || undefined,
  choice: (text) => text || undefined,
  list: (text) => (listed(text).length ? listed(text) : undefined),
  whole: (text) => (text.trim() === "" ? undefined : Number.isInteger(Number(text)) ? Number(text) : text),
  number: (text) => (text.trim() === "" ? undefined : Number.isFinite(Number(text)) ? Number(text) : text),
};

const written = (value) => (Array.isArray(value) ? value.join(", ") : value === undefined || value === null ? "" : String(value));

const control = (page, about) => {
  const put = (value) => page.choose({ [about.name]: value === about.default ? undefined : value });
  if (about.kind === "flag") {
    const box = el("input", { type: "checkbox", name: about.name, on: { change: () => put(box.checked) } });
    return { node: box, move: (value) => (box.checked = Boolean(value ?? about.default)) };
  }
  if (about.kind === "choice") {
    const box = select({ name: about.name, options: about.choices, value: about.default, onchange: put });
    return { node: box, move: (value) => (box.value = value ?? about.default) };
  }
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
    const used = group.fields.some((each) => page.state.value.set[each.name] !== undefined);
    const node = el("details", { open: group.open || used }, el("summary", {}, group.title), inside);
    return { node, names: group.fields.map((each) => each.name) };
  });
  return {
    node: el("div", { class: "groups" }, groups.map((each) => each.node)),
    refresh: () => {
      for (const [key, each] of fields) each.move(page.state.value.set[key]);
    },
    tell: ({ faults, paid_for }) => {
      const begun = Object.keys(page.state.value.files).length || Object.keys(page.state.value.set).length;
      for (const [key, each] of fields) {
        const words = begun ? faults[key] : undefined;
        each.fault.hidden = !words;
        each.fault.textContent = words || "";
        if (words) each.input.setAttribute("aria-invalid", "true");
        else each.input.removeAttribute("aria-invalid");
      }
      for (const group of groups) if (group.names.some((key) => begun && faults[key])) group.node.open = true;
      fill(paid, paid_for);
    },
  };
};

const TITLES = { identity: "identity", payment: "payment", low: "low", high: "high", without_evidence: "without evidence", balance: "carried forward", units: "units" };

const amount = (text) => Number(String(text).replaceAll(",", ""));

const result = (found) => {
  const rows = found.payments.map((row) => ({ ...row, ...Object.fromEntries(found.columns.filter((key) => key !== "identity" && key !== "units").map((key) => [key, amount(row[key])])), shown: row }));
  const columns = found.columns.map((key) => ({ key, title: TITLES[key] || key, number: key !== "identity", show: (row) => String(row.shown[key]) }));
  const page = link("/payout/run", { run: found.place });
  return el("section", { class: "result", "data-run": found.run, "data-place": found.place },
    el("h3", {}, found.dry ? "Dry run" : "Run", `: ${found.title}`),
    found.dry
      ? el("p", { class: "soft" }, "Nothing was entered into the market's ledger. The run lies among the uploads, and goes when the explorer ends.")
      : el("p", {}, "The run is in the ledger as a draft. Nobody is paid until it is approved."),
    found.notes.map((words) => el("p", { class: "note" }, words)),
    found.warnings.length ? [el("p", {}, el("strong", {}, `${found.warnings.length} ${found.warnings.length === 1 ? "warning stands" : "warnings stand"} before the money`)), warnings(found.warnings, "warned")] : null,
    table({ columns, rows, name: "payments", caption: found.identities > rows.length ? `The ${rows.length} largest payments` : "Payments", search: false }),
    found.identities > rows.length ? el("p", { class: "soft" }, `and ${(found.identities - rows.length).toLocaleString("en")} more on the page of the run`) : null,
    found.sentences.map((words) => el("p", {}, words)),
    el("p", { class: "tools" }, el("a", { href: page, "data-link": "run" }, "Open the run: payments, reasons, report"),
      found.dry ? null : el("a", { href: link("/payout/checks", { run: found.place }) }, found.checks ? "Plan the checks" : "Approve it")));
};

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
      const started = await startedJob(forReal ? "/api/payout/new/run" : "/api/payout/new/dry-run", page.target());
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
