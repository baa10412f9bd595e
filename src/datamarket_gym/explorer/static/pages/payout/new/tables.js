// The tables of a payout run: files, the roles of their columns, and what was found in them.
import { ask, attempt, problem, upload } from "../../../lib/ask.js";
import { button, select, textbox } from "../../../lib/controls.js";
import { el, facts, name, fill, shown } from "../../../lib/dom.js";
import { table } from "../../../lib/table.js";
import { warnings } from "../parts.js";

const ROLES = [
  { role: "id", key: "columns.id", label: "Id of the unit", tag: "id" },
  { role: "identity", key: "columns.identity", label: "Identity: who submitted it", tag: "identity" },
  { role: "label", key: "columns.label", label: "Label", tag: "label", held: true },
  { role: "features", key: "columns.features", label: "Features", tag: "features", held: true, several: true },
  { role: "embedding", key: "columns.embedding", label: "Embedding, for similarity", tag: "embedding", held: true, several: true },
  { role: "time", key: "columns.time", label: "Time of receipt", tag: "time" },
  { role: "text", key: "columns.text", label: "Text, to be embedded", tag: "text", held: true },
  { role: "trusted_source", key: "columns.trusted_source", label: "Trusted source", tag: "source" },
  { role: "metadata", key: "columns.metadata", label: "Metadata: units that agree in it are matched", tag: "metadata" },
  { role: "link", key: "linkage.keys", label: "Link: equal values are claims of who is who", tag: "link", list: true },
  { role: "confirm", key: "linkage.confirm", label: "Confirms other identities", tag: "confirms" },
];

/** The role of that name. */
const link = (role) => ROLES.find((each) => each.role === role) || { role, tag: role, label: role };

/** The roles that a column of a table can have. */
const rolesFor = (table) => (table === "submissions" ? ROLES : ROLES.filter((each) => each.held));

const parts = (text) => (text || "").split(",").map((part) => part.trim()).filter(Boolean);

/** Whether a column has a role by its name alone, so that only another column can take it away. */
const byName = (role, set) => role.key !== "columns.label" && (role.list ? false : set[role.key] === undefined);

/** The change of settings by which a column gets a role, or loses one that it has. */
const given = (role, column, has, set, columns) => {
  const { key } = role;
  if (role.list) {
    const now = set[key] || [];
    const next = has ? now.filter((each) => each !== column.name) : [...now, column.name];
    return { [key]: next.length ? next : undefined };
  }
  if (role.several) {
    const single = (wanted) => columns.some((each) => each.name === wanted && each.columns === 1 && !each.kind.startsWith("list"));
    const now = parts(set[key]);
    if (has) {
      const left = set[key] === column.name ? [] : now.filter((each) => each !== column.name);
      return { [key]: left.length ? left.join(",") : undefined };
    }
    const joins = single(column.name) && now.length && now.every(single);
    return { [key]: joins ? [...now, column.name].join(",") : column.name };
  }
  if (has) return { [key]: key === "columns.label" ? "" : undefined };
  return { [key]: column.name };
};

let opened = null;

const close = (back) => {
  if (!opened) return;
  const { list, head } = opened;
  opened = null;
  list.remove();
  head.setAttribute("aria-expanded", "false");
  if (back) head.focus();
};

addEventListener("click", (event) => {
  if (opened && !opened.list.contains(event.target) && !opened.head.contains(event.target)) close(false);
});
const beside = (list, head) => {
  const at = head.getBoundingClientRect();
  const wide = list.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, innerWidth - wide.width - 8));
  const below = at.bottom + wide.height + 8 < innerHeight ? at.bottom + 4 : Math.max(8, at.top - wide.height - 4);
  list.style.setProperty("left", `${left}px`);
  list.style.setProperty("top", `${below}px`);
};

const along = (event) => opened && !opened.list.contains(event.target) && beside(opened.list, opened.head);
addEventListener("resize", () => opened && beside(opened.list, opened.head));
addEventListener("scroll", along, true);

/** The page is left: no menu stays. */
export const closeMenu = () => close(false);

/** The head of a column and its menu; `tell(roles)` says what the reader of tables takes it for. */
const menu = ({ page, table, column, columns }) => {
  let mine = [];
  const head = el("button", {
    type: "button", class: "column", name: `column-${table}-${column.name}`, "aria-haspopup": "menu", "aria-expanded": "false",
    on: {
      click: () => (opened?.head === head ? close(true) : open()),
      keydown: (event) => {
        if (event.key !== "ArrowDown") return;
        event.preventDefault();
        open();
      },
    },
  }, name(column.name), el("span", { class: "mark", "aria-hidden": "true" }, "▾"));
  const choose = (role, has) => {
    close(true);
    page.choose(given(role, column, has, page.state.value.set, columns));
  };
  const open = () => {
    close(false);
    const { set } = page.state.value;
    const items = rolesFor(table).map((role) => {
      const has = mine.includes(role.role);
      const fixed = has && byName(role, set);
      return el("button", {
        type: "button", role: "menuitemcheckbox", name: `role-${role.role}`, tabindex: "-1",
        "aria-checked": String(has), "aria-disabled": fixed ? "true" : null,
        on: { click: () => !fixed && choose(role, has) },
      }, role.label, fixed ? el("span", { class: "soft" }, " (by its name)") : null);
    });
    const list = el("div", { class: "menu", role: "menu", "aria-label": `What ${column.name} is` }, items);
    list.addEventListener("keydown", (event) => {
      const at = items.indexOf(document.activeElement);
      const to = { ArrowDown: at + 1, ArrowUp: at - 1 + items.length, Home: 0, End: items.length - 1 }[event.key];
      if (to !== undefined) {
        event.preventDefault();
        items[to % items.length].focus();
      } else if (event.key === "Escape") {
        event.preventDefault();
        close(true);
      } else if (event.key === "Tab") close(false);
    });
    document.body.append(list);
    opened = { list, head };
    head.setAttribute("aria-expanded", "true");
    beside(list, head);
    (items.find((item) => item.getAttribute("aria-checked") === "true") || items[0]).focus({ preventScroll: true });
  };
  return {
    node: head,
    tell: (roles) => {
      mine = roles;
      head.setAttribute("aria-label", `${column.name}, ${column.kind}${roles.length ? `, ${roles.join(" and ")}` : ""}: choose what it is`);
    },
  };
};

const WHAT = {
  submissions: ["Submissions", "One row for each unit: who submitted it, and what it is."],
  validation: ["Validation rows", "Rows like those that are wanted, with the same features."],
  reference: ["Reference rows", "Other honest units, on which the threshold is measured: for fewer than 500 validation rows."],
  "files.scores": ["Scores of another tool", "What each unit is worth on each validation row, for the utility “scores”."],
  overrides: ["Overrides", "Splits and joins that somebody signed off, as TOML."],
  "linkage.edges": ["Edges", "Your own table id_l, id_r, probability of who is one payee."],
  "files.features": ["Features of the submissions", "A matrix, row by row, where the table has none."],
  "files.embedding": ["Embeddings of the submissions", "A matrix of what similarity compares."],
  "files.validation_features": ["Features of the validation rows", "A matrix, likewise."],
  "files.reference_features": ["Features of the reference rows", "A matrix, likewise."],
};

/** Bytes for people. */
const bytes = (count) => {
  const step = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]].find(([, size]) => count >= size);
  return step ? `${(count / step[1]).toLocaleString("en", { maximumFractionDigits: 1 })} ${step[0]}` : `${count} bytes`;
};

const PARTS = { ".xlsx": "Sheet, if there are several", ".npz": "Array, if there are several" };
const ending = (text) => text.toLowerCase().match(/\.[a-z]+$/)?.[0] || "";

const card = (page, role, known) => {
  const { state, form, site } = page;
  const [title, words] = WHAT[role];
  const endings = form.roles[role];
  const lying = form.files.filter((each) => endings.includes(each.ending));
  const body = el("div", { class: "chosen" });
  const said = el("div", { "aria-live": "polite" });
  const put = (id) => {
    const files = { ...state.value.files };
    if (id) files[role] = id;
    else delete files[role];
    state.set({ files }, { push: true });
  };
  const take = async (file) => {
    if (!file) return;
    if (file.size > site.limit) {
      fill(said, el("p", { class: "note bad", role: "alert" }, `${file.name} has ${bytes(file.size)}; a file may have ${bytes(site.limit)} here. Start the explorer with a larger --upload-limit, or name the file's folder on the command line.`));
      return;
    }
    const line = el("span", {}, `Sending ${file.name}`);
    const bar = el("progress", { max: 1, value: 0, "aria-label": `Sending ${file.name}` });
    fill(said, el("div", { class: "progress", role: "status" }, line, bar));
    const kept = await attempt(said, () => upload(file, (sent, total) => {
      line.textContent = `Sending ${file.name}: ${bytes(sent)} of ${bytes(total)}`;
      bar.value = total ? sent / total : 1;
    }));
    if (!kept) return;
    fill(said);
    known.set(`upload:${kept.id}`, kept);
    put(`upload:${kept.id}`);
  };
  const input = el("input", {
    type: "file", name: `file-${role}`, accept: endings.join(","), class: "pick", "aria-label": `${title}: choose a file`,
    on: { change: (event) => { take(event.target.files[0]); event.target.value = ""; } },
  });
  const node = el("div", {
    class: "card drop", "data-role": role,
    on: {
      dragover: (event) => { event.preventDefault(); node.classList.add("over"); },
      dragleave: () => node.classList.remove("over"),
      drop: (event) => { event.preventDefault(); node.classList.remove("over"); take(event.dataTransfer.files[0]); },
    },
  });
  const from = lying.length
    ? select({ name: `lying-${role}`, value: "", options: [{ value: "", label: "or one from a folder …" }, ...lying.map((each) => ({ value: each.id, label: `${each.id} (${bytes(each.size)})` }))], onchange: (id) => id && put(id) })
    : null;
  if (from) from.setAttribute("aria-label", `${title}: a file from a folder`);
  fill(node, el("h3", {}, title), el("p", { class: "soft" }, words), body,
    el("div", { class: "ways" }, el("label", { class: "choose" }, input, el("span", {}, "Choose a file")), from),
    el("p", { class: "soft small" }, `${endings.join(" ")} · up to ${bytes(site.limit)} · or drop it here`), said);
  let shown = null;
  const part = (id, member, about) => {
    const asked = PARTS[ending(about?.name || id)];
    return asked ? textbox({ name: `member-${role}`, value: member, placeholder: asked, onchange: (value) => put(value.trim() ? `${id}#${value.trim()}` : id) }) : null;
  };
  return {
    node,
    refresh: () => {
      const whole = state.value.files[role] || "";
      if (whole === shown) return;
      shown = whole;
      const [id, member = ""] = whole.split("#");
      const about = known.get(id);
      if (from) from.value = lying.some((each) => each.id === id) ? id : "";
      node.classList.toggle("has", Boolean(id));
      fill(body, id ? [el("p", {}, name(about?.name || (id.startsWith("upload:") ? "an upload" : id)), about ? el("span", { class: "soft" }, ` ${bytes(about.size)}`) : null), part(id, member, about), button({ name: `remove-${role}`, label: "Remove", kind: "quiet", onclick: () => put("") })] : null);
    },
  };
};

/** The cards of all files; those that are seldom needed are folded away until one is used. */
export const filesView = (page) => {
  const known = new Map([...page.form.uploads.map((each) => [each.id, each]), ...page.form.files.map((each) => [each.id, { name: each.id, size: each.size }])]);
  const cards = Object.keys(WHAT).map((role) => [role, card(page, role, known)]);
  const [first, more] = [cards.slice(0, 2), cards.slice(2)];
  const used = more.some(([role]) => page.state.value.files[role]);
  const node = el("div", {},
    el("div", { class: "cards two" }, first.map(([, each]) => each.node)),
    el("details", { open: used, name: "more-files" }, el("summary", {}, "More files: reference rows, scores, overrides, edges, embeddings"),
      el("div", { class: "cards" }, more.map(([, each]) => each.node))));
  return { node, refresh: () => cards.forEach(([, each]) => each.refresh()) };
};

const CALLED = { submissions: "Submissions", validation: "Validation rows", reference: "Reference rows" };
const whole = (count) => shown(count, 0);

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
    el("h3", {}, CALLED[table], el("span", { class: "soft" }, ` ${whole(found.rows)} rows, ${whole(found.columns.reduce((sum, each) => sum + each.columns, 0))} columns`)),
    missing,
    found.notes.map((words) => el("p", { class: "note" }, words)),
    found.columns.length ? el("div", { class: "scroll" }, el("table", { class: "heads" }, el("thead", {}, el("tr", {}, heads.map((each) => each.cell))), el("tbody", {}, rows))) : null,
    found.more_columns ? el("p", { class: "soft" }, `and ${whole(found.more_columns)} more columns`) : null,
    holes.length ? el("p", { class: "soft" }, `Empty in the first ${whole(found.read)} rows: `, holes.map((each, i) => [i ? ", " : "", name(each.name), ` (${whole(each.empty)})`])) : null);
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

const many = (count, one, several = `${one}s`) => `${shown(count, 0)} ${count === 1 ? one : several}`;

const factsOf = (found) => {
  const pairs = [
    ["units", shown(found.units, 0)],
    ["identities", shown(found.identities, 0)],
    ["validation rows", shown(found.validation, 0)],
    ["features", found.encoded ? "from texts, by the encoder" : shown(found.features, 0)],
    ["embedding", found.embedding === null ? null : shown(found.embedding, 0)],
    ["labels", found.labels === null ? "none that count" : shown(found.labels, 0)],
    ["times", found.times ? "yes" : "none"],
    ["reference rows", found.reference === null ? null : shown(found.reference, 0)],
    ["previously acquired units", found.acquired === null ? null : shown(found.acquired, 0)],
  ].filter(([, value]) => value !== null);
  return facts(pairs);
};

const badRows = (page, bad) => {
  if (!bad.count) return null;
  const aside = Boolean(page.state.value.set.quarantine);
  const words = aside
    ? `${many(bad.count, "row is", "rows are")} set aside and listed; nobody is paid for ${bad.count === 1 ? "it" : "them"}.`
    : `${many(bad.count, "row")} of the submissions cannot be used. Mend the file, or set ${bad.count === 1 ? "it" : "them"} aside: ${bad.count === 1 ? "it is" : "they are"} then listed, and nobody is paid for ${bad.count === 1 ? "it" : "them"}.`;
  const numbers = (each) => `${each.rows.map((row) => shown(row, 0)).join(", ")}${each.count > each.rows.length ? ` and ${shown(each.count - each.rows.length, 0)} more` : ""}`;
  return el("div", { class: "note", "data-bad": String(bad.count) }, el("p", {}, words),
    el("ul", {}, bad.kinds.map((each) => el("li", {}, name(each.wrong), el("span", { class: "soft" }, ` in ${each.count === 1 ? "row" : "rows"} ${numbers(each)}`)))),
    bad.more_kinds ? el("p", {}, `and ${many(bad.more_kinds, "other fault")}`) : null,
    el("p", { class: "soft" }, "Rows are counted from 0, the header not counted."),
    aside ? null : button({ name: "set-aside", label: "Set bad rows aside", onclick: () => page.choose({ quarantine: true }) }),
    el("details", {}, el("summary", {}, "The rows"), table({
      name: "bad-rows", rows: bad.rows, search: false,
      columns: [{ key: "row", title: "row", number: true }, { key: "unit", title: "unit" }, { key: "identity", title: "identity" }, { key: "wrong", title: "what is wrong" }],
    })));
};

/** What was found. */
export const checkedView = (page) => {
  const node = el("div", { "aria-live": "polite" });
  return {
    node,
    wait: () => node.classList.add("stale"),
    tell: (found, both) => {
      node.classList.remove("stale");
      if (!found) return fill(node);
      if (!both) return fill(node, el("p", { class: "soft" }, "Both tables are needed before they can be checked."));
      const good = !found.refused && !found.warnings.length && !found.bad?.count;
      node.dataset.checked = found.refused ? "refused" : "good";
      return fill(node,
        found.refused ? el("p", { class: "note bad", role: "alert", "data-refused": "" }, `A payout run of these tables is refused: ${found.refused}`) : null,
        found.refused && /--[a-z]/.test(found.refused) ? el("p", { class: "soft" }, "What begins with -- is an option of the command line: here, the heads of the columns, and the settings below.") : null,
        good ? el("p", { class: "note good" }, "Both tables can be read, and nothing in them has to be looked at before the run.") : null,
        found.bad ? badRows(page, found.bad) : null,
        found.facts ? factsOf(found.facts) : null,
        found.warnings.length ? [el("h3", {}, many(found.warnings.length, "thing", "things"), " to look at"), warnings(found.warnings, "warned")] : null);
    },
  };
};
