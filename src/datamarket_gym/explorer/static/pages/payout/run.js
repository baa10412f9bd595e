// One run: what it is, its payments, evidence, checks of its files, why each payee is paid, and what to do next.
import { ask, attempt, problem } from "../../lib/ask.js";
import { button, tabs } from "../../lib/controls.js";
import { content, el, facts, fill, many, name, seen } from "../../lib/dom.js";
import { grid, pagedTable, remote } from "../../lib/table.js";
import { link, urlState } from "../../lib/url.js";
import { historyOf, lines, runTitle, stateTag, statementLink, warnings } from "./parts.js";

const EARLIER = { unit: "its own came first", other: "the other came first", neither: "they came at the same time" };

const payeeLink = (run, who) => el("a", { href: link("/payout/run", { run, payee: who }) }, name(who));

/** What a unit holds, and its label. */
const held = (unit) => (unit ? [content(unit), unit.label ? el("p", { class: "soft" }, "label: ", name(unit.label)) : null] : el("p", { class: "soft" }, "not in the inputs"));

const matchCard = (run, match, reasons) => {
  const why = match.reasons.map((code) => el("span", { class: "tag", title: reasons[code]?.[1] || "" }, `${reasons[code]?.[0] || seen(code)}`));
  const [mine, other] = [el("div", { class: "held-here" }), el("div", { class: "held-here" })];
  const node = el("li", { class: "card match" },
    el("div", { class: "pair" },
      el("div", {}, el("p", {}, el("span", { class: "soft" }, "its unit "), name(match.unit)), match.received ? el("p", { class: "soft" }, `received ${match.received.at}`) : null, mine),
      el("div", {}, el("p", {}, name(match.other), el("span", { class: "soft" }, " of "), payeeLink(run, match.of)), match.other_received ? el("p", { class: "soft" }, `received ${match.other_received.at}`) : null, other)),
    el("p", {}, why, ` ${match.score.toFixed(4)}; ${EARLIER[match.earlier]}${match.drawn ? ", drawn at random" : ""}; paid to `,
      match.paid_to.map((each, i) => [i ? ", " : "", payeeLink(run, each)]), match.paid_names > match.paid_to.length ? ` and ${many(match.paid_names - match.paid_to.length)} more` : "",
      match.units_in_cluster > 2 ? el("span", { class: "soft" }, ` (${many(match.units_in_cluster)} units in the cluster)`) : null));
  node.fillHeld = (units) => {
    fill(mine, held(units[match.unit]));
    fill(other, held(units[match.other]));
  };
  return node;
};

const matches = (found, run) => {
  const { matches: matches, matches_in_all: all } = found.record;
  if (!matches.length) return el("section", {}, el("h2", {}, "What matched what"), el("p", {}, "None of its units was matched with another."));
  const cards = matches.map((match) => matchCard(run, match, found.reasons));
  const place = el("div", { "aria-live": "polite" });
  const open = () => attempt(place, async () => {
    const got = await ask("/api/payout/contents", { body: { run, payee: found.identity }, progress: place });
    cards.forEach((card) => card.fillHeld(got.units));
  });
  return el("section", {},
    el("h2", {}, "What matched what"),
    el("p", { class: "soft" }, all > matches.length ? `${matches.length} of ${many(all)} matches, those that matter most; evidence.parquet holds all.` : `${many(all)} ${all === 1 ? "match" : "matches"}.`),
    el("div", { class: "tools" }, button({ name: "contents", label: "Show what the units hold", onclick: open })),
    place,
    el("ul", { class: "matches" }, cards));
};

const whatIf = (run, payee) => {
  const place = el("div", { "aria-live": "polite" });
  const open = () => attempt(place, async () => {
    const got = await ask("/api/payout/what-if", { body: { run, payee }, progress: place, cancellable: true });
    fill(place, el("p", { class: "note" }, seen(got.words)));
  });
  return el("div", {}, button({ name: "what-if", label: "What if without its evidence", onclick: open }), place);
};

/** The page of one payee of a run. */
const showPayee = async (main, state) => {
  const { run, payee } = state.value;
  const found = await ask(link("/api/payout/why", { run, payee }), { progress: main });
  const one = found.record;
  const words = (list) => list.map((each) => el("p", {}, seen(each)));
  fill(main,
    el("p", {}, el("a", { href: "/payout" }, "All payout runs"), " \u203a ", el("a", { href: link("/payout/run", { run }) }, name(run))),
    el("h1", {}, name(payee)),
    el("p", { class: "lead" }, name(payee), ` ${seen(found.paid)}`),
    facts([["units", many(one.units)], ["count for it", many(one.counted)], ["repeat its own", many(one.repeated)], ["count for others", many(one.for_others)],
      ...(one.leaked.length ? [["validation rows", many(one.leaked.length)]] : []), ...(one.acquired.length ? [["acquired before", many(one.acquired.length)]] : []), ...(one.unusable.length ? [["could not be used", many(one.unusable.length)]] : [])]),
    el("p", {}, el("a", { href: link("/payout/run", { run, tab: "units", unit: payee }) }, "What each of its units earns")),
    words(found.submitted),
    words(found.matched),
    matches(found, run),
    words(found.others),
    el("section", {}, el("h2", {}, "What if"),
      el("p", {}, seen(found.without)),
      el("p", { class: "soft" }, "Without the evidence in its clusters alone: the market is scored again, which takes as long as scoring took."),
      whatIf(run, payee)),
    found.needs.length ? el("section", {}, el("h2", {}, "What its units are to the buyer"), lines(found.needs)) : null,
    el("section", {}, el("h2", {}, "Its statement"), statementLink(run, payee)));
};

export const title = "A run";

const TABS = { Payments: "payments", "Units and evidence": "units", Verify: "verify", "Files and history": "files" };
const START = { run: "", payee: "", tab: "payments", search: "", sort: "", page: 0, unit: "", unit_sort: "", unit_page: 0 };

const nextLink = (run, found) => {
  if (found.later) return el("a", { class: "press", href: link("/payout/run", { run: found.later }) }, "Go to that run");
  if (found.next.page === "ledger") return found.ledger ? el("a", { class: "press", href: link("/payout/ledger", { ledger: found.ledger }) }, found.next.label) : null;
  return found.next.page ? el("a", { class: "press", href: link(`/payout/${found.next.page}`, { run }) }, found.next.label) : null;
};

const warningsOf = ({ state, warnings: list }) => {
  const approved = ["approved", "paid"].includes(state);
  if (state === "superseded") return null;
  if (!list.length) return el("p", { class: "note good" }, approved ? "It was approved without a warning." : "No warnings stand before this run.");
  const words = `${many(list.length)} ${list.length === 1 ? "warning" : "warnings"}`;
  return el("section", {}, el("h2", {}, words, approved ? " accepted at the approval" : " to look at before approving"), warnings(list));
};

const head = (run, found) => [
  el("p", {}, el("a", { href: "/payout" }, "All payout runs")),
  el("div", { class: "payout-head" },
    el("h1", {}, runTitle({ run, period: found.period }), " ", stateTag(found.state)),
    el("a", { href: link("/api/payout/file", { run, name: "report.html" }), target: "_blank", rel: "noopener" }, "Open the report")),
  el("p", { class: "soft" }, name(run), " \u00b7 run ", el("code", {}, found.id.slice(0, 16)), found.ledger ? [" \u00b7 in the ledger ", el("a", { href: link("/payout/ledger", { ledger: found.ledger }) }, name(found.ledger))] : null, found.settles ? [" \u00b7 settles the checks of run ", el("code", {}, found.settles.slice(0, 16))] : null),
  el("div", { class: "next", role: "status" },
    el("p", {}, el("strong", {}, "Next: "), seen(found.next.words)),
    nextLink(run, found)),
  facts(found.facts),
  warningsOf(found),
];

const payments = (state, found) => {
  const { run, search, sort, page } = state.value;
  const list = pagedTable({
    fetch: remote("/api/payout/table", () => ({ run, table: "payments" })), name: "payments", caption: "Payments", word: "payees",
    asked: { search, sort, page }, onstate: (chosen) => state.set(chosen),
    columns: [
      {
        key: "identity", title: "payee",
        show: (row) => [el("a", { href: link("/payout/run", { run, payee: row.identity }) }, name(row.identity)),
          row.paid_together_with ? el("span", { class: "soft" }, " paid together with ", name(row.paid_together_with)) : null],
      },
      { key: "payment", title: "payment", number: true },
      { key: "low", title: "low", number: true },
      { key: "high", title: "high", number: true },
      { key: "without_evidence", title: "without evidence", number: true },
      ...(found.balances ? [{ key: "balance", title: "carried forward", number: true }] : []),
      { key: "units", title: "units", number: true, show: (row) => many(row.units) },
      { key: "clusters", title: "distinct", number: true, show: (row) => many(row.clusters) },
      { key: "score", title: "score", number: true, show: (row) => (row.score === null ? "\u2014" : row.score.toFixed(4)) },
    ],
  });
  const node = el("div", {},
    el("p", {}, seen(found.divided)),
    el("p", { class: "soft" }, `Low and high: how far a payment could have come out otherwise (${found.level}). Choose a payee to read why.`),
    list);
  node.begin = () => list.ready;
  node.follow = () => list.follow({ search: state.value.search, sort: state.value.sort, page: state.value.page });
  return node;
};

/** Each unit: what it earns, what it was matched with, and why it earns nothing. */
const units = (state, found) => {
  const { run, unit, unit_sort: sort, unit_page: page } = state.value;
  const list = pagedTable({
    fetch: remote("/api/payout/table", () => ({ run, table: "units" })), name: "units", caption: "Units", word: "rows",
    asked: { search: unit, sort, page }, onstate: (chosen) => state.set({ unit: chosen.search, unit_sort: chosen.sort, unit_page: chosen.page }),
    columns: [
      { key: "unit", title: "unit", show: (row) => (row.unit ? [name(row.unit), row.content ? el("p", { class: "soft" }, name(row.content)) : null] : el("span", { class: "soft" }, "no unit")) },
      { key: "payee", title: "payee", show: (row) => payeeLink(run, row.payee) },
      { key: "amount", title: "amount", number: true },
      { key: "matched_to", title: "matched to", show: (row) => (row.matched_to ? [name(row.matched_to), el("p", { class: "soft" }, seen(row.matched_by), row.shared_words ? [": ", name(row.shared_words)] : null)] : "") },
      { key: "cluster", title: "cluster" },
      { key: "reason", title: "why nothing" },
    ],
  });
  const node = el("div", {},
    el("p", {}, el("strong", {}, "Evidence used: "), el("code", {}, seen(found.evidence.used)), ". ", seen(found.evidence.why)),
    found.acquired ? el("p", {}, seen(found.acquired)) : null,
    el("p", { class: "soft" }, "Search by a unit, its words, a payee or a cluster. Amounts sum to the payments, to the cent."), list);
  node.begin = () => list.ready;
  node.follow = () => list.follow({ search: state.value.unit, sort: state.value.unit_sort, page: state.value.unit_page });
  return node;
};

const verify = (state) => {
  const place = el("div", { "aria-live": "polite" });
  const check = (path) => () => attempt(place, async () => {
    fill(place);
    const found = await ask(path, { body: { run: state.value.run }, progress: place, cancellable: true });
    const bad = found.checks.filter((each) => !each.good).length;
    fill(place,
      el("p", { class: `note ${found.good ? "good" : "bad"}` }, found.good ? `All ${found.checks.length} checks are good.` : `${bad} of ${found.checks.length} checks FAILED: do not approve or pay this run before you know why.`),
      grid(found.recomputed ? "Files, ledger, and everything worked out again" : "Files and ledger", ["", "what", "found"],
        found.checks.map((each) => [el("span", { class: `tag ${each.good ? "good" : "bad"}` }, each.good ? "ok" : "FAILED"), seen(each.what), seen(each.detail)]), "checks stack"));
  });
  return el("div", {},
    el("p", {}, "Do the files of the run and its ledger still say what was worked out? Recomputing it compares every amount; it needs the inputs, and the time that the payout run took."),
    el("div", { class: "tools" },
      button({ name: "verify", label: "Check files and ledger", onclick: check("/api/payout/verify"), kind: "main" }),
      button({ name: "recompute", label: "Work everything out again", onclick: check("/api/payout/recompute") })),
    place);
};

const files = (state, found) =>
  el("div", {},
    el("h3", {}, "Files"),
    el("ul", {}, found.files.map((each) => el("li", {}, el("a", { href: link("/api/payout/file", { run: state.value.run, name: each }), download: true }, each)))),
    el("h3", {}, "Inputs"),
    grid("", ["what", "name", ["bytes", true], "sha256", ""], found.inputs.map((each) => [
      seen(each.role), name(each.name), many(each.bytes), el("code", { title: each.sha256 }, `${each.sha256.slice(0, 16)}\u2026`), each.gone ? el("span", { class: "tag bad" }, "not where it was") : ""])),
    el("h3", {}, "What happened"),
    historyOf(found));

const showRun = async (main, state) => {
  const { run } = state.value;
  const found = await ask(link("/api/payout/run", { run }), { progress: main });
  const made = {};
  const build = { payments: () => payments(state, found), units: () => units(state, found), verify: () => verify(state), files: () => files(state, found) };
  const panels = Object.fromEntries(Object.keys(TABS).map((each) => [each, el("div")]));
  const open = async (each) => {
    const key = TABS[each];
    if (!made[key]) {
      made[key] = build[key]();
      fill(panels[each], made[key]);
      if (made[key].begin) await made[key].begin();
    }
  };
  const chosen = Object.keys(TABS).find((each) => TABS[each] === state.value.tab) || "Payments";
  fill(main, head(run, found), tabs("about", panels, chosen, (each) => {
    state.set({ tab: TABS[each] });
    open(each);
  }));
  await open(chosen);
  return () => Object.values(made).forEach((each) => each.follow && each.follow());
};

export async function show(main) {
  const state = urlState(START);
  let on = null;
  let follow = () => {};
  const page = async () => {
    const { run, payee } = state.value;
    on = `${run}\n${payee}`;
    fill(main, el("p", { class: "soft", role: "status" }, "Reading the run."));
    if (!run) {
      fill(main, el("p", { class: "note" }, "No run is named. ", el("a", { href: "/payout" }, "Choose one from the list.")));
      return;
    }
    try {
      follow = (payee ? await showPayee(main, state) : await showRun(main, state)) || (() => {});
    } catch (error) {
      fill(main, el("p", {}, el("a", { href: "/payout" }, "All payout runs")), problem(error));
    }
  };
  state.onchange(() => (`${state.value.run}\n${state.value.payee}` === on ? follow() : page()));
  await page();
}
