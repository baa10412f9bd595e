// Tables that can be searched, sorted, leafed through and downloaded.
import { ask, attempt, latest } from "./ask.js";
import { el, fill, many, seen } from "./dom.js";
import { csvOf, download } from "./files.js";
import { link } from "./url.js";

const LEAF = 200;

const order = (a, b) => {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1; // what is missing comes last
  if (b === null || b === undefined) return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
};

/** A plain table: heads are texts, or [text, true] over numbers; each line has a cell under each. */
export const grid = (caption, heads, lines, look = "stack") => {
  const named = heads.map((head) => (typeof head === "string" ? [head, false] : head));
  return el("div", { class: "scroll" }, el("table", { class: look }, caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, named.map(([head, figure]) => el("th", { scope: "col", class: figure ? "n" : "" }, head)))),
    el("tbody", {}, lines.map((cells) => el("tr", {}, cells.map((cell, i) => el("td", { class: named[i][1] ? "n" : "name", "data-h": named[i][0] }, cell)))))));
};

/**
 * A table that is fetched page by page: fetch({search, sort, page}) answers {rows, found, in_all, page, pages}.
 * columns: [{key, title, number, sorts, show: row => text or node}]; asked: what is fetched first; onstate is told what the
 * reader chose, for the address of the page; pick(row) makes rows that can be opened. `ready` is a promise of its first rows.
 */
export const pagedTable = ({ fetch, columns, name, caption = "", asked, onstate = () => {}, word = "rows", empty = "There is nothing here.", search = true, pick = null, extra = () => null, last = null }) => {
  const now = { ...asked };
  const body = el("tbody");
  const said = el("span", { class: "soft", role: "status" });
  const wait = el("div");
  const find = el("input", { type: "search", name: `search-${name}`, placeholder: "search", "aria-label": `Search ${caption || name}`, value: now.search });
  const turner = (key, step, label) => el("button", { type: "button", class: "quiet", name: `${key}-${name}`, hidden: true, on: { click: () => tell({ page: now.page + step }) } }, label);
  const [back, on] = [turner("back", -1, "\u2190 previous"), turner("on", 1, "next \u2192")];
  const by = () => now.sort.replace(/^-/, "");
  const choose = (column) => () => {
    const down = by() === column.key ? !now.sort.startsWith("-") : Boolean(column.number);
    tell({ sort: `${down ? "-" : ""}${column.key}`, page: 0 });
  };
  const heads = columns.map((column) =>
    el("th", { class: column.number ? "n" : "", scope: "col" },
      column.sorts === false ? column.title : el("button", { type: "button", class: "head", name: `sort-${name}-${column.key}`, on: { click: choose(column) } }, column.title)));
  const line = (row) =>
    el("tr", pick ? { class: "pick", tabindex: "0", on: { click: () => pick(row), keydown: (event) => event.key === "Enter" && event.target === event.currentTarget && pick(row) } } : {},
      columns.map((column) => {
        const inside = column.show ? column.show(row) : row[column.key];
        const content = inside === null || inside === undefined ? "\u2014" : typeof inside === "string" ? seen(inside) : inside;
        return el("td", { class: column.number ? "n" : "name", "data-h": column.title }, content);
      }));
  const fetched = latest((signal) => fetch(now, { signal, progress: wait }));
  const draw = () => attempt(wait, async () => {
    columns.forEach((column, i) => heads[i].setAttribute("aria-sort", column.key === by() ? (now.sort.startsWith("-") ? "descending" : "ascending") : "none"));
    const got = await fetched();
    if (!got) return;
    now.page = got.page;
    fill(body, got.rows.length ? got.rows.map(line) : el("tr", {}, el("td", { colspan: columns.length }, now.search ? "Nothing has these letters in it." : empty)));
    said.textContent = got.found === got.in_all ? `${many(got.in_all)} ${word}` : `${many(got.found)} of ${many(got.in_all)} ${word}`;
    if (got.pages > 1) said.textContent += `, page ${many(got.page + 1)} of ${many(got.pages)}`;
    back.hidden = on.hidden = got.pages === 1;
    back.disabled = got.page === 0;
    on.disabled = got.page === got.pages - 1;
  });
  const tell = (changes) => {
    Object.assign(now, changes);
    onstate({ ...now });
    return draw();
  };
  find.addEventListener("input", () => tell({ search: find.value, page: 0 }));
  const node = el("div", { class: "listing", "data-table": name },
    el("div", { class: "tools" }, search ? find : null, extra(() => tell({ page: 0 })), said, back, on, last), wait,
    el("div", { class: "scroll" }, el("table", { class: "stack" }, caption ? el("caption", {}, caption) : null, el("thead", {}, el("tr", {}, heads)), body)));
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

/** Pages of a table that the explorer reads. */
export const remote = (path, params) => ({ search, sort, page }, options) =>
  ask(link(path, { ...params(), search, sort: sort.replace(/^-/, ""), down: sort.startsWith("-") || "", page: page || "" }), options);

/** A table of rows that are here: searched, sorted, leafed through and downloaded; sort: "key" or "-key". */
export const table = ({ columns, rows, name, sort = "", query = "", csv = true, ...more }) => {
  let kept = rows;
  const text = (row) => columns.map((column) => row[column.key]).filter((value) => value !== null && value !== undefined).join(" ").toLowerCase();
  const fetch = async (now) => {
    const [wanted, by, down] = [now.search.trim().toLowerCase(), now.sort.replace(/^-/, ""), now.sort.startsWith("-")];
    kept = wanted ? rows.filter((row) => text(row).includes(wanted)) : [...rows];
    if (by) kept.sort((a, b) => (down ? order(b[by], a[by]) : order(a[by], b[by])));
    if (by && down) kept.sort((a, b) => Number(a[by] === null || a[by] === undefined) - Number(b[by] === null || b[by] === undefined));
    const pages = Math.max(1, Math.ceil(kept.length / LEAF));
    const page = Math.min(now.page, pages - 1);
    return { rows: kept.slice(page * LEAF, (page + 1) * LEAF), found: kept.length, in_all: rows.length, page, pages };
  };
  const save = () => download(`${name}.csv`, csvOf({ columns, rows: kept }), "text/csv");
  const last = csv ? el("button", { type: "button", class: "quiet", name: `csv-${name}`, on: { click: save } }, "CSV") : null;
  return pagedTable({ fetch, columns, name, asked: { search: query, sort, page: 0 }, last, ...more });
};
