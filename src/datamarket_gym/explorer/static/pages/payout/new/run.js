// Running it: for a look or for real, with words and a bar, until it is over, stopped or refused.
import { Told, follow, problem, send } from "../../../lib/ask.js";
import { button } from "../../../lib/controls.js";
import { el, fill } from "../../../lib/dom.js";
import { table } from "../../../lib/table.js";
import { link } from "../../../lib/url.js";
import { warned } from "./checked.js";

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
    found.warnings.length ? [el("p", {}, el("strong", {}, `${found.warnings.length} ${found.warnings.length === 1 ? "warning stands" : "warnings stand"} before the money`)), warned(found.warnings)] : null,
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
