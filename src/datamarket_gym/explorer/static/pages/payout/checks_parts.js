// Parts that several steps share: what a unit holds, words of what was done, the field for the token.
import { problem } from "../../lib/ask.js";
import { button, field, textbox } from "../../lib/controls.js";
import { el, fill, svg } from "../../lib/dom.js";

/** What a unit holds: a text, a picture, numbers, or a curve. */
export const content = (item) => {
  if (item.image) return el("img", { src: item.image, alt: "the picture of this unit" });
  if (item.text !== undefined) return el("div", { class: "text", dir: "auto", tabindex: "0" }, item.text);
  if (item.figures) return el("ol", { class: "values" }, item.figures.map((each) => el("li", {}, each)));
  return svg("svg", { viewBox: "0 0 256 40", role: "img", "aria-label": `${item.count} numbers as a curve`, preserveAspectRatio: "none", class: "curve" }, svg("path", { d: item.path }));
};

/** Rows of what and how much. */
export const pairs = (rows) => el("dl", { class: "pairs figures" }, rows.map(([what, value]) => [el("dt", {}, what), el("dd", {}, value)]));

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

/** A button that does something once at a time; words, errors and progress stand in the node beneath it. */
export const doing = ({ name, label, kind = "main", work, ready = () => true }) => {
  const progress = el("div", { class: "under-way" });
  const said = el("div", { role: "status" });
  let busy = false;
  const press = async () => {
    if (busy || !ready()) return;
    busy = true;
    pressed.disabled = true;
    fill(said);
    try {
      fill(said, await work(progress));
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
  node.said = said;
  node.check();
  return node;
};

/** Sentences that say what was done. */
export const good = (...words) => el("div", { class: "note good" }, words.flat().map((each) => el("p", {}, each)));

/** A number of its own for a form, so that it is entered once however often it is sent. */
export const fresh = () => [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
