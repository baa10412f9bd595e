// One run: what it is, where it stands, its payments, evidence, checks of its files, and what to do next.
import { ask, problem } from "../../lib/ask.js";
import { button, tabs } from "../../lib/controls.js";
import { draw } from "../../lib/chart.js";
import { el, fill, name, seen } from "../../lib/dom.js";
import { link, urlState } from "../../lib/url.js";
import { pagedTable } from "./paged_table.js";
import { moved, movedFields } from "./moved.js";
import { showPayee } from "./payee.js";
import { facts, lines, runTitle, stateTag, warnings } from "./stands.js";

export const title = "A run";

const many = (n) => n.toLocaleString("en");
const TABS = { Payments: "payments", "Evidence and clusters": "evidence", Verify: "verify", "Files and history": "files" };
const START = { run: "", payee: "", tab: "payments", search: "", sort: "", page: 0, cluster: "", cluster_page: 0, submissions: "", validation: "", reference: "" };

const nextLink = (run, found) => {
  if (found.later) return el("a", { class: "press", href: link("/payout/run", { run: found.later }) }, "Go to that run");
  if (found.next.page === "ledger") return found.ledger ? el("a", { class: "press", href: link("/payout/ledger", { ledger: found.ledger }) }, found.next.label) : null;
  return found.next.page ? el("a", { class: "press", href: link(`/payout/${found.next.page}`, { run }) }, found.next.label) : null;
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
  found.warnings.length
    ? el("section", {}, el("h2", {}, `${many(found.warnings.length)} ${found.warnings.length === 1 ? "warning" : "warnings"}${["draft", "checked"].includes(found.state) ? " to look at before approving" : ""}`), warnings(found.warnings))
    : el("p", { class: "note good" }, "No warnings stand before this run."),
];

const payments = (state, found) => {
  const { run, search, sort, page } = state.value;
  const chart = el("div");
  const list = pagedTable({
    path: "/api/payout/payments", params: { run }, name: "payments", caption: "Payments", word: "payees",
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
    chart,
    el("p", { class: "soft" }, `The picture shows the ${found.drawn === 1 ? "only payment" : `${found.drawn} highest payments`}. Low and high: how far a payment could have come out otherwise (${found.level}). Choose a payee to read why.`),
    list);
  node.begin = async () => {
    await draw(chart, { ...found.chart, name: "highest-payments", label: `The ${found.drawn} highest payments as bars, each with its interval; the table beneath has all of them.` });
    await list.ready;
  };
  node.follow = () => list.follow({ search: state.value.search, sort: state.value.sort, page: state.value.page });
  return node;
};

const clusterCell = (row) =>
  el("details", {},
    el("summary", {}, `${many(row.size)} units of ${many(row.identities)} ${row.identities === 1 ? "name" : "names"}`),
    el("ul", {}, row.units.map((unit) => el("li", {}, name(unit.unit), " of ", name(unit.identity), unit.share > 0 ? `, counts ${Math.round(100 * unit.share)} %` : "")),
      row.more_units ? el("li", {}, `and ${many(row.more_units)} more`) : null),
    el("p", { class: "soft" }, "Matches:"),
    el("ul", {}, row.matches.map((match) => el("li", {}, name(match.left), " and ", name(match.right), `: ${match.words} ${match.score.toFixed(4)}`)),
      row.more_matches ? el("li", {}, `and ${many(row.more_matches)} more`) : null));

const names = (run, list, more) => [
  list.map((each, i) => [i ? ", " : "", el("a", { href: link("/payout/run", { run, payee: each }) }, name(each))]),
  more ? ` and ${many(more)} more` : "", list.length ? "" : "\u2014",
];

const evidence = (state, found) => {
  const { run, cluster, cluster_page } = state.value;
  const list = pagedTable({
    path: "/api/payout/clusters", params: { run }, name: "clusters", caption: "Clusters of several units: those of several names first, then by size", word: "clusters",
    empty: "No unit was taken for the same as another.",
    asked: { search: cluster, sort: "", page: cluster_page }, onstate: (chosen) => state.set({ cluster: chosen.search, cluster_page: chosen.page }),
    columns: [
      { key: "number", title: "cluster", number: false, sorts: false, show: (row) => String(row.number) },
      { key: "size", title: "what is in it", sorts: false, show: clusterCell },
      { key: "paid", title: "paid to", sorts: false, show: (row) => names(run, row.paid, row.paid_more) },
      { key: "others", title: "not paid for it", sorts: false, show: (row) => names(run, row.others, row.others_more) },
      { key: "reasons", title: "matched by", sorts: false, show: (row) => seen(row.reasons.join(", ")) },
    ],
  });
  const node = el("div", {},
    el("p", {}, el("strong", {}, "Evidence used: "), el("code", {}, seen(found.evidence.used)), ". ", seen(found.evidence.why)),
    found.acquired ? el("p", {}, seen(found.acquired)) : null,
    found.has_needs ? leastCovered(state) : null,
    el("p", { class: "soft" }, "Search by the name of a unit or of a payee."), list);
  node.begin = () => list.ready;
  node.follow = () => list.follow({ search: state.value.cluster, sort: "", page: state.value.cluster_page });
  return node;
};

const leastCovered = (state) => {
  const place = el("div", { "aria-live": "polite" });
  const open = async () => {
    try {
      const found = await ask("/api/payout/least-covered", { body: { run: state.value.run, moved: moved(state) }, progress: place });
      fill(place, lines(found.lines), el("p", { class: "note" }, found.secret));
    } catch (error) {
      fill(place, problem(error));
    }
  };
  return el("p", {}, button({ name: "least-covered", label: "Which needs are covered least (for the operator alone)", onclick: open, kind: "quiet" }), place);
};

const verify = (state) => {
  const place = el("div", { "aria-live": "polite" });
  const check = (path) => async () => {
    fill(place);
    try {
      const found = await ask(path, { body: { run: state.value.run, moved: moved(state) }, progress: place, cancellable: true });
      const bad = found.checks.filter((each) => !each.good).length;
      fill(place,
        el("p", { class: `note ${found.good ? "good" : "bad"}` }, found.good ? `All ${found.checks.length} checks are good.` : `${bad} of ${found.checks.length} checks FAILED: do not approve or pay this run before you know why.`),
        el("div", { class: "scroll" }, el("table", { class: "checks stack" },
          el("caption", {}, found.recomputed ? "Files, ledger, and everything worked out again" : "Files and ledger"),
          el("thead", {}, el("tr", {}, ["", "what", "found"].map((each) => el("th", { scope: "col" }, each)))),
          el("tbody", {}, found.checks.map((each) => el("tr", {},
            el("td", {}, el("span", { class: `tag ${each.good ? "good" : "bad"}` }, each.good ? "ok" : "FAILED")),
            el("td", { class: "name" }, seen(each.what)), el("td", { class: "name" }, seen(each.detail))))))));
    } catch (error) {
      fill(place, problem(error));
    }
  };
  return el("div", {},
    el("p", {}, "Do the files of the run and its ledger still say what was worked out? Working everything out again compares every byte; it needs the inputs, and the time that the payout run took."),
    el("div", { class: "tools" },
      button({ name: "verify", label: "Check files and ledger", onclick: check("/api/payout/verify"), kind: "main" }),
      button({ name: "recompute", label: "Work everything out again", onclick: check("/api/payout/recompute") })),
    movedFields(state), place);
};

const files = (state, found) =>
  el("div", {},
    el("h3", {}, "Files"),
    el("ul", {}, found.files.map((each) => el("li", {}, el("a", { href: link("/api/payout/file", { run: state.value.run, name: each }), download: true }, each)))),
    el("h3", {}, "Inputs"),
    el("div", { class: "scroll" }, el("table", { class: "stack" },
      el("thead", {}, el("tr", {}, ["what", "name", "bytes", "sha256", ""].map((each) => el("th", { scope: "col" }, each)))),
      el("tbody", {}, found.inputs.map((each) => el("tr", {}, el("td", {}, seen(each.role)), el("td", { class: "name", "data-h": "name" }, name(each.name)), el("td", { class: "n", "data-h": "bytes" }, many(each.bytes)), el("td", { "data-h": "sha256" }, el("code", { title: each.sha256 }, `${each.sha256.slice(0, 16)}\u2026`)),
        el("td", {}, each.gone ? el("span", { class: "tag bad" }, "not where it was") : "")))))),
    el("h3", {}, "What happened"),
    el("div", { class: "scroll" }, el("table", { class: "stack" },
      el("thead", {}, el("tr", {}, ["entry", "time (UTC)", "event", "by", "detail"].map((each) => el("th", { scope: "col" }, each)))),
      el("tbody", {}, found.history.map((each) => el("tr", {}, el("td", {}, String(each.number)), el("td", { "data-h": "time (UTC)" }, seen(each.at)), el("td", { "data-h": "event" }, seen(each.kind)), el("td", { class: "name", "data-h": "by" }, name(each.by)), el("td", { class: "name", "data-h": "detail" }, seen(each.detail))))))));

const showRun = async (main, state) => {
  const { run } = state.value;
  const found = await ask(link("/api/payout/run", { run }), { progress: main });
  const made = {};
  const build = { payments: () => payments(state, found), evidence: () => evidence(state, found), verify: () => verify(state), files: () => files(state, found) };
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
