// The list of payout runs: ledgers, runs and where they stand.
import { ask, attempt } from "../lib/ask.js";
import { el, fill, many, name, seen } from "../lib/dom.js";
import { table } from "../lib/table.js";
import { link, urlState } from "../lib/url.js";
import { moment, stateTag } from "./payout/parts.js";

export const title = "Payouts";

const ledgerCard = (ledger) =>
  el("li", { class: "card" },
    el("a", { href: link("/payout/ledger", { ledger: ledger.ledger }) }, name(ledger.ledger)),
    ledger.broken
      ? el("p", { class: "note bad" }, seen(ledger.broken))
      : el("p", { class: "soft" }, `${many(ledger.runs)} ${ledger.runs === 1 ? "run" : "runs"}, ${many(ledger.entries)} entries, the last on ${moment(ledger.at)} UTC`,
        ledger.disputes ? `; ${many(ledger.disputes)} open ${ledger.disputes === 1 ? "dispute" : "disputes"}` : ""));

const runTable = (runs, state) =>
  table({
    name: "runs",
    caption: "",
    rows: runs.map((run) => ({ ...run, warned: run.warnings.length })),
    columns: [
      { key: "run", title: "run", show: (run) => el("a", { href: link("/payout/run", { run: run.run }) }, name(run.run)) },
      { key: "state", title: "state", show: (run) => stateTag(run.state) },
      { key: "period", title: "for", show: (run) => (run.period ? name(run.period) : "\u2014") },
      { key: "minor", title: "amount", number: true, show: (run) => run.amount },
      { key: "paid", title: "paid", number: true, show: (run) => `${many(run.paid)} of ${many(run.payees)}` },
      { key: "warned", title: "warnings", number: true, show: (run) => (run.warned ? el("span", { title: run.warnings.join(", ") }, many(run.warned)) : "none") },
      { key: "entered", title: "entered", show: (run) => moment(run.entered) },
    ],
    sort: state.value.sort,
    query: state.value.search,
    onstate: (chosen) => state.set(chosen),
  });

const EMPTY = "No payout run is on show yet. Begin one from a table of units with “New payout run”; or name the folder of your runs when you start the explorer: ";

export async function show(main) {
  const state = urlState({ search: "", sort: "" });
  const wait = el("div");
  fill(main,
    el("div", { class: "payout-head" }, el("h1", {}, "Payouts"), el("a", { class: "press", href: "/payout/new" }, "New payout run")),
    el("p", { class: "soft" }, "From a table of submitted units to payments that can be defended: what was paid, why, and where it stands."),
    wait);
  const found = await attempt(wait, () => ask("/api/payout/runs", { progress: wait }));
  if (!found) return;
  const whole = found.runs.filter((run) => !run.broken);
  const broken = found.runs.filter((run) => run.broken);
  main.append(
    whole.length
      ? el("section", {}, el("h2", {}, "Runs"), runTable(whole, state))
      : el("p", { class: "note" }, EMPTY, el("code", {}, "datamarket explore RUNS/")));
  if (broken.length)
    main.append(el("section", {}, el("h2", {}, "Runs that cannot be read"),
      broken.map((run) => el("p", { class: "note bad" }, el("strong", {}, name(run.run)), ": ", seen(run.broken)))));
  if (found.ledgers.length)
    main.append(el("section", {}, el("h2", {}, "Ledgers"),
      el("p", { class: "soft" }, "What a market owes and has paid: entries that are only ever added."),
      el("ul", { class: "cards" }, found.ledgers.map(ledgerCard))));
}
