// A table whose rows the explorer keeps: searched, ordered and pagedTable through there, a page at a time.
import { ask, latest, problem } from "../../lib/ask.js";
import { el, fill } from "../../lib/dom.js";
import { link } from "../../lib/url.js";

const many = (n) => n.toLocaleString("en");

/**
 * columns: [{key, title, number, sorts, show: row => text or node}]; asked: {search, sort, page} at first; onstate is
 * told what the reader chose. `ready` of the node is a promise of its first rows.
 */
export const pagedTable = ({ path, params, columns, name, caption, asked, onstate, word = "rows", empty = "There is nothing here." }) => {
  const now = { search: asked.search, sort: asked.sort, page: asked.page };
  const body = el("tbody");
  const said = el("span", { class: "soft", role: "status" });
  const wait = el("div");
  const find = el("input", { type: "search", name: `search-${name}`, placeholder: "search", "aria-label": `Search ${caption}`, value: now.search });
  const turn = (step) => () => tell({ page: now.page + step });
  const back = el("button", { type: "button", class: "quiet", name: `back-${name}`, on: { click: turn(-1) } }, "\u2190 previous");
  const on = el("button", { type: "button", class: "quiet", name: `on-${name}`, on: { click: turn(1) } }, "next \u2192");
  const by = () => now.sort.replace(/^-/, "");
  const choose = (column) => () => {
    const down = by() === column.key ? !now.sort.startsWith("-") : Boolean(column.number);
    tell({ sort: `${down ? "-" : ""}${column.key}`, page: 0 });
  };
  const heads = columns.map((column) =>
    el("th", { class: column.number ? "n" : "", scope: "col" },
      column.sorts === false ? column.title : el("button", { type: "button", class: "head", name: `sort-${name}-${column.key}`, on: { click: choose(column) } }, column.title)));
  const line = (row) =>
    el("tr", {}, columns.map((column) => el("td", { class: column.number ? "n" : "name", "data-h": column.title }, column.show ? column.show(row) : row[column.key])));
  const fetched = latest((signal) =>
    ask(link(path, { ...params, search: now.search, sort: by(), down: now.sort.startsWith("-") || "", page: now.page || "" }), { signal, progress: wait }));
  const draw = async () => {
    columns.forEach((column, i) => heads[i].setAttribute("aria-sort", column.key === by() ? (now.sort.startsWith("-") ? "descending" : "ascending") : "none"));
    try {
      const found = await fetched();
      if (!found) return;
      now.page = found.page;
      fill(body, found.rows.length ? found.rows.map(line) : el("tr", {}, el("td", { colspan: columns.length }, now.search ? "Nothing has these letters in it." : empty)));
      said.textContent = found.found === found.in_all ? `${many(found.in_all)} ${word}` : `${many(found.found)} of ${many(found.in_all)} ${word}`;
      if (found.pages > 1) said.textContent += `, page ${many(found.page + 1)} of ${many(found.pages)}`;
      back.hidden = on.hidden = found.pages === 1;
      back.disabled = found.page === 0;
      on.disabled = found.page === found.pages - 1;
    } catch (error) {
      fill(wait, problem(error));
    }
  };
  const tell = (changes) => {
    Object.assign(now, changes);
    onstate({ ...now });
    return draw();
  };
  find.addEventListener("input", () => tell({ search: find.value, page: 0 }));
  back.hidden = on.hidden = true;
  const node = el("div", { class: "listing", "data-table": name },
    el("div", { class: "tools" }, find, said, back, on), wait,
    el("div", { class: "scroll" }, el("table", { class: "stack" }, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads)), body)));
  node.ready = draw();
  /** Show what the address says now, after the reader went back. */
  node.follow = (asked_) => {
    if (asked_.search === now.search && asked_.sort === now.sort && asked_.page === now.page) return;
    Object.assign(now, asked_);
    find.value = now.search;
    draw();
  };
  return node;
};
