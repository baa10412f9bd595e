// Elements from plain values. Text is always text: nothing here, or anywhere in these pages, reads a string as markup.

const SVG = "http://www.w3.org/2000/svg";

const dress = (node, attributes) => {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, f] of Object.entries(value)) node.addEventListener(event, f);
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) node.style.setProperty(key, each);
    else if (name === "value") node.value = value;
    else if (name === "checked") node.checked = Boolean(value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
};

const put = (node, children) => {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
};

/** An element with attributes (class, dataset, on, style as properties, ...) and children: text, nodes, arrays. */
export const el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  put(node, children);
  dress(node, attributes); // a select takes its value after its options
  return node;
};

/** The same for pictures. */
export const svg = (tag, attributes = {}, ...children) => {
  const node = document.createElementNS(SVG, tag);
  dress(node, attributes);
  put(node, children);
  return node;
};

/** Replace what a node holds. */
export const fill = (node, ...children) => {
  node.replaceChildren();
  put(node, children);
  return node;
};

const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\p{Default_Ignorable_Code_Point}]/gu;

/** A name as text in which every character can be seen: what has no shape is written as its number. */
export const seen = (text) =>
  String(text).replace(HIDDEN, (each) => `\u27e8U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);

/** A name of somebody or something, set apart from the direction of the text around it. */
export const name = (text) => el("bdi", { class: "name" }, seen(text));

/** A number for people: digits after the point, thousands set apart; an em dash where there is none. */
export const shown = (value, digits = 3) =>
  value === null || value === undefined || Number.isNaN(value)
    ? "\u2014"
    : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** Pairs of words and values. */
export const facts = (rows) => el("dl", { class: "facts" }, rows.map(([what, value]) => el("div", {}, el("dt", {}, what), el("dd", {}, value))));

/** What a unit holds: a text, a picture, numbers, or a curve. */
export const content = (item) => {
  if (item.image) return el("img", { src: item.image, alt: "what the unit holds" });
  if (item.text !== undefined) return el("div", { class: "text", dir: "auto", tabindex: "0" }, item.text);
  if (item.figures) return el("ol", { class: "values" }, item.figures.map((each) => el("li", {}, each)));
  return svg("svg", { viewBox: "0 0 256 40", role: "img", "aria-label": `${item.count} numbers as a curve`, preserveAspectRatio: "none", class: "curve" }, svg("path", { d: item.path }));
};

/** The lines of a text, none longer than a width in letters if it can be helped. */
export const wrapped = (text, width) => {
  const lines = [""];
  for (const word of String(text).split(" ")) {
    const last = lines.at(-1);
    if (last && last.length + word.length + 1 > width) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines;
};

/** A whole number with thousands set apart. */
export const many = (n) => n.toLocaleString("en");

/** A part of a whole, in percent. */
export const percent = (value, digits = 1) =>
  value === null || value === undefined ? "\u2014" : `${shown(100 * value, digits)} %`;
