// A table of coloured cells with the number in each: the colour is never alone. The same as an SVG, and as CSV.
import { el, svg } from "../../lib/dom.js";
import { csvOf, download } from "../../lib/files.js";

const MOST = 50; // percent of colour in the strongest cell: ink stays readable on it, light and dark

/** How far a value is from the middle, from -1 to 1: for ratios by doublings and halvings, else by the largest. */
const reach = (value, centre, largest) => {
  if (value === null || value === undefined) return 0;
  if (centre === 1) return value <= 0 ? -1 : Math.max(-1, Math.min(1, Math.log2(value)));
  return largest ? Math.max(-1, Math.min(1, value / largest)) : 0;
};

const colour = (share) => {
  const strength = Math.round(MOST * Math.sqrt(Math.abs(share)));
  return strength < 2 ? "var(--paper)" : `color-mix(in srgb, var(${share > 0 ? "--alt" : "--main"}) ${strength}%, var(--paper))`;
};

/** The lines written in a cell. */
export const written = (cell) => [
  cell.text,
  cell.error || "",
  cell.paper === null || cell.paper === undefined ? "" : `paper ${Number(cell.paper.toPrecision(4))}${cell.difference === null || cell.difference === undefined ? "" : ` (${cell.difference < 0 ? "\u2212" : "+"}${Math.abs(cell.difference).toFixed(3)})`}${cell.within === false ? " !" : ""}`,
  cell.left_out ? `${cell.seeds} of ${cell.seeds + cell.left_out} seeds` : "",
].filter(Boolean);

const square = (cell, share, { limit, open, where }) => {
  const [first, ...more] = written(cell);
  const above = limit !== null && limit !== undefined && cell.value !== null && cell.value > limit;
  const inside = [el("span", { class: above ? "value above" : "value" }, above ? `${first} \u25b2` : first), more.map((line) => el("span", { class: line.endsWith("!") ? "line miss" : "line" }, line))];
  return el("td", { class: "heat", style: { "background-color": colour(share) } },
    open ? el("button", { type: "button", class: "cell", name: `cell-${where.join("-")}`, "aria-label": `${where[2]}, ${where[3]}: ${written(cell).join(", ")}`, on: { click: open } }, inside) : inside);
};

/** The table. open(i, j) makes cells that can be opened. */
export const cellTable = ({ heads, columns, cells, centre, corner, caption, limit = null, open = null }) => {
  const values = cells.flat().filter(Boolean).map((each) => Math.abs(each.value ?? 0));
  const largest = Math.max(0, ...values);
  return el("div", { class: "scroll heats", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { class: "heat-table", "aria-label": caption },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, corner), columns.map((each) => el("th", { scope: "col" }, each)))),
      el("tbody", {}, cells.map((line, i) =>
        el("tr", {}, el("th", { scope: "row" }, heads[i]),
          line.map((cell, j) => (cell
            ? square(cell, reach(cell.value, centre, largest), { limit, open: open ? () => open(i, j) : null, where: [i, j, heads[i], columns[j]] })
            : el("td", { class: "heat none" }, el("span", { class: "soft" }, "\u2013")))))))));
};

/** What the colours mean, in words. */
export const legend = (centre) =>
  el("p", { class: "soft legend" },
    el("span", { class: "swatch", style: { "background-color": colour(-1) } }), centre === 1 ? "at most half of 1" : "below 0",
    el("span", { class: "swatch", style: { "background-color": colour(0) } }), centre === 1 ? "1: what honesty pays" : "0",
    el("span", { class: "swatch", style: { "background-color": colour(1) } }), centre === 1 ? "twice that and more" : "the largest here");

const wrapped = (text, width) => {
  const lines = [""];
  for (const word of String(text).split(" ")) {
    const last = lines[lines.length - 1];
    if (last && last.length + word.length + 1 > width) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines;
};

/** A colour as the browser paints it, for files that are read elsewhere. */
const painted = (() => {
  const canvas = el("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  return (css) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
    return `rgb(${r},${g},${b})`;
  };
})();

const words = (x, y, lines, { size = 12, anchor = "start", bold = false, ink }) =>
  lines.map((line, i) => svg("text", { x, y: y + i * size * 1.25, "font-size": size, "text-anchor": anchor, fill: ink, "font-weight": bold && i === 0 ? 700 : 400 }, line));

/** The table on the page as an SVG text. */
export const svgOf = (table, title) => {
  const body = getComputedStyle(document.body);
  const [ink, paper] = [painted(body.color), painted(body.backgroundColor)];
  const rows = [...table.querySelectorAll("tbody tr")].map((row) => [...row.children]);
  const columns = [...table.querySelectorAll("thead th")].slice(1).map((each) => wrapped(each.textContent, 15));
  const [wide, tall, left] = [118, 54, 230];
  const top = 34 + 15 * Math.max(1, ...columns.map((each) => each.length));
  const size = [left + wide * columns.length + 8, top + tall * rows.length + 8];
  const picture = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width: size[0], height: size[1], viewBox: `0 0 ${size[0]} ${size[1]}`, "font-family": "system-ui, sans-serif" },
    svg("rect", { width: size[0], height: size[1], fill: paper }),
    words(6, 16, [title], { size: 14, bold: true, ink }),
    columns.map((lines, j) => words(left + wide * (j + 0.5), 36, lines, { anchor: "middle", ink })),
    rows.map(([head, ...line], i) => [
      words(6, top + tall * i + 20, wrapped(head.textContent, 34).slice(0, 3), { ink }),
      line.map((cell, j) => [
        svg("rect", { x: left + wide * j, y: top + tall * i, width: wide - 1, height: tall - 1, fill: painted(getComputedStyle(cell).backgroundColor) }),
        words(left + wide * (j + 0.5), top + tall * i + 18, [...cell.querySelectorAll("span")].map((each) => each.textContent), { anchor: "middle", bold: true, ink }),
      ]),
    ]));
  return new XMLSerializer().serializeToString(picture);
};

/** Buttons that save the table as SVG and as CSV. */
export const saveButtons = (node, file, { heads, columns, cells, corner }) => {
  const rows = cells.flatMap((line, i) => line.flatMap((cell, j) => (cell ? [{ down: heads[i], across: columns[j], value: cell.value, se: cell.se, paper: cell.paper, text: cell.text }] : [])));
  const listed = [{ key: "down", title: corner.split(" \\ ")[0] }, { key: "across", title: corner.split(" \\ ")[1] || "column" }, "value", "se", "paper", "text"];
  return el("div", { class: "tools small" },
    el("button", { type: "button", class: "quiet", name: `svg-${file}`, on: { click: () => download(`${file}.svg`, svgOf(node.querySelector("table"), file), "image/svg+xml") } }, "SVG"),
    el("button", { type: "button", class: "quiet", name: `csv-${file}`, on: { click: () => download(`${file}.csv`, csvOf({ columns: listed, rows }), "text/csv") } }, "CSV"));
};
