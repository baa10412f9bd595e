// Parts that several payout pages share: who types, units, tokens, buttons, facts, warnings, moved inputs.
import { problem } from "../../lib/ask.js";
import { button, field, textbox } from "../../lib/controls.js";
import { el, fill, many, name, seen } from "../../lib/dom.js";
import { grid } from "../../lib/table.js";
import { link } from "../../lib/url.js";

const KEY = "datamarket who";

/** Who types, kept in this browser; `named()` is whether somebody has said it, else the field asks for it. */
export const whoAmI = () => {
  const input = textbox({ name: "by", value: localStorage.getItem(KEY) || "", placeholder: "your name" });
  input.addEventListener("input", () => {
    input.setCustomValidity("");
    localStorage.setItem(KEY, input.value.trim());
  });
  return {
    input,
    node: el("div", { class: "tools" }, field({ label: "You are", control: input, help: "Written into the ledger with all you do here; kept in this browser." })),
    get name() {
      return localStorage.getItem(KEY) || "";
    },
    named: () => {
      if (localStorage.getItem(KEY)) return true;
      input.focus();
      input.setCustomValidity("Say who you are first: it is written down with what you do.");
      input.reportValidity();
      return false;
    },
  };
};

/** Rows of what and how much. */
export const pairs = (rows) => el("dl", { class: "pairs figures" }, rows.map(([what, value]) => [el("dt", {}, what), el("dd", {}, value)]));

/** What has happened to a run: entries of its ledger. */
export const historyOf = (found) =>
  grid("", ["entry", "time (UTC)", "what", "by", "detail"], found.history.map((entry) => [entry.number, entry.at, entry.kind, name(entry.by), name(entry.detail)]));

/** The field into which the token is typed; it is never kept, nor part of an address. */
export const tokenField = (name) => {
  const input = textbox({ name, secret: true, placeholder: "xxxx-xxxx-xxxx" });
  input.setAttribute("autocapitalize", "off");
  const node = field({ label: "Token", control: input, help: "Type the word that the terminal shows in which the explorer was started." });
  return { node, input, get value() {
    return input.value.trim();
  },
  /** What was typed; the field is empty then. */
  taken() {
    const typed = input.value.trim();
    input.value = "";
    return typed;
  } };
};

/**
 * A button that does something once at a time; words, errors and progress stand in the node beneath it. With a `page`
 * somebody must have said who they are, and with a `token` it must be typed: `work(progress, typed)` is told of it.
 */
export const doing = ({ name, label, kind = "main", work, ready: good = () => true, inputs = [], token = null, page = null }) => {
  const progress = el("div", { class: "under-way" });
  const said = el("div", { role: "status" });
  let busy = false;
  const ready = () => good() && (!token || token.node.hidden || token.value !== "");
  const press = async () => {
    if (busy || !ready() || (page && !page.who.named())) return;
    busy = true;
    pressed.disabled = true;
    fill(said);
    try {
      fill(said, await work(progress, token ? token.taken() : ""));
    } catch (error) {
      fill(said, problem(error));
    } finally {
      busy = false;
      pressed.disabled = false;
      node.check();
    }
  };
  const pressed = button({ name, label, kind, onclick: press });
  const node = el("div", { class: "doing" }, pressed, progress, said);
  /** Look again whether it can be pressed. */
  node.check = () => {
    if (!busy) pressed.disabled = !ready();
  };
  for (const input of token ? [...inputs, token.input] : inputs) input.addEventListener("input", node.check);
  node.check();
  return node;
};

/** Sentences that say what was done. */
export const good = (...words) => el("div", { class: "note good" }, words.flat().map((each) => el("p", {}, each)));

/** A number of its own for a form, so that it is entered once however often it is sent. */
export const fresh = () => [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const GOOD = new Set(["approved", "paid"]);

/** The state of a run, as its ledger has it. */
export const stateTag = (state) => el("span", { class: `tag state-${state} ${GOOD.has(state) ? "good" : ""}` }, state);

/** A run as people know it: what it is for, else its id. */
export const runTitle = (run) => (run.period ? name(run.period) : name(run.run));

/** The first of what a warning is about. */
export const warnedOf = (warning) => [
  warning.items.length ? el("ul", {}, warning.items.map((item) => el("li", {}, el("bdi", {}, seen(item))))) : null,
  warning.items.length && warning.count > warning.items.length ? el("p", { class: "soft" }, `and ${many(warning.count - warning.items.length)} more`) : null];

/** Warnings at length: what each means, and the first of what it is about. */
export const warnings = (list, look = "warning") =>
  list.map((each) => el("details", { class: look, "data-warning": each.name },
    el("summary", {}, `${seen(each.title)} `, el("span", { class: "tag" }, each.name)), el("p", {}, seen(each.words || "It came from the ledger as it was then.")), warnedOf(each)));

/** A link that saves the statement of a payee; without one those of all, as a ZIP file. */
export const statementLink = (run, payee) =>
  el("p", {}, el("a", { href: link("/api/payout/statements", { run, payee }), download: "", name: "statement" }, "Save the statement"),
    el("span", { class: "soft" }, " A page to send: what was paid and why; others are called A, B, ... in it."));

/** A time as people read it. */
export const moment = (text) => (text ? `${text.slice(0, 10)} ${text.slice(11, 16)}` : "");

/** Lines of words, each set in as far as it says. */
export const lines = (list) => el("ul", { class: "lines" }, list.map(([deep, words]) => el("li", { class: `deep-${Math.min(deep, 12)}` }, seen(words))));
