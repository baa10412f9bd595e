// The columns of the tables, with a few values; the head of each opens a menu of what it can be.
import { ask, problem } from "../../../lib/ask.js";
import { el, fill, name, shown } from "../../../lib/dom.js";
import { link } from "./roles.js";
import { menu } from "./menu.js";

const CALLED = { submissions: "Submissions", validation: "Validation rows", reference: "Reference rows" };
const many = (count) => shown(count, 0);

const preview = (page, table, found) => {
  if (found.refused) return { node: el("p", { class: "note bad", role: "alert" }, found.refused), tell: () => {} };
  const missing = el("div", { "aria-live": "polite" });
  const heads = found.columns.map((column) => {
    const tags = el("span", { class: "tags" });
    const head = menu({ page, table, column, columns: found.columns, tags });
    return { column, tags, head, cell: el("th", { scope: "col", "data-column": column.name }, head.node, tags, el("span", { class: "soft kind" }, column.kind)) };
  });
  const deep = Math.max(0, ...found.columns.map((column) => column.values.length));
  const rows = Array.from({ length: deep }, (_, row) =>
    el("tr", {}, found.columns.map((column) => el("td", {}, row < column.values.length ? name(column.values[row]) : ""))));
  const holes = found.columns.filter((column) => column.empty);
  const node = el("div", { class: "preview", "data-table": table },
    el("h3", {}, CALLED[table], el("span", { class: "soft" }, ` ${many(found.rows)} rows, ${many(found.columns.reduce((sum, each) => sum + each.columns, 0))} columns`)),
    missing,
    found.notes.map((words) => el("p", { class: "note" }, words)),
    found.columns.length ? el("div", { class: "scroll" }, el("table", { class: "heads" }, el("thead", {}, el("tr", {}, heads.map((each) => each.cell))), el("tbody", {}, rows))) : null,
    found.more_columns ? el("p", { class: "soft" }, `and ${many(found.more_columns)} more columns`) : null,
    holes.length ? el("p", { class: "soft" }, `Empty in the first ${many(found.read)} rows: `, holes.map((each, i) => [i ? ", " : "", name(each.name), ` (${many(each.empty)})`])) : null);
  return {
    node,
    tell: (looked) => {
      for (const each of heads) {
        const roles = looked.roles[each.column.name] || [];
        each.head.tell(roles);
        fill(each.tags, roles.map((role) => el("span", { class: "tag good" }, link(role).tag)));
        each.cell.classList.toggle("used", roles.length > 0);
      }
      fill(missing, looked.missing.map((words) => el("p", { class: "note bad" }, words)));
    },
  };
};

/** The tables, each looked at once. */
export const columnsView = (page) => {
  const place = el("div");
  const looked = new Map();
  const views = new Map();
  let told = {};
  const draw = () => {
    const here = Object.keys(CALLED).filter((table) => views.get(table));
    fill(place, here.length ? here.map((table) => views.get(table).node) : el("p", { class: "soft" }, "No table yet: choose the submissions and the validation rows above."));
    for (const table of here) if (told[table]) views.get(table).tell(told[table]);
  };
  const look = async (table, file) => {
    const waiting = el("div");
    views.set(table, { file, node: el("div", {}, el("h3", {}, CALLED[table]), waiting), tell: () => {} });
    draw();
    let view;
    try {
      if (!looked.has(file)) looked.set(file, await ask("/api/payout/new/preview", { body: { role: table, file }, progress: waiting }));
      view = preview(page, table, looked.get(file));
    } catch (error) {
      view = { node: problem(error), tell: () => {} };
    }
    if (views.get(table)?.file !== file) return; // another was chosen meanwhile
    views.set(table, { file, ...view });
    draw();
  };
  return {
    node: place,
    refresh: () => {
      const { files } = page.state.value;
      let changed = false;
      for (const table of Object.keys(CALLED)) {
        if (files[table] === views.get(table)?.file) continue;
        if (files[table]) look(table, files[table]);
        else changed = views.delete(table);
      }
      if (changed || !views.size) draw();
    },
    tell: (tables) => {
      told = tables;
      for (const [table, view] of views) if (tables[table]) view.tell(tables[table]);
    },
  };
};
