// Why a payee is paid what it is paid: the words of `datamarket explain`, the matches, and what the units hold.
import { ask, problem } from "../../lib/ask.js";
import { button, checkbox } from "../../lib/controls.js";
import { el, fill, name, seen, svg } from "../../lib/dom.js";
import { download } from "../../lib/files.js";
import { link } from "../../lib/url.js";
import { moved, movedFields } from "./moved.js";
import { facts, lines } from "./stands.js";

const many = (n) => n.toLocaleString("en");
const EARLIER = { unit: "its own came first", other: "the other came first", neither: "they came at the same time" };

const payeeLink = (run, who) => el("a", { href: link("/payout/run", { run, payee: who }) }, name(who));

/** What a unit holds: text, picture, numbers. */
const held = (content) => {
  if (!content) return el("p", { class: "soft" }, "not in the inputs");
  const label = content.label ? el("p", { class: "soft" }, "label: ", name(content.label)) : null;
  if (content.text !== undefined) return [el("pre", { class: "held", dir: "auto" }, content.text), label];
  if (content.image !== undefined) return [el("img", { src: content.image, alt: "what the unit holds" }), label];
  if (content.figures) return [el("p", { class: "mono" }, content.figures.join("  ")), label];
  return [svg("svg", { viewBox: "0 0 256 40", class: "curve", role: "img", "aria-label": `${content.count} numbers as a curve` }, svg("path", { d: content.path })), el("p", { class: "soft" }, `${content.count} numbers`), label];
};

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

const matches = (state, found, run) => {
  const { matches: matches, matches_in_all: all } = found.record;
  if (!matches.length) return el("section", {}, el("h2", {}, "What matched what"), el("p", {}, "None of its units was matched with another."));
  const cards = matches.map((match) => matchCard(run, match, found.reasons));
  const place = el("div", { "aria-live": "polite" });
  const open = async () => {
    try {
      const got = await ask("/api/payout/contents", { body: { run, payee: found.identity, moved: moved(state) }, progress: place });
      cards.forEach((card) => card.fillHeld(got.units));
    } catch (error) {
      fill(place, problem(error));
    }
  };
  return el("section", {},
    el("h2", {}, "What matched what"),
    el("p", { class: "soft" }, all > matches.length ? `${matches.length} of ${many(all)} matches, those that matter most; evidence.parquet holds all.` : `${many(all)} ${all === 1 ? "match" : "matches"}.`),
    el("div", { class: "tools" }, button({ name: "contents", label: "Show what the units hold", onclick: open })),
    place,
    el("ul", { class: "matches" }, cards));
};

const matchedWith = (found, run) => {
  const { matched_payees: matched, matched_payees_in_all: all } = found.record;
  if (!matched.length) return null;
  return el("section", {},
    el("h2", {}, "With whom"),
    el("div", { class: "scroll" }, el("table", { class: "stack" },
      el("caption", {}, all > matched.length ? `${matched.length} of ${many(all)} others` : "Others whose units matched some of its own"),
      el("thead", {}, el("tr", {}, [["who", ""], ["its units", "n"], ["of these count for others", "n"], ["of those, for them", "n"], ["why", ""]].map(([each, kind]) => el("th", { scope: "col", class: kind }, each)))),
      el("tbody", {}, matched.map((each) => el("tr", {},
        el("td", { class: "name" }, payeeLink(run, each.name)),
        el("td", { class: "n", "data-h": "its units" }, many(each.units)),
        el("td", { class: "n", "data-h": "count for others" }, many(each.for_others)),
        el("td", { class: "n", "data-h": "of those, for them" }, many(each.for_them)),
        el("td", { "data-h": "why" }, Object.entries(each.reasons).map(([code, n]) => `${found.reasons[code]?.[0] || seen(code)} ${many(n)}`).join(", "))))))));
};

const asking = (label, key, path, state, found, shown) => {
  const place = el("div", { "aria-live": "polite" });
  const open = async () => {
    try {
      fill(place, shown(await ask(path, { body: { run: state.value.run, payee: found.identity, moved: moved(state) }, progress: place, cancellable: true })));
    } catch (error) {
      fill(place, problem(error));
    }
  };
  return el("div", {}, button({ name: key, label, onclick: open }), place);
};

const statement = (state, found) => {
  const place = el("div", { "aria-live": "polite" });
  const box = checkbox({ name: "pseudonyms", label: "others without their names" });
  const save = async () => {
    try {
      const made = await ask(link("/api/payout/statement", { run: state.value.run, payee: found.identity, pseudonyms: box.querySelector("input").checked }), { progress: place });
      download(made.file, made.page, "text/html");
      fill(place, el("p", { class: "soft" }, `Saved as ${made.file}. It is for this payee alone.`));
    } catch (error) {
      fill(place, problem(error));
    }
  };
  return el("section", {}, el("h2", {}, "Its statement"),
    el("p", { class: "soft" }, "A page to send to the payee: what was paid and why. Others are named in it, unless their names are left out."),
    el("div", { class: "tools" }, button({ name: "statement", label: "Save the statement", onclick: save }), box), place);
};

/** The page of one payee of a run. */
export const showPayee = async (main, state) => {
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
    words(found.submitted),
    words(found.matched),
    matches(state, found, run),
    matchedWith(found, run),
    words(found.others),
    el("section", {}, el("h2", {}, "What if"),
      el("p", {}, seen(found.without)),
      el("p", { class: "soft" }, "Without the evidence in its clusters alone: the market is scored again, which takes as long as scoring took."),
      asking("What if without its evidence", "what-if", "/api/payout/what-if", state, found, (got) => el("p", { class: "note" }, seen(got.words)))),
    found.needs.length
      ? el("section", {}, el("h2", {}, "What its units are to the buyer"), lines(found.needs),
        asking("Which needs these are (for the operator alone)", "needs", "/api/payout/needs", state, found, (got) => [lines(got.lines), el("p", { class: "note" }, got.secret)]))
      : null,
    statement(state, found),
    el("section", {}, el("h2", {}, "Inputs"), movedFields(state)));
};
