// A ledger: what the market owes and has sent, to whom, by which entries; disputes, rules, and whether it is whole.
import { ask, problem } from "../../lib/ask.js";
import { field, tabs, textbox } from "../../lib/controls.js";
import { el, fill, name } from "../../lib/dom.js";
import { table } from "../../lib/table.js";
import { link, urlState } from "../../lib/url.js";
import { actionForm, batchForms, rulesForm, verifyForm } from "./ledger_forms.js";
import { disputesPanel } from "./ledger_disputes.js";
import { entriesPanel, payeesPanel } from "./ledger_lists.js";
import { showPayee } from "./ledger_payee.js";
import { exportForm } from "./checks_pay.js";
import { hasName, whoAmI } from "./checks_who.js";

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
  const by = textbox({ name: "by", value: who.name, placeholder: "your name" });
  const page = {
    state, site, who, found: null,
    get ledger() {
      return state.value.ledger;
    },
    get: (what, params = {}, options = {}) => ask(link(`/api/payout/ledger/${what}`, { ledger: page.ledger, ...params }), options),
    post: (what, body, options = {}) => ask(`/api/payout/ledger/${what}`, { body, ...options }),
    named: () => hasName(who, by),
    async refresh() {
      page.found = await page.get("overview", {}, { progress: page.found ? null : place });
      draw();
    },
  };

  const draw = () => {
    const { found } = page;
    const open = found.disputes.filter((each) => each.open).length;
    fill(head, el("h1", {}, "Ledger ", name(page.ledger)),
      el("dl", { class: "facts" }, [["runs", found.runs.length], ["payees held", found.holds.length], ["disputes open", open], ["entries", found.number]].map(
        ([what, count]) => el("div", {}, el("dt", {}, what), el("dd", {}, count.toLocaleString("en"))))),
      found.rules.map((words) => el("p", { class: "soft" }, words)));
    if (state.value.payee) {
      showPayee(place, page).catch((error) => fill(place, problem(error)));
      return;
    }
    const panels = {
      Payees: payeesPanel(page),
      Runs: el("div", {}, runsPanel(found)),
      Entries: entriesPanel(page),
      Disputes: disputesPanel(page),
      Batches: el("div", {}, batchForms(page), el("div", { class: "card" }, el("h3", {}, "File for the bank: all that is owed"),
        el("p", {}, "Orders what approved runs owe, as one batch, except to payees who are held and amounts below the least that is sent."),
        exportForm({ send: async (asked, token, progress) => (page.named() ? page.post("export", { ledger: page.ledger, by: who.name, token, export: asked }, { progress }) : null) }))),
      "Enter by hand": actionForm(page),
      "Rules and proof": el("div", {}, rulesForm(page), verifyForm(page)),
    };
    const chosen = Object.keys(panels).find((each) => each.toLowerCase() === state.value.tab) || "Payees";
    fill(place, tabs("ledger", panels, chosen, (tab) => state.set({ tab: tab.toLowerCase(), find: "", kind: "", page: 0 }, { quiet: true })));
  };

  by.addEventListener("input", () => {
    by.setCustomValidity("");
    who.name = by.value.trim();
  });
  fill(main, head, el("div", { class: "tools" }, field({ label: "You are", control: by, help: "Written into the ledger with all you do here; kept in this browser." })), place);
  let last = state.value;
  const stop = state.onchange((value) => {
    const other = value.ledger !== last.ledger;
    last = value;
    other ? page.refresh().catch((error) => fill(place, problem(error))) : draw();
  });
  await page.refresh();
  return stop;
};
