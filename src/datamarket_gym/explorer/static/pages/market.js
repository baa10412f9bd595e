// The market page: choose a market, an attack and a mechanism; see what the attack gains, who loses, and what is proven.
import { ask, attempt, problem, latest } from "../lib/ask.js";
import { button, copyButton, dialog } from "../lib/controls.js";
import { el, fill } from "../lib/dom.js";
import { download } from "../lib/files.js";
import { keys } from "../lib/keys.js";
import { urlState } from "../lib/url.js";
import { form, offered, read, askedOf, defaultsOf } from "./market/form.js";
import { evidenceGraph, graphOf } from "./market/graph.js";
import { certificate, barLegend, numbers, panels, brief, sentence } from "./market/result.js";

const PATIENCE = 400; // milliseconds after which a question is given up for a newer one

/** Wraps an async f: a call while f runs waits until it ends, or for PATIENCE at most; of several waiting, one runs. */
function steady(f) {
  let began = 0;
  let running = 0;
  let timer = null;
  const run = async () => {
    clearTimeout(timer);
    timer = null;
    began = performance.now();
    running += 1;
    const mine = running;
    await f();
    if (mine !== running) return; // a newer one has taken over
    began = 0;
    if (timer !== null) run();
  };
  return () => {
    if (!began) return run();
    timer ??= setTimeout(run, Math.max(0, began + PATIENCE - performance.now()));
    return undefined;
  };
}

const FILE = "market.py";

/** Opens the window for what was asked: the program, to be copied or saved. */
async function showCode(asked) {
  const body = el("div", { class: "as-code" }, el("p", { class: "soft" }, "Writing the code."));
  dialog("What is on the screen, as code", body);
  await attempt(body, async () => {
    const { python } = await ask("/api/market/code", { body: asked });
    const area = el("textarea", { class: "code", readonly: true, rows: Math.min(python.split("\n").length + 1, 24), spellcheck: "false", name: "listing-python", "aria-label": FILE, wrap: "off" }, python);
    fill(body,
      el("div", { class: "tools" }, copyButton("Copy", () => python, "copy-python"),
        button({ name: "save-python", label: `Save as ${FILE}`, kind: "quiet", onclick: () => download(FILE, python, "text/plain") })),
      area);
  });
}

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
    el("h2", {}, "Evidence: who is matched with whom"), graph,
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
