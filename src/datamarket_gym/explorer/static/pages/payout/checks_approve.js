// Approving: what it means, each warning with a box to be ticked, and the token, typed.
import { checkbox } from "../../lib/controls.js";
import { el, fill, many, name } from "../../lib/dom.js";
import { doing, tokenField, warnedOf } from "./parts.js";

const said = (approval) =>
  approval.approvals.length
    ? el("p", {}, "Approved by ", approval.approvals.map((each, i) => [i ? ", " : "", name(each.by), ` (${each.at})`, approval.valid.includes(each.by) ? "" : ", before a warning that it has now"]), ".")
    : null;

const warned = (warning, onchange) =>
  el("div", { class: "card warning" },
    el("h3", {}, warning.title), el("p", {}, warning.words),
    warning.items.length ? el("details", {}, el("summary", {}, `${warning.count} of them`), warnedOf(warning)) : null,
    checkbox({ name: `accept-${warning.name}`, label: "I have looked at this, and accept it", onchange }));

/** Why a run cannot be approved now, and where to go. */
const whyNot = (found) => {
  if (found.later) return "Another draft has taken the place of this run: approve that one.";
  if (found.drawn) return "Checks of this run were drawn and are not settled: look at the units, then settle.";
  if (found.required) return `This run asks for ${found.required} checks of each payee before it is approved: sample them first.`;
  return found.approval.why_not;
};

export const showApprove = (place, page) => {
  const { found } = page;
  const { approval } = found;
  const heading = el("h2", {}, "Approve");
  if (found.state === "approved" || found.state === "paid") return fill(place, heading, el("p", { class: "note good" }, `This run is ${found.state}: its payments stand.`), said(approval));
  if (approval.why_not) return fill(place, heading, el("p", { class: "note" }, whyNot(found)));
  const ticked = new Set();
  const token = tokenField("token");
  const act = doing({
    name: "approve", label: "Work it out again and approve", page, token, ready: () => ticked.size === approval.warnings.length,
    work: async (under, typed) => {
      const done = await page.pay("approve", { accept: [...ticked], token: typed }, { progress: under });
      if (done.wrong.length) return el("div", { class: "note bad" }, el("p", {}, "Not approved: what was worked out again does not agree with what lies there."), el("ul", {}, done.wrong.map((each) => el("li", {}, el("strong", {}, each.what), `: ${each.detail}`))));
      await page.refresh({ step: "", done: [done.words] });
      return null;
    },
  });
  fill(place, heading,
    el("p", {}, `Approving makes the payments of this run stand: ${found.currency} ${found.amount} are then owed to ${many(found.payees)} payees, and no later run can rewrite them; what turns out wrong is corrected by new entries. Before that, everything is worked out again from the inputs and compared, amounts to the cent.`),
    approval.needed > 1 ? el("p", {}, `The ledger asks for ${approval.needed} people; each approves under their own name.`) : null,
    said(approval),
    found.certificate ? el("p", { class: "note good" }, found.certificate) : null,
    approval.warnings.length ? el("p", {}, `${approval.warnings.length === 1 ? "One warning stands" : `${approval.warnings.length} warnings stand`} before this approval. The ledger keeps that you accepted them.`) : el("p", {}, "No warning stands before this approval."),
    approval.warnings.map((warning) => warned(warning, (yes) => {
      yes ? ticked.add(warning.name) : ticked.delete(warning.name);
      act.check();
    })),
    token.node, act);
};
