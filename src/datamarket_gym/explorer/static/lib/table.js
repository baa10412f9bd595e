// Tables that can be searched, sorted, leafed through and downloaded.
import { el, fill, many, seen } from "./dom.js";
import { csvOf, download } from "./files.js";

const LEAF = 200;

const order = (a, b) => {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1; // what is missing comes last
  if (b === null || b === undefined) return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
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
