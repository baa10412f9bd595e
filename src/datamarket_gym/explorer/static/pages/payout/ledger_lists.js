// Payees and entries of a ledger, a page at a time: a ledger of years has more than a page can hold.
import { latest, problem } from "../../lib/ask.js";
import { button, select } from "../../lib/controls.js";
import { el, fill, name } from "../../lib/dom.js";
import { link } from "../../lib/url.js";

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
      said.textContent = `${got.total.toLocaleString("en")} ${got.total === 1 ? one : what}${pages > 1 ? `, page ${got.page + 1} of ${pages}` : ""}`;
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

const rows = (heads, lines) =>
  el("div", { class: "scroll" }, el("table", { class: "stack" }, el("thead", {}, el("tr", {}, heads.map(([head, figure]) => el("th", { scope: "col", class: figure ? "n" : "" }, head)))),
    el("tbody", {}, lines.map((cells) => el("tr", {}, cells.map((cell, i) => el("td", { class: heads[i][1] ? "n" : "name", "data-h": heads[i][0] }, cell)))))));

const PLACES = { ordered: "on its way", owed: "owed", sent: "sent", carried: "carried forward" };

/** Where everybody's money is. */
export const payeesPanel = (page) =>
  pagedList(page, {
    what: "payees", one: "payee", label: "Search payees",
    draw: (got) =>
      got.rows.length
        ? rows([["payee"], ["currency"], ...got.places.map((each) => [PLACES[each], true]), ["held"]], got.rows.map((row) => [
          el("a", { href: link("/payout/ledger", { ledger: page.ledger, payee: row.payee }) }, name(row.payee)), row.currency, ...row.amounts, row.held ? name(row.held) : ""]))
        : el("p", {}, page.state.value.find ? "Nobody of this name is owed or was sent anything." : "Nobody is owed anything: no run was approved yet."),
  });

/** The entries, the newest first. */
export const entriesPanel = (page) =>
  pagedList(page, {
    what: "entries", one: "entry", label: "Search entries", more: () => ({ kind: page.state.value.kind }),
    extra: (load) => select({ name: "kind", value: page.state.value.kind, options: [{ value: "", label: "all kinds" }, ...page.found.kinds], onchange: (kind) => {
      page.state.set({ kind, page: 0 }, { quiet: true });
      load();
    } }),
    draw: (got) => rows([["entry", true], ["time (UTC)"], ["what"], ["payee"], ["amount", true], ["by"], ["detail"]], got.rows.map((row) => [
      row.number, row.at, row.kind, row.payee ? el("a", { href: link("/payout/ledger", { ledger: page.ledger, payee: row.payee }) }, name(row.payee)) : "", row.amount, name(row.by), name(row.detail)])),
  });
