// A ledger: what the market owes and has sent, to whom, by which entries; disputes, rules, and whether it is whole.
import { ask, attempt } from "../../lib/ask.js";
import { dialog, select, field, tabs } from "../../lib/controls.js";
import { el, facts, fill, many, name } from "../../lib/dom.js";
import { grid, pagedTable, remote, table } from "../../lib/table.js";
import { link, urlState } from "../../lib/url.js";
import { exportForm } from "./checks_pay.js";
import { actionForm, batchForms, rulesForm, verifyForm, disputesPanel } from "./ledger_forms.js";
import { good, whoAmI } from "./parts.js";

const PLACES = { ordered: "on its way", owed: "owed", sent: "sent", carried: "carried forward" };

const payeeLink = (page, payee) => (payee ? el("a", { href: link("/payout/ledger", { ledger: page.ledger, payee }) }, name(payee)) : "");

/** Payees or entries; what is searched stands in the address. */
const ledgerTable = (page, { what, columns, ...more }) => {
  const { find, page: first } = page.state.value;
  return pagedTable({
    name: what, word: what, columns: columns.map((column) => ({ ...column, sorts: false })),
    fetch: remote(`/api/payout/ledger/${what}`, () => ({ ledger: page.ledger, kind: what === "entries" ? page.state.value.kind : "" })),
    asked: { search: find, sort: "", page: first }, onstate: (chosen) => page.state.set({ find: chosen.search, page: chosen.page }, { quiet: true }), ...more,
  });
};

/** Where everybody's money is. */
const payeesPanel = (page) => ledgerTable(page, {
  what: "payees", empty: "Nobody is owed anything: no run was approved yet.",
  columns: [
    { key: "payee", title: "payee", show: (row) => payeeLink(page, row.payee) }, { key: "currency", title: "currency" },
    ...page.found.places.map((place, i) => ({ key: place, title: PLACES[place], number: true, show: (row) => row.amounts[i] })),
    { key: "held", title: "held", show: (row) => (row.held ? name(row.held) : "") }],
});

/** The entries, the newest first. */
const entriesPanel = (page) => ledgerTable(page, {
  what: "entries",
  extra: (load) => select({ name: "kind", value: page.state.value.kind, options: [{ value: "", label: "all kinds" }, ...page.found.kinds], onchange: (kind) => {
    page.state.set({ kind }, { quiet: true });
    load();
  } }),
  columns: [
    { key: "number", title: "entry", number: true }, { key: "at", title: "time (UTC)" }, { key: "kind", title: "what" },
    { key: "payee", title: "payee", show: (row) => payeeLink(page, row.payee) }, { key: "amount", title: "amount", number: true },
    { key: "by", title: "by", show: (row) => name(row.by) }, { key: "detail", title: "detail", show: (row) => name(row.detail) }],
});

const account = (each) => el("section", {},
  el("h3", {}, `${each.currency}: ${each.earned} earned`),
  facts(each.facts),
  grid("Every movement, and where the money is after it", [["entry", true], "day", "what", ["amount", true], ...each.heads.map((head) => [head, true])], [
    ["", "", el("strong", {}, "before"), "", ...each.opening],
    ...each.lines.map((line) => [line.entry, line.day, [line.words, line.period ? ` (${line.period})` : ""], line.amount, ...line.after]),
    ["", "", el("strong", {}, "after"), "", ...each.closing]]),
  grid("Runs", ["for", "approved on", "run", "state", ["earned", true]], each.runs.map((run) => [run.period, run.day, el("code", {}, run.run), run.state, run.earned])));

const showPayee = async (place, page) => {
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
    got.open_disputes.map((each) => el("p", { class: "note" }, `Dispute ${each.number} is open.`)),
    got.accounts.map(account),
    got.drafts.length ? grid("Not approved yet: nothing is owed by a draft", ["for", "entered on", "run", "state", ["would earn", true]], got.drafts.map((run) => [run.period, run.day, el("code", {}, run.run), run.state, `${run.currency} ${run.earned}`])) : null,
    got.events.length ? grid("Holds, checks and disputes", [["entry", true], "day", "what"], got.events.map((event) => [event.entry, event.day, event.words])) : null,
    got.in_runs.filter((run) => run.id).length ? el("p", {}, "Its runs: ", got.in_runs.filter((run) => run.id).map((run, i) => [i ? ", " : "", el("a", { href: link("/payout/run", { run: run.id, payee }) }, name(run.period || run.name))])) : null,
    el("p", { class: "soft" }, "As of this entry of the ledger: ", el("code", {}, got.checkpoint)),
    actionForm(page, payee));
};

export const title = "Ledger";

const choose = (main, site) => {
  const ledgers = site.places.ledgers;
  fill(main, el("h1", {}, title),
    el("p", {}, ledgers.length ? "Choose a ledger." : "There is no ledger here yet: a payout run begins one beside its run. Or name one on the command line: datamarket explore LEDGER"),
    ledgers.length ? el("ul", {}, ledgers.map((ledger) => el("li", {}, el("a", { href: link("/payout/ledger", { ledger }) }, name(ledger))))) : null);
};

const runsPanel = (found) =>
  found.runs.length
    ? table({
      name: "ledger-runs", rows: found.runs, sort: "", columns: [
        { key: "period", title: "period", show: (run) => (run.id ? el("a", { href: link("/payout/checks", { run: run.id }) }, name(run.period || run.name || run.run.slice(0, 16))) : name(run.period || run.name || run.run.slice(0, 16))) },
        { key: "state", title: "state" }, { key: "amount", title: "amount", number: true }, { key: "payees", title: "payees", number: true },
        { key: "reference", title: "reference" }, { key: "run", title: "run", show: (run) => el("code", {}, run.run.slice(0, 16)) },
      ],
    })
    : el("p", {}, "No run was entered yet.");

export const show = async (main, site) => {
  const state = urlState({ ledger: "", payee: "", tab: "payees", kind: "", find: "", page: 0, since: "", until: "" });
  if (!state.value.ledger) return choose(main, site);
  const who = whoAmI();
  const head = el("div");
  const place = el("div");
  const page = {
    state, site, who, found: null,
    get ledger() {
      return state.value.ledger;
    },
    get: (what, params = {}, options = {}) => ask(link(`/api/payout/ledger/${what}`, { ledger: page.ledger, ...params }), options),
    post: (what, body, options = {}) => ask(`/api/payout/ledger/${what}`, { body, ...options }),
    /** Enter something, show the ledger as it is then, and what was done. */
    async enter(what, body, progress) {
      const done = await page.post(what, body, { progress });
      await page.refresh();
      dialog("Entered", good(done.words));
    },
    async refresh() {
      page.found = await page.get("overview", {}, { progress: page.found ? null : place });
      draw();
    },
  };

  const draw = () => {
    const { found } = page;
    const open = found.disputes.filter((each) => each.open).length;
    fill(head, el("h1", {}, "Ledger ", name(page.ledger)),
      facts([["runs", many(found.runs.length)], ["payees held", many(found.holds.length)], ["disputes open", many(open)], ["entries", many(found.number)]]),
      found.rules.map((words) => el("p", { class: "soft" }, words)));
    if (state.value.payee) return attempt(place, () => showPayee(place, page));
    const panels = {
      Payees: payeesPanel(page),
      Runs: el("div", {}, runsPanel(found)),
      Entries: entriesPanel(page),
      Disputes: disputesPanel(page),
      Batches: el("div", {}, batchForms(page), el("div", { class: "card" }, el("h3", {}, "File for the bank: all that is owed"),
        el("p", {}, "Orders what approved runs owe, as one batch, except to payees who are held and amounts below the least that is sent."),
        exportForm(page, (asked, token, progress) => page.post("export", { ledger: page.ledger, by: who.name, token, export: asked }, { progress })))),
      "Enter by hand": actionForm(page),
      "Rules and proof": el("div", {}, rulesForm(page), verifyForm(page)),
    };
    const chosen = Object.keys(panels).find((each) => each.toLowerCase() === state.value.tab) || "Payees";
    return fill(place, tabs("ledger", panels, chosen, (tab) => state.set({ tab: tab.toLowerCase(), find: "", kind: "", page: 0 }, { quiet: true })));
  };

  fill(main, head, who.node, place);
  let last = state.value;
  const stop = state.onchange((value) => {
    const other = value.ledger !== last.ledger;
    last = value;
    other ? attempt(place, page.refresh) : draw();
  });
  await page.refresh();
  return stop;
};
