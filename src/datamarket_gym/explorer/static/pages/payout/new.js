// A new payout run: tables in, columns and settings chosen, everything checked, a dry run, the run itself.
import { ask, latest, problem } from "../../lib/ask.js";
import { el, fill } from "../../lib/dom.js";
import { urlState } from "../../lib/url.js";
import { checkedView, columnsView, filesView, closeMenu } from "./new/tables.js";
import { goesView, runView, settingsView, writtenView } from "./new/run.js";

export const title = "New payout run";

const START = { files: {}, set: {}, acquired: [], intake: "", market: "", name: "payout", ledger: "", job: "" };

const section = (heading, words, ...children) =>
  el("section", {}, el("h2", {}, heading), words ? el("p", { class: "soft" }, words) : null, children);

export const show = async (main, site) => {
  const form = await ask("/api/payout/new/form");
  const state = urlState({ ...START, market: form.markets[0] || "" });
  const page = {
    site, form, state,
    asked: () => {
      const { files, set, acquired, intake } = state.value;
      return { files, settings: set, acquired, intake };
    },
    target: () => {
      const { market, name, ledger } = state.value;
      return { settings: page.asked(), market, name, ledger };
    },
    /** Set some settings; undefined takes one back to what it is if left out. */
    choose: (changes) => {
      const set = { ...state.value.set, ...changes };
      for (const [key, value] of Object.entries(changes)) if (value === undefined) delete set[key];
      state.set({ set });
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
  const both = (value) => Boolean(value.files.submissions && value.files.validation);
  const look = async () => {
    views.checked.wait();
    try {
      const found = await check();
      if (!found) return;
      views.columns.tell(found.tables);
      views.checked.tell(found, both(state.value));
      fill(wrong);
    } catch (error) {
      fill(wrong, problem(error));
      views.checked.tell(null, false);
    }
  };
  const showSettings = async () => {
    try {
      const found = await resolve();
      if (!found) return;
      views.settings.tell(found);
      views.goes.showFaults(found);
      views.written.tell(found);
      views.run.ready(both(state.value) && !Object.keys(found.faults).length, found);
    } catch (error) {
      views.goes.tell(error);
      views.run.ready(false, null);
    }
  };
  let asked = "";
  let sent = "";
  const refresh = () => {
    const tables = JSON.stringify(page.asked());
    const whole = JSON.stringify(page.target());
    views.files.refresh();
    views.columns.refresh();
    views.settings.refresh();
    views.goes.refresh();
    views.run.refresh();
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
    section("2. Columns", "Click the head of a column to say what it holds.", views.columns.node),
    section("3. What was found", "What a payout run would refuse, set aside or warn of, by the same checks.", waiting, wrong, views.checked.node),
    section("4. Settings", null, views.settings.node),
    section("5. Run", null, views.goes.node, views.run.node, views.written.node));
  refresh();
  return () => {
    closeMenu();
    views.run.leave();
  };
};
