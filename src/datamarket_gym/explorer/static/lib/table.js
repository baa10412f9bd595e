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
 * A table. columns: [{key, title, number, show: row => text or node}]; sort: "key" or "-key"; onstate({search, sort})
 * is told what the reader chose, for the address of the page; pick(row) makes rows that can be opened.
 */
export const table = ({ columns, rows, name, caption = "", search = true, sort = "", query = "", onstate = () => {}, pick = null, csv = true }) => {
  let by = sort.replace(/^-/, "");
  let down = sort.startsWith("-");
  let leaf = 0;
  const body = el("tbody");
  const said = el("span", { class: "soft", role: "status" });
  const find = el("input", { type: "search", name: `search-${name}`, placeholder: "search", "aria-label": `Search ${caption || name}`, value: query });
  const back = el("button", { type: "button", class: "quiet", name: `back-${name}`, on: { click: () => turn(-1) } }, "\u2190 previous");
  const on = el("button", { type: "button", class: "quiet", name: `on-${name}`, on: { click: () => turn(1) } }, "next \u2192");
  const heads = columns.map((column) =>
    el("th", { class: column.number ? "n" : "", scope: "col" },
      el("button", { type: "button", class: "head", name: `sort-${name}-${column.key}`, on: { click: () => choose(column.key) } }, column.title)));
  const text = (row) => columns.map((column) => row[column.key]).filter((value) => value !== null && value !== undefined).join(" ").toLowerCase();
  const found = () => {
    const wanted = find.value.trim().toLowerCase();
    const kept = wanted ? rows.filter((row) => text(row).includes(wanted)) : [...rows];
    if (by) kept.sort((a, b) => (down ? order(b[by], a[by]) : order(a[by], b[by])));
    if (by && down) kept.sort((a, b) => Number(a[by] === null || a[by] === undefined) - Number(b[by] === null || b[by] === undefined));
    return kept;
  };
  const line = (row) =>
    el("tr", pick ? { class: "pick", tabindex: "0", on: { click: () => pick(row), keydown: (event) => event.key === "Enter" && event.target === event.currentTarget && pick(row) } } : {},
      columns.map((column) => {
        const inside = column.show ? column.show(row) : row[column.key];
        const content = inside === null || inside === undefined ? "\u2014" : typeof inside === "string" ? seen(inside) : inside;
        return el("td", { class: `${column.number ? "n" : "name"}${column.key_cell ? " key" : ""}`, "data-h": column.title }, content);
      }));
  const draw = () => {
    const kept = found();
    const leaves = Math.max(1, Math.ceil(kept.length / LEAF));
    leaf = Math.min(leaf, leaves - 1);
    fill(body, kept.slice(leaf * LEAF, (leaf + 1) * LEAF).map(line));
    said.textContent = kept.length === rows.length ? `${many(rows.length)} rows` : `${many(kept.length)} of ${many(rows.length)} rows`;
    if (leaves > 1) said.textContent += `, page ${leaf + 1} of ${leaves}`;
    back.hidden = on.hidden = leaves === 1;
    back.disabled = leaf === 0;
    on.disabled = leaf === leaves - 1;
    columns.forEach((column, i) => heads[i].setAttribute("aria-sort", column.key === by ? (down ? "descending" : "ascending") : "none"));
  };
  const turn = (step) => {
    leaf += step;
    draw();
  };
  const choose = (key) => {
    down = by === key ? !down : Boolean(columns.find((column) => column.key === key).number);
    by = key;
    leaf = 0;
    draw();
    onstate({ search: find.value, sort: `${down ? "-" : ""}${by}` });
  };
  find.addEventListener("input", () => {
    leaf = 0;
    draw();
    onstate({ search: find.value, sort: by ? `${down ? "-" : ""}${by}` : "" });
  });
  draw();
  return el("div", { class: "listing", "data-table": name },
    el("div", { class: "tools" }, search ? find : null, said, back, on,
      csv ? el("button", { type: "button", class: "quiet", name: `csv-${name}`, on: { click: () => download(`${name}.csv`, csvOf({ columns, rows: found() }), "text/csv") } }, "CSV") : null),
    el("div", { class: "scroll" }, el("table", { class: "stack" }, caption ? el("caption", {}, caption) : null, el("thead", {}, el("tr", {}, heads)), body)));
};

/**
 * A table that is asked for page by page. columns: [{key, title, number, sorts, show: row => text or node}]; asked: {search, sort, page} at first; onstate is
 * told what the reader chose. `ready` of the node is a promise of its first rows.
 */
export const pagedTable = ({ path, params, columns, name, caption = "", asked, onstate, word = "rows", empty = "There is nothing here.", extra = () => null }) => {
  const now = { search: asked.search, sort: asked.sort, page: asked.page };
  const body = el("tbody");
  const said = el("span", { class: "soft", role: "status" });
  const wait = el("div");
  const find = el("input", { type: "search", name: `search-${name}`, placeholder: "search", "aria-label": `Search ${caption || name}`, value: now.search });
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
    ask(link(path, { ...params(), search: now.search, sort: by(), down: now.sort.startsWith("-") || "", page: now.page || "" }), { signal, progress: wait }));
  const draw = () => attempt(wait, async () => {
    columns.forEach((column, i) => heads[i].setAttribute("aria-sort", column.key === by() ? (now.sort.startsWith("-") ? "descending" : "ascending") : "none"));
    const found = await fetched();
    if (!found) return;
    now.page = found.page;
    fill(body, found.rows.length ? found.rows.map(line) : el("tr", {}, el("td", { colspan: columns.length }, now.search ? "Nothing has these letters in it." : empty)));
    said.textContent = found.found === found.in_all ? `${many(found.in_all)} ${word}` : `${many(found.found)} of ${many(found.in_all)} ${word}`;
    if (found.pages > 1) said.textContent += `, page ${many(found.page + 1)} of ${many(found.pages)}`;
    back.hidden = on.hidden = found.pages === 1;
    back.disabled = found.page === 0;
    on.disabled = found.page === found.pages - 1;
  });
  const tell = (changes) => {
    Object.assign(now, changes);
    onstate({ ...now });
    return draw();
  };
  find.addEventListener("input", () => tell({ search: find.value, page: 0 }));
  back.hidden = on.hidden = true;
  const node = el("div", { class: "listing", "data-table": name },
    el("div", { class: "tools" }, find, extra(() => tell({ page: 0 })), said, back, on), wait,
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
