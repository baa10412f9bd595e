// A run from its draft to its payment: sample, look, settle, approve, pay.
import { ask, attempt } from "../../lib/ask.js";
import { el, fill, many, name } from "../../lib/dom.js";
import { link, urlState } from "../../lib/url.js";
import { showApprove } from "./checks_approve.js";
import { showReview } from "./checks_review.js";
import { showPay } from "./checks_pay.js";
import { showPlan } from "./checks_plan.js";
import { showSettle } from "./checks_settle.js";
import { good, historyOf, whoAmI } from "./parts.js";

export const title = "Checks and payment";

const STEPS = {
  plan: ["Sample", showPlan],
  review: ["Check units", showReview],
  settle: ["Settle", showSettle],
  approve: ["Approve", showApprove],
  pay: ["Pay", showPay],
  history: ["History", (place, page) => showHistory(place, page)],
};
const STATES = {
  draft: "draft", checked: "checked: everybody passed", superseded: "another draft took its place", approved: "approved",
  paid: "paid",
};

/** The step at which a run stands. */
const due = (found) => {
  if (found.state === "superseded") return "settle";
  if (found.state === "approved" || found.state === "paid") return "pay";
  if (found.state === "checked") return "approve";
  if (found.drawn) return found.checks.some((each) => !found.answers[each.number]) ? "review" : "settle";
  return found.required || found.plan ? "plan" : "approve";
};

const showHistory = (place, page) =>
  fill(place, el("h2", {}, "What has happened to this run"),
    el("p", { class: "soft" }, "Entries of its ledger, times in UTC. Payments and balances, one for each payee, are on the page of the ledger."),
    historyOf(page.found));

const choose = (main, site) => {
  const runs = site.places.runs;
  fill(main, el("h1", {}, title),
    el("p", {}, runs.length ? "Choose a run: its checks are sampled and answered here, then it is approved and paid." : "There is no run here yet. Begin a payout run, or name a folder of runs on the command line: datamarket explore RUNS/"),
    runs.length ? el("ul", {}, runs.map((run) => el("li", {}, el("a", { href: link("/payout/checks", { run }) }, name(run))))) : el("p", {}, el("a", { href: "/payout/new" }, "New payout run")));
};

export const show = async (main, site) => {
  const state = urlState({ run: "", step: "", number: 1 });
  if (!state.value.run) return choose(main, site);
  const who = whoAmI();
  const head = el("div");
  const doneNow = el("div", { role: "status" });
  const steps = el("nav", { class: "steps", "aria-label": "Steps" });
  const place = el("section", { class: "step", "aria-live": "off" });
  let leave = null;
  let on = "";

  const page = {
    state, site, found: null, who,
    get run() {
      return state.value.run;
    },
    /** The run as it is now, as far as whoever is here is told. */
    asNow: () => ask(`/api/payout/checks/state?run=${encodeURIComponent(page.run)}&by=${encodeURIComponent(who.name)}`, { progress: page.found ? null : place }),
    /** Ask for it, and show where it stands, and what was done. */
    async refresh({ step, done = [] } = {}) {
      page.found = await page.asNow();
      fill(doneNow, done.length ? good(done) : null);
      if (step !== undefined) state.set({ step }, { quiet: true });
      draw();
    },
    post: (action, body, options = {}) => ask(`/api/payout/checks/${action}`, { body: { run: page.run, ...body }, ...options }),
    /** The same of money: for the run that stands here, and for no other that may lie in its folder by now. */
    pay: (action, body, options = {}) => page.post(action, { shown: page.found.run, by: who.name, ...body }, options),
  };

  const draw = () => {
    const found = page.found;
    on = state.value.step in STEPS ? state.value.step : due(found);
    fill(head,
      el("p", { class: "soft" }, el("a", { href: link("/payout/run", { run: page.run }) }, name(page.run)), found.ledger ? [" in the ledger ", el("a", { href: link("/payout/ledger", { ledger: found.ledger }) }, name(found.ledger))] : null),
      el("h1", {}, found.period ? name(found.period) : "Payouts", ": checks and payment"),
      el("p", { class: "lead" }, el("span", { class: `tag ${found.state === "paid" ? "good" : ""}`, dataset: { state: found.state } }, STATES[found.state]), ` ${found.currency} ${found.amount} to ${many(found.payees)} payees`,
        found.forfeited ? `; ${found.currency} ${found.forfeited} were kept after failed checks` : ""),
      found.settles ? el("p", { class: "soft" }, "It takes the place of ", found.settles.id ? el("a", { href: link("/payout/checks", { run: found.settles.id }) }, name(found.settles.id)) : `run ${found.settles.run.slice(0, 16)}`, ", whose checks were settled.") : null,
      found.later ? el("p", { class: "note" }, "Another draft has taken the place of this run: ", found.later.id ? el("a", { href: link("/payout/checks", { run: found.later.id }), name: "later" }, name(found.later.id)) : name(found.later.name), ". Go on there.") : null);
    fill(steps, Object.entries(STEPS).map(([step, [words]]) =>
      el("button", { type: "button", name: `step-${step}`, class: step === on ? "here" : "", "aria-current": step === on ? "step" : null, on: { click: () => state.set({ step }, { push: true }) } }, words)));
    if (leave) leave();
    place.dataset.step = on;
    const left = STEPS[on][1](place, page);
    leave = typeof left === "function" ? left : null;
  };

  // What one is told of second checks depends on who one is; whatever is being written meanwhile stays as it is.
  who.input.addEventListener("change", () => page.onfound && attempt(place, async () => page.onfound?.(await page.asNow())));
  fill(main, head,
    who.node, steps, doneNow, place);
  let last = state.value;
  const stop = state.onchange((value) => {
    const other = value.run !== last.run;
    const turned = value.step !== last.step;
    last = value;
    if (other) attempt(place, () => page.refresh());
    else if (turned || (value.step || due(page.found)) !== on) draw();
    else page.onnumber?.(value.number);
  });
  await page.refresh();
  return () => {
    stop();
    if (leave) leave();
  };
};
