// A new payout run: tables in, columns and settings chosen, everything checked, a dry run, the run itself.
import { ask, latest, problem } from "../../lib/ask.js";
import { el, fill } from "../../lib/dom.js";
import { urlState } from "../../lib/url.js";
import { checkedView, columnsView, filesView } from "./new/tables.js";
import { goesView, runView, settingsView, writtenView } from "./new/run.js";

export const title = "New payout run";

const section = (heading, words, ...children) =>
  el("section", {}, el("h2", {}, heading), words ? el("p", { class: "soft" }, words) : null, children);

export const show = async (main, site) => {
  const form = await ask("/api/payout/new/form");
  const market = Object.keys(form.markets)[0] || "";
  /** What the form of a market begins with: its market.toml. */
  const first = (of) => form.markets[of]?.values || {};
  const state = urlState({ set: first(market), market, name: "payout", job: "" });
  const page = {
    site, form, state, first,
    asked: () => ({ values: state.value.set }),
    target: () => ({ values: state.value.set, market: state.value.market, name: state.value.name }),
    both: () => Boolean(state.value.set.submissions && state.value.set.validation),
    /** Change some settings; undefined takes one back to what it is if left out. */
    choose: (changes, options = {}) => {
      const set = { ...state.value.set, ...changes };
      for (const [key, value] of Object.entries(changes)) if (value === undefined) delete set[key];
      state.set({ set }, options);
    },
  };
  const views = {
    files: filesView(page), columns: columnsView(page), checked: checkedView(page), settings: settingsView(page),
    goes: goesView(page), written: writtenView(page), run: runView(page),
  };
  const wrong = el("div", { "aria-live": "polite" });
  const waiting = el("div");

  const check = latest((signal) => ask("/api/payout/new/check", { body: page.asked(), signal, progress: waiting }));
  const resolve = latest((signal) => ask("/api/payout/new/settings", { body: page.target(), signal }));
  const look = async () => {
    views.checked.wait();
    try {
      const found = await check();
      if (!found) return;
      views.columns.tell(found.tables);
      views.checked.tell(found);
      fill(wrong);
    } catch (error) {
      fill(wrong, problem(error));
      views.checked.tell(null);
    }
  };
  const showSettings = async () => {
    try {
      const found = await resolve();
      if (!found) return;
      views.settings.tell(found);
      views.goes.tell(found.faults.name);
      views.written.tell(found);
      views.run.ready(page.both() && !Object.keys(found.faults).length);
    } catch (error) {
      views.goes.tell(problem(error));
      views.run.ready(false);
    }
  };
  let asked = "";
  let sent = "";
  const refresh = () => {
    for (const view of Object.values(views)) view.refresh?.();
    const [tables, whole] = [JSON.stringify(page.asked()), JSON.stringify(page.target())];
    if (tables !== asked) look();
    if (whole !== sent) showSettings();
    asked = tables;
    sent = whole;
  };
  state.onchange(refresh);

  fill(main,
    el("h1", {}, "New payout run"),
    el("p", { class: "lead" }, "Divide an amount among those who submitted data. Nothing is paid here: a payout run is a draft until somebody approves it."),
    section("1. Tables", "Units that were submitted, and validation rows: examples of what is wanted, which the submitters have not seen.", views.files.node),
    section("2. Columns", "Choose above a column what it holds.", views.columns.node),
    section("3. What was found", "What a payout run would refuse, set aside or warn of, by the same checks.", waiting, wrong, views.checked.node),
    section("4. Settings", null, views.settings.node),
    section("5. Run", null, views.goes.node, views.run.node, views.written.node));
  refresh();
  return views.run.leave;
};
