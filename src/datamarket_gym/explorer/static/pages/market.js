// The market page: choose a market, a attack and a mechanism; see what the attack gains, who loses, and what is proven.

import { ask, latest, problem } from "../lib/ask.js";
import { button } from "../lib/controls.js";
import { el, fill } from "../lib/dom.js";
import { keys } from "../lib/keys.js";
import { urlState } from "../lib/url.js";
import { certificate } from "./market/certificate.js";
import { showCode } from "./market/code.js";
import { form } from "./market/form.js";
import { evidenceGraph } from "./market/graph.js";
import { graphOf } from "./market/graph_view.js";
import { offered } from "./market/parameters.js";
import { barLegend, numbers, panels } from "./market/payments.js";
import { brief, sentence } from "./market/sentence.js";
import { read } from "./market/spec.js";
import { askedOf, defaultsOf } from "./market/state.js";
import { steady } from "./market/steady.js";

export const title = "Market";

export async function show(main) {
  const waiting = el("div", { "aria-live": "polite" });
  fill(main, waiting);
  const options = await ask("/api/market/choices", { progress: waiting });
  const state = urlState(defaultsOf(options));
  const controls = form(options, state);
  const results = page();
  fill(
    main,
    el("h1", {}, "Market"),
    el("p", { class: "soft" }, "A market of providers, one of whom attacks: what the attack gains, who loses by it, and what is proven."),
    el("div", { class: "split" }, controls.node, results.node),
  );
  const question = latest((signal) => ask("/api/market/answer", { body: askedOf(state.value), signal, progress: results.progress, topic: "market" }));
  const refresh = steady(async () => {
    results.wait();
    try {
      const answer = await question();
      if (answer) results.show(answer);
    } catch (error) {
      results.fail(error);
    }
  });
  const code = () => showCode(askedOf(state.value));
  fill(results.tools, button({ name: "code", label: "Copy as code", key: "c", onclick: code }));
  const stopKeys = keys({
    c: ["copy as code", code],
    "[": ["previous attack", () => step(options, state, controls, -1)],
    "]": ["next attack", () => step(options, state, controls, 1)],
  });
  state.onchange(refresh);
  const back = () => controls.make();
  addEventListener("popstate", back);
  refresh();
  return () => {
    stopKeys();
    removeEventListener("popstate", back);
    results.close();
  };
}

/** The next attack that can be played with this task. */
function step(options, state, controls, by) {
  const task = read(state.value.task, options.tasks).name;
  const playable = options.attacks.filter((attack) => !offered(attack, task).disabled).map((attack) => attack.name);
  const at = playable.indexOf(read(state.value.attack, options.attacks).name);
  state.set({ attack: playable[(at + by + playable.length) % playable.length] }, { push: true });
  controls.make();
}

/** The right side: it keeps the last answer, faded, until the next is there. */
function page() {
  const part = (name) => el("div", { "data-part": name });
  const [said, pays, graph, proof] = ["sentence", "payments", "graph", "certificate"].map(part);
  const progress = el("div", { class: "market-progress", "aria-live": "polite" });
  const trouble = el("div", { "aria-live": "assertive" });
  const tools = el("div", { class: "tools" });
  const inSight = el("p", { class: "market-brief", "aria-hidden": "true", hidden: true });
  const tables = numbers();
  let answer = null;
  let width = 0;

  const whole = el(
    "div",
    { class: "answer", hidden: true },
    el("div", { "aria-live": "polite" }, said),
    el("h2", {}, "Payments"), barLegend(), pays, tables.node,
    el("h2", {}, "Evidence: who is matched to whom"), graph,
    el("h2", {}, "What is proven about this attack"), proof,
  );
  const node = el("div", { class: "results" }, el("div", { class: "market-head" }, progress, tools), trouble, whole, inSight);

  const draw = () => {
    if (!answer || !graph.clientWidth) return;
    const held = graph.contains(document.activeElement) ? document.activeElement.dataset.identity : null;
    width = graph.clientWidth;
    fill(graph, evidenceGraph(graphOf(answer), Math.min(width, 760)));
    if (held) graph.querySelector(`[data-identity="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
  };
  const resized = new ResizeObserver(() => graph.clientWidth !== width && draw());
  resized.observe(graph);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  addEventListener("themechange", draw);
  dark.addEventListener("change", draw);

  const turned = () => (node.dataset.turn = String(Number(node.dataset.turn ?? 0) + 1)); // how many answers there were

  return {
    node, progress, tools,
    wait: () => whole.classList.add("stale"),
    show: (next) => {
      answer = next;
      whole.hidden = false;
      fill(trouble);
      fill(said, sentence(answer));
      fill(inSight, brief(answer)).hidden = false;
      fill(pays, panels(answer));
      tables.show(answer);
      draw();
      fill(proof, certificate(answer));
      whole.classList.remove("stale");
      turned();
    },
    fail: (error) => {
      fill(trouble, problem(error));
      turned();
    },
    close: () => {
      resized.disconnect();
      removeEventListener("themechange", draw);
      dark.removeEventListener("change", draw);
    },
  };
}
