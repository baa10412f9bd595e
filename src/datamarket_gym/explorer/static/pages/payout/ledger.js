// A ledger: what the market owes and has sent, to whom, by which entries; disputes, rules, and whether it is whole.
import { latest, problem, ask } from "../../lib/ask.js";
import { button, select, field, tabs, textbox } from "../../lib/controls.js";
import { el, fill, many, name } from "../../lib/dom.js";
import { table } from "../../lib/table.js";
import { link, urlState } from "../../lib/url.js";
import { exportForm } from "./checks_pay.js";
import { actionForm, batchForms, rulesForm, verifyForm, disputesPanel } from "./ledger_forms.js";
import { hasName, whoAmI } from "./parts.js";

const PAUSE = 200; // milliseconds after a key

/** A list that is asked for page by page; what is searched stands in the address. */
const pagedList = (page, { what, one, label, more = () => ({}), extra = null, draw }) => {
  const { state } = page;
  const find = el("input", { type: "search", name: `find-${what}`, placeholder: "search", "aria-label": label, value: state.value.find });
  const said = el("span", { class: "soft", role: "status" });
  const progress = el("div");
  const body = el("div");
  const back = button({ name: `back-${what}`, label: "\u2190 previous", kind: "quiet", onclick: () => turn(-1) });
  const on = button({ name: `on-${what}`, label: "next \u2192", kind: "quiet", onclick: () => turn(1) });
  const get = latest((signal) => page.get(what, { find: state.value.find, page: state.value.page || "", ...more() }, { signal, progress }));
  const load = async () => {
    try {
      const got = await get();
      if (!got) return;
      const pages = Math.max(1, Math.ceil(got.total / got.each));
      said.textContent = `${many(got.total)} ${got.total === 1 ? one : what}${pages > 1 ? `, page ${got.page + 1} of ${pages}` : ""}`;
      back.hidden = on.hidden = pages === 1;
      back.disabled = got.page === 0;
      on.disabled = got.page >= pages - 1;
      fill(body, draw(got));
    } catch (error) {
      fill(body, problem(error));
    }
  };
  const turn = (step) => {
    state.set({ page: state.value.page + step }, { quiet: true });
    load();
  };
  let timer = 0;
  find.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      state.set({ find: find.value.trim(), page: 0 }, { quiet: true });
      load();
    }, PAUSE);
  });
  load();
  const node = el("div", {}, el("div", { class: "tools" }, find, extra?.(load), said, back, on), progress, body);
  return node;
};

const grid = (caption, heads, lines) =>
  el("div", { class: "scroll" }, el("table", { class: "stack" }, caption ? el("caption", {}, caption) : null, el("thead", {}, el("tr", {}, heads.map(([head, figure]) => el("th", { scope: "col", class: figure ? "n" : "" }, head)))),
    el("tbody", {}, lines.map((cells) => el("tr", {}, cells.map((cell, i) => el("td", { class: heads[i][1] ? "n" : "name", "data-h": heads[i][0] }, cell)))))));

const PLACES = { ordered: "on its way", owed: "owed", sent: "sent", carried: "carried forward" };

/** Where everybody's money is. */
const payeesPanel = (page) =>
  pagedList(page, {
    what: "payees", one: "payee", label: "Search payees",
    draw: (got) =>
      got.rows.length
        ? grid("", [["payee"], ["currency"], ...got.places.map((each) => [PLACES[each], true]), ["held"]], got.rows.map((row) => [
          el("a", { href: link("/payout/ledger", { ledger: page.ledger, payee: row.payee }) }, name(row.payee)), row.currency, ...row.amounts, row.held ? name(row.held) : ""]))
        : el("p", {}, page.state.value.find ? "Nobody of this name is owed or was sent anything." : "Nobody is owed anything: no run was approved yet."),
  });

/** The entries, the newest first. */
const entriesPanel = (page) =>
  pagedList(page, {
    what: "entries", one: "entry", label: "Search entries", more: () => ({ kind: page.state.value.kind }),
    extra: (load) => select({ name: "kind", value: page.state.value.kind, options: [{ value: "", label: "all kinds" }, ...page.found.kinds], onchange: (kind) => {
      page.state.set({ kind, page: 0 }, { quiet: true });
      load();
    } }),
    draw: (got) => grid("", [["entry", true], ["time (UTC)"], ["what"], ["payee"], ["amount", true], ["by"], ["detail"]], got.rows.map((row) => [
      row.number, row.at, row.kind, row.payee ? el("a", { href: link("/payout/ledger", { ledger: page.ledger, payee: row.payee }) }, name(row.payee)) : "", row.amount, name(row.by), name(row.detail)])),
  });

const account = (each) => el("section", {},
  el("h3", {}, `${each.currency}: ${each.earned} earned`),
  el("dl", { class: "facts" }, each.facts.map(([what, amount]) => el("div", {}, el("dt", {}, what), el("dd", {}, amount)))),
  grid("Every movement, and where the money is after it", [["entry", true], ["day"], ["what"], ["amount", true], ...each.heads.map((head) => [head, true])], [
    ["", "", el("strong", {}, "before"), "", ...each.opening],
    ...each.lines.map((line) => [line.entry, line.day, [line.words, line.period ? ` (${line.period})` : ""], line.amount, ...line.after]),
    ["", "", el("strong", {}, "after"), "", ...each.closing]]),
  grid("Runs", [["for"], ["approved on"], ["run"], ["state"], ["earned", true]], each.runs.map((run) => [run.period, run.day, el("code", {}, run.run), run.state, run.earned])));

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
    got.open_disputes.map((each) => el("p", { class: "note" }, `Dispute ${each.number} of `, name(each.payee), " is open.")),
    got.accounts.map(account),
    got.drafts.length ? grid("Not approved yet: nothing is owed by a draft", [["for"], ["entered on"], ["run"], ["state"], ["would earn", true]], got.drafts.map((run) => [run.period, run.day, el("code", {}, run.run), run.state, `${run.currency} ${run.earned}`])) : null,
    got.events.length ? grid("Holds, checks and disputes", [["entry", true], ["day"], ["what"]], got.events.map((event) => [event.entry, event.day, event.words])) : null,
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
        ([what, count]) => el("div", {}, el("dt", {}, what), el("dd", {}, many(count))))),
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
