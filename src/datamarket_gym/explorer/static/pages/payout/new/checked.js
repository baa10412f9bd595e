// What the tables were found to be: how many units of whom, what stops a payout run, what it would be warned of.
import { button } from "../../../lib/controls.js";
import { el, fill, name, shown } from "../../../lib/dom.js";
import { table } from "../../../lib/table.js";

const many = (count, one, several = `${one}s`) => `${shown(count, 0)} ${count === 1 ? one : several}`;

const facts = (found) => {
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
  return el("dl", { class: "facts" }, pairs.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))));
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

/** Warnings, each with some of those it is about. */
export const warned = (warnings) =>
  warnings.map((each) =>
    el("details", { class: "warned", "data-warning": each.name }, el("summary", {}, each.title),
      el("p", {}, each.words),
      each.items.length ? el("ul", {}, each.items.map((item) => el("li", {}, item))) : null,
      each.items.length && each.count > each.items.length ? el("p", { class: "soft" }, `and ${shown(each.count - each.items.length, 0)} more`) : null));

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
        found.facts ? facts(found.facts) : null,
        found.warnings.length ? [el("h3", {}, many(found.warnings.length, "thing", "things"), " to look at"), warned(found.warnings)] : null);
    },
  };
};
