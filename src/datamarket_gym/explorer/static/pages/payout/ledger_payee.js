// The account of one payee: earned, owed, on its way, sent, carried forward; it adds up to the cent.
import { field } from "../../lib/controls.js";
import { el, fill, name } from "../../lib/dom.js";
import { link } from "../../lib/url.js";
import { actionForm } from "./ledger_forms.js";

const grid = (caption, heads, lines) =>
  el("div", { class: "scroll" }, el("table", { class: "stack" }, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads.map(([head, figure]) => el("th", { scope: "col", class: figure ? "n" : "" }, head)))),
    el("tbody", {}, lines.map((cells) => el("tr", {}, cells.map((cell, i) => el("td", { class: heads[i][1] ? "n" : "name", "data-h": heads[i][0] }, cell)))))));

const account = (each) => el("section", {},
  el("h3", {}, `${each.currency}: ${each.earned} earned`),
  el("dl", { class: "facts" }, each.facts.map(([what, amount]) => el("div", {}, el("dt", {}, what), el("dd", {}, amount)))),
  grid("Every movement, and where the money is after it", [["entry", true], ["day"], ["what"], ["amount", true], ...each.heads.map((head) => [head, true])], [
    ["", "", el("strong", {}, "before"), "", ...each.opening],
    ...each.lines.map((line) => [line.entry, line.day, [line.words, line.period ? ` (${line.period})` : ""], line.amount, ...line.after]),
    ["", "", el("strong", {}, "after"), "", ...each.closing]]),
  grid("Runs", [["for"], ["approved on"], ["run"], ["state"], ["earned", true]], each.runs.map((run) => [run.period, run.day, el("code", {}, run.run), run.state, run.earned])));

export const showPayee = async (place, page) => {
  const { payee, since, until } = page.state.value;
  const day = (key, label) => field({ label, control: el("input", { type: "date", name: key, value: page.state.value[key], on: { change: (event) => page.state.set({ [key]: event.target.value }) } }) });
  const file = (form) => link("/api/payout/ledger/statement", { ledger: page.ledger, payee, since, until, form });
  const frame = el("div");
  fill(place, el("p", {}, el("a", { href: link("/payout/ledger", { ledger: page.ledger }) }, "\u2190 all payees")), el("h2", {}, "Account of ", name(payee)),
    el("div", { class: "tools" }, day("since", "From"), day("until", "To"), el("a", { href: file("html"), download: "", name: "statement-html" }, "Save as a page"), el("a", { href: file("csv"), download: "", name: "statement-csv" }, "Save as CSV")), frame);
  const got = await page.get("payee", { payee, since, until }, { progress: frame });
  fill(frame,
    el("p", { class: "soft" }, `${got.days} (days of UTC)`),
    got.notes.map((note) => el("p", { class: "note" }, note)),
    got.open_disputes.map((each) => el("p", { class: "note" }, `Dispute ${each.number} of `, name(each.payee), " is open.")),
    got.accounts.map(account),
    got.drafts.length ? grid("Not approved yet: nothing is owed by a draft", [["for"], ["entered on"], ["run"], ["state"], ["would earn", true]], got.drafts.map((run) => [run.period, run.day, el("code", {}, run.run), run.state, `${run.currency} ${run.earned}`])) : null,
    got.events.length ? grid("Holds, checks and disputes", [["entry", true], ["day"], ["what"]], got.events.map((event) => [event.entry, event.day, event.words])) : null,
    got.in_runs.filter((run) => run.id).length ? el("p", {}, "Its runs: ", got.in_runs.filter((run) => run.id).map((run, i) => [i ? ", " : "", el("a", { href: link("/payout/run", { run: run.id, payee }) }, name(run.period || run.name))])) : null,
    el("p", { class: "soft" }, "As of this entry of the ledger: ", el("code", {}, got.checkpoint)),
    actionForm(page, payee));
};
