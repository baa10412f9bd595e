// Where a payout run goes: the market's folder and ledger; and what it is priced given: earlier runs, an intake log.
import { ask, problem } from "../../../lib/ask.js";
import { checkbox, field, select, textbox } from "../../../lib/controls.js";
import { el, fill } from "../../../lib/dom.js";

const earlier = (page, place) => {
  const boxes = new Map();
  ask("/api/payout/new/earlier", { progress: place }).then(({ runs }) => {
    if (!runs.length) {
      fill(place, el("p", { class: "soft" }, "No approved run lies in the folders that the explorer shows."));
      return;
    }
    const toggle = (id, on) => {
      const left = page.state.value.prior.filter((each) => each !== id);
      page.state.set({ prior: on ? [...left, id] : left });
    };
    fill(place, runs.map((run) => {
      const box = checkbox({ name: `prior-${run.id}`, label: `${run.period || run.id}: ${run.amount}, ${run.state} (${run.id})`, checked: page.state.value.prior.includes(run.id), onchange: (on) => toggle(run.id, on) });
      boxes.set(run.id, box.querySelector("input"));
      return box;
    }));
  }, (error) => fill(place, problem(error)));
  return () => boxes.forEach((box, id) => (box.checked = page.state.value.prior.includes(id)));
};

/** Where it goes. */
export const goesView = (page) => {
  const { form, state } = page;
  const wrong = el("div", { "aria-live": "polite" });
  const market = select({ name: "market", value: state.value.market, options: form.markets.length ? form.markets : [{ value: "", label: "none was named" }], onchange: (value) => state.set({ market: value }) });
  const folder = textbox({ name: "run-name", value: state.value.name, onchange: (value) => state.set({ name: value.trim() }) });
  const ledger = select({ name: "ledger", value: state.value.ledger, options: [{ value: "", label: "the one beside the run" }, ...form.ledgers.map((each) => ({ value: each, label: each }))], onchange: (value) => state.set({ ledger: value }) });
  const log = select({ name: "intake", value: state.value.intake, options: [{ value: "", label: "none: times are as the table has them" }, ...form.ledgers.map((each) => ({ value: each, label: each }))], onchange: (value) => state.set({ intake: value }) });
  const list = el("div");
  const moved = earlier(page, list);
  const node = el("div", {},
    el("details", { open: state.value.prior.length > 0 || Boolean(state.value.intake) }, el("summary", {}, "Earlier runs and the intake log"),
      el("p", { class: "soft" }, "What earlier runs have bought is there already: units that evidence matches to it earn nothing, and new ones are paid for what they add."),
      list, field({ label: "Intake log", help: "A ledger with your intake log: times are when it received each unit, and nothing that the table says.", control: log })),
    el("div", { class: "fields" },
      field({ label: "Market", help: form.markets.length ? "The folder in which the run will lie." : "To run it for real, start the explorer with a folder: datamarket explore MARKET/. A dry run needs none.", control: market }),
      field({ label: "Name of the run", help: "Its folder; one that was stopped is taken up again.", control: folder }),
      field({ label: "Ledger", help: "In which the run is entered; its balances are taken up. A dry run looks at a copy.", control: ledger })),
    wrong);
  return {
    node,
    refresh: () => {
      fill(wrong);
      market.value = state.value.market;
      ledger.value = state.value.ledger;
      log.value = state.value.intake;
      if (document.activeElement !== folder) folder.value = state.value.name;
      moved();
    },
    tell: (error) => fill(wrong, problem(error)),
    settled: ({ faults }) => fill(wrong, faults.name ? el("p", { class: "fault", role: "alert" }, faults.name) : null),
  };
};
