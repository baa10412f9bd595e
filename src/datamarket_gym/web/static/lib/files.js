// Files that the reader saves.
import { el } from "./dom.js";

/** Let the reader save a text as a file. */
export const download = (file, text, type) => {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: url, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
};

const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text; // a table must not compute
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** Rows as CSV: {columns: [key or {key, title}], rows: [object]}. */
export const csvOf = ({ columns, rows }) => {
  const keys = columns.map((each) => (typeof each === "string" ? { key: each, title: each } : each));
  const lines = [keys.map((each) => cell(each.title)), ...rows.map((row) => keys.map((each) => cell(row[each.key])))];
  return `${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
};
