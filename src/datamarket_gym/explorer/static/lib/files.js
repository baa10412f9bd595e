// Files that the reader saves.
import { el } from "./dom.js";

/** Let the reader save a text as a file. */
export const download = (file, text, type) => {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: url, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
};

// A table must not compute. As `csv_safe` of the library: signs of formulas, and what importers drop in front of them,
// where a cell can begin in somebody's settings: at the start, and after ; , tab or a line break.
const SIGNS = "=+\\-@\\u207a\\u207b\\u207c\\u208a\\u208b\\u208c\\u2212\\ufb29\\ufe62\\ufe63\\ufe66\\ufe6b\\uff0b\\uff0d\\uff1d\\uff20";
const FORMULA = `(?:[^\\S\\t\\r\\n]|['"\\u00ad\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2064\\ufeff])*[${SIGNS}]`;
const INSIDE = new RegExp(`(?<=[;,\\t\\r\\n])(?=${FORMULA})`, "g");
const START = new RegExp(`^(?:['\\t\\r\\n]|${FORMULA})`);

const harmless = (text) => {
  const safe = text.replace(INSIDE, "'");
  return START.test(safe) ? `'${safe}` : safe;
};

const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = typeof value === "string" && !/^[-\u2212]?[\d,]+(\.\d+)?$/.test(text) ? harmless(text) : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** Rows as CSV: {columns: [key or {key, title}], rows: [object]}. */
export const csvOf = ({ columns, rows }) => {
  const keys = columns.map((each) => (typeof each === "string" ? { key: each, title: each } : each));
  const lines = [keys.map((each) => cell(each.title)), ...rows.map((row) => keys.map((each) => cell(row[each.key])))];
  return `${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
};
