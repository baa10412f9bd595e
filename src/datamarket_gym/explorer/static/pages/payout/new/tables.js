// The tables of a payout run: files, the roles of their columns, and what was found in them.
import { ask, attempt, problem, upload } from "../../../lib/ask.js";
import { button, select, textbox } from "../../../lib/controls.js";
import { el, facts, name, fill, shown } from "../../../lib/dom.js";
import { table } from "../../../lib/table.js";
import { warnings } from "../parts.js";

const TABLES = ["submissions", "validation", "reference"];

const whole = (count) => shown(count, 0);
const many = (count, one, several = `${one}s`) => `${whole(count)} ${count === 1 ? one : several}`;

/** Bytes for people. */
const bytes = (count) => {
  const step = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]].find(([, size]) => count >= size);
  return step ? `${(count / step[1]).toLocaleString("en", { maximumFractionDigits: 1 })} ${step[0]}` : `${count} bytes`;
};

const PARTS = { ".xlsx": "Sheet, if there are several", ".npz": "Array, if there are several" };
const ending = (text) => text.toLowerCase().match(/\.[a-z]+$/)?.[0] || "";

/** The card of a file: one that is uploaded, dropped, or lies in a folder. */
const card = (page, role, about, known) => {
  const { state, form, site } = page;
  const lying = form.files.filter((each) => about.endings.includes(each.ending));
  const body = el("div", { class: "chosen" });
  const said = el("div", { "aria-live": "polite" });
  const put = (id) => page.choose({ [role]: id || undefined }, { push: true });
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
    type: "file", name: `file-${role}`, accept: about.endings.join(","), class: "pick", "aria-label": `${about.label}: choose a file`,
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
  from?.setAttribute("aria-label", `${about.label}: a file from a folder`);
  fill(node, el("h3", {}, about.label), el("p", { class: "soft" }, about.help), body,
    el("div", { class: "ways" }, el("label", { class: "choose" }, input, el("span", {}, "Choose a file")), from),
    el("p", { class: "soft small" }, `${about.endings.join(" ")} · up to ${bytes(site.limit)} · or drop it here`), said);
  let shownNow = null;
  const refresh = () => {
    const chosen = state.value.set[role] || "";
    if (chosen === shownNow) return;
    shownNow = chosen;
    const [id, member = ""] = chosen.split("#");
    const file = known.get(id);
    const title = file?.name || (id.startsWith("upload:") ? "an upload" : id);
    if (from) from.value = lying.some((each) => each.id === id) ? id : "";
    node.classList.toggle("has", Boolean(id));
    const part = PARTS[ending(title)];
    fill(body, id ? [
      el("p", {}, name(title), file ? el("span", { class: "soft" }, ` ${bytes(file.size)}`) : null),
      part ? textbox({ name: `member-${role}`, value: member, placeholder: part, onchange: (value) => put(value.trim() ? `${id}#${value.trim()}` : id) }) : null,
      button({ name: `remove-${role}`, label: "Remove", kind: "quiet", onclick: () => put("") })] : null);
  };
  return { node, refresh, used: () => Boolean(state.value.set[role]) };
};

/** The cards of all files; those that are seldom needed are folded away until one is used. */
export const filesView = (page) => {
  const { form } = page;
  const known = new Map([...form.uploads, ...form.files].map((each) => [each.id, each]));
  const cards = Object.entries(form.inputs).map(([role, about]) => card(page, role, about, known));
  const [first, more] = [cards.slice(0, 2), cards.slice(2)];
  const node = el("div", {},
    el("div", { class: "cards two" }, first.map((each) => each.node)),
    form.left_out.length ? el("p", { class: "soft" }, `Not listed: ${form.left_out.join(", ")}. To choose one, name that folder when the explorer is started.`) : null,
    el("details", { open: more.some((each) => each.used()), name: "more-files" }, el("summary", {}, "More files: reference rows, scores, overrides, edges, embeddings"),
      el("div", { class: "cards" }, more.map((each) => each.node))));
  return { node, refresh: () => cards.forEach((each) => each.refresh()) };
};

const parts = (text) => (text || "").split(",").map((part) => part.trim()).filter(Boolean);

/** The change of settings by which a column gets a role, or loses one that it has. */
const given = (role, column, has, set, columns) => {
  const now = role.list ? set[role.name] || [] : parts(set[role.name]);
  if (role.list) {
    const next = has ? now.filter((each) => each !== column.name) : [...now, column.name];
    return { [role.name]: next.length ? next : undefined };
  }
  if (!role.several) return { [role.name]: !has ? column.name : role.name === "columns.label" ? "" : undefined };
  if (has) return { [role.name]: now.filter((each) => each !== column.name).join(",") || undefined };
  const single = (wanted) => columns.some((each) => each.name === wanted && each.columns === 1 && !each.kind.startsWith("list"));
  const joins = single(column.name) && now.length && now.every(single);
  return { [role.name]: joins ? [...now, column.name].join(",") : column.name };
};

/** The head of a column: its name, its roles, and a choice of what it is; `tell(roles)` says what it is taken for. */
const head = (page, table, column, columns) => {
  const roles = page.form.roles.filter((role) => table === "submissions" || role.validation);
  const tags = el("span", { class: "tags" });
  const pick = el("select", { name: `column-${table}-${column.name}`, on: { change: () => choose(pick.value) } });
  let mine = [];
  const choose = (chosen) => {
    const role = roles.find((each) => each.name === chosen);
    page.choose(given(role, column, mine.includes(chosen), page.state.value.set, columns));
  };
  const tell = (found) => {
    mine = found;
    fill(tags, mine.map((chosen) => el("span", { class: "tag good" }, roles.find((each) => each.name === chosen)?.label || chosen)));
    node.classList.toggle("used", mine.length > 0);
    pick.setAttribute("aria-label", `${column.name}, ${column.kind}: choose what it is`);
    fill(pick, el("option", { value: "" }, "is …"), roles.map((role) => {
      const has = mine.includes(role.name);
      // A role that a column has by its name alone can only be given to another column.
      const fixed = has && !role.list && role.name !== "columns.label" && page.state.value.set[role.name] === undefined;
      return el("option", { value: role.name, title: role.help, disabled: fixed }, `${has ? "\u2713 " : ""}${role.label}${fixed ? " (by its name)" : ""}`);
    }));
    pick.value = "";
  };
  const node = el("th", { scope: "col", "data-column": column.name }, name(column.name), tags, pick, el("span", { class: "soft kind" }, column.kind));
  tell([]);
  return { node, name: column.name, tell };
};

const preview = (page, table, found) => {
  if (found.refused) return { node: el("p", { class: "note bad", role: "alert" }, found.refused), tell: () => {} };
  const missing = el("div", { "aria-live": "polite" });
  const heads = found.columns.map((column) => head(page, table, column, found.columns));
  const deep = Math.max(0, ...found.columns.map((column) => column.values.length));
  const rows = Array.from({ length: deep }, (_, row) =>
    el("tr", {}, found.columns.map((column) => el("td", {}, row < column.values.length ? name(column.values[row]) : ""))));
  const holes = found.columns.filter((column) => column.empty);
  const node = el("div", { class: "preview", "data-table": table },
    el("h3", {}, page.form.inputs[table].label, el("span", { class: "soft" }, ` ${whole(found.columns.reduce((sum, each) => sum + each.columns, 0))} columns`)),
    missing,
    found.notes.map((words) => el("p", { class: "note" }, words)),
    found.columns.length ? el("div", { class: "scroll" }, el("table", { class: "heads" }, el("thead", {}, el("tr", {}, heads.map((each) => each.node))), el("tbody", {}, rows))) : null,
    found.more_columns ? el("p", { class: "soft" }, `and ${whole(found.more_columns)} more columns`) : null,
    holes.length ? el("p", { class: "soft" }, `Empty in the first ${whole(found.read)} rows: `, holes.map((each, i) => [i ? ", " : "", name(each.name), ` (${whole(each.empty)})`])) : null);
  return {
    node,
    tell: (looked) => {
      for (const each of heads) each.tell(looked.roles[each.name] || []);
      fill(missing, looked.missing.map((words) => el("p", { class: "note bad" }, words)));
    },
  };
};

/** The tables, each looked at once. */
export const columnsView = (page) => {
  const place = el("div");
  const looked = new Map(); // answers by file
  const views = new Map(); // by table
  let told = {};
  const draw = () => {
    const here = TABLES.filter((each) => views.get(each));
    fill(place, here.length ? here.map((each) => views.get(each).node) : el("p", { class: "soft" }, "No table yet: choose the submissions and the validation rows above."));
    for (const each of here) if (told[each]) views.get(each).tell(told[each]);
  };
  const look = async (role, file) => {
    const waiting = el("div");
    views.set(role, { file, node: el("div", {}, el("h3", {}, page.form.inputs[role].label), waiting), tell: () => {} });
    draw();
    let view;
    try {
      if (!looked.has(file)) looked.set(file, await ask("/api/payout/new/preview", { body: { file }, progress: waiting }));
      view = preview(page, role, looked.get(file));
    } catch (error) {
      view = { node: problem(error), tell: () => {} };
    }
    if (views.get(role)?.file !== file) return; // another was chosen meanwhile
    views.set(role, { file, ...view });
    draw();
  };
  return {
    node: place,
    refresh: () => {
      const { set } = page.state.value;
      for (const role of TABLES) {
        if (set[role] === views.get(role)?.file) continue;
        if (set[role]) look(role, set[role]);
        else views.delete(role);
      }
      draw();
    },
    tell: (tables) => {
      told = tables;
      for (const [role, view] of views) if (tables[role]) view.tell(tables[role]);
    },
  };
};

const factsOf = (found) =>
  facts([
    ["units", whole(found.units)],
    ["payees", whole(found.identities)],
    ["validation rows", whole(found.validation)],
    ["features", found.encoded ? "from texts, by the encoder" : whole(found.features)],
    ["embedding", found.embedding && whole(found.embedding)],
    ["labels", found.labels === null ? "none that count" : whole(found.labels)],
    ["times", found.times ? "yes" : "none"],
    ["reference rows", found.reference && whole(found.reference)],
    ["previously acquired units", found.acquired && whole(found.acquired)],
  ].filter(([, value]) => value !== null));

const badRows = (page, bad) => {
  if (!bad.count) return null;
  const aside = Boolean(page.state.value.set.quarantine);
  const [it, are] = bad.count === 1 ? ["it", "it is"] : ["them", "they are"];
  const words = aside
    ? `${many(bad.count, "row is", "rows are")} set aside and listed; nobody is paid for ${it}.`
    : `${many(bad.count, "row")} of the submissions cannot be used. Mend the file, or set ${it} aside: ${are} then listed, and nobody is paid for ${it}.`;
  return el("div", { class: "note", "data-bad": String(bad.count) }, el("p", {}, words),
    aside ? null : button({ name: "set-aside", label: "Set bad rows aside", onclick: () => page.choose({ quarantine: true }) }),
    el("details", {}, el("summary", {}, bad.count > bad.rows.length ? `The first ${whole(bad.rows.length)} of them` : "The rows"), table({
      name: "bad-rows", rows: bad.rows, search: false,
      columns: [{ key: "place", title: "where" }, { key: "unit", title: "unit" }, { key: "identity", title: "payee" }, { key: "wrong", title: "what is wrong" }],
    })));
};

/** What the columns seem to be that nobody has said yet. */
const suggested = (page, { suggested: guesses, refused, tables }) => {
  const names = Object.keys(guesses).filter((key) => !tables.submissions.roles[guesses[key]]?.includes(key));
  if (!names.length || !refused) return null;
  const label = (key) => page.form.roles.find((role) => role.name === key).label;
  return el("div", { class: "note" }, el("p", {}, "By their names and first rows: ", names.map((key, i) => [i ? ", " : "", `${label(key)} is `, name(guesses[key])]), "."),
    button({ name: "suggested", label: "Take these columns", kind: "main", onclick: () => page.choose(Object.fromEntries(names.map((key) => [key, guesses[key]]))) }));
};

/** What was found. */
export const checkedView = (page) => {
  const node = el("div", { "aria-live": "polite" });
  return {
    node,
    wait: () => node.classList.add("stale"),
    tell: (found) => {
      node.classList.remove("stale");
      if (!found) return fill(node);
      if (!page.both()) return fill(node, el("p", { class: "soft" }, "Both tables are needed before they can be checked."));
      const good = !found.refused && !found.warnings.length && !found.bad?.count;
      node.dataset.checked = found.refused ? "refused" : "good";
      return fill(node,
        found.refused ? el("p", { class: "note bad", role: "alert", "data-refused": "" }, `A payout run of these tables is refused: ${found.bad?.count ? found.refused.split("\n")[0] : found.refused}`) : null,
        suggested(page, found),
        good ? el("p", { class: "note good" }, "Both tables can be read, and nothing in them has to be looked at before the run.") : null,
        found.bad ? badRows(page, found.bad) : null,
        found.facts ? factsOf(found.facts) : null,
        found.warnings.length ? [el("h3", {}, many(found.warnings.length, "thing"), " to look at"), warnings(found.warnings, "warned")] : null);
    },
  };
};
