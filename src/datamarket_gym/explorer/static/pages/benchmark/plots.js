// Panels as plotly draws them. Lines differ by colour, dash and mark; errors are bars; the paper's numbers are crosses.
import { wrapped } from "../../lib/dom.js";

const COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8"];
const DASHES = ["solid", "dash", "dashdot", "dot", "longdash", "longdashdot"];
const MARKS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"];
const TICKS = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 32, 64];
const FEW = 9; // lines beyond which a family shares a look and a name

/** Linear up to 1, by doublings beyond: gains of two and of sixteen fit one picture. */
const bent = (value) => (value === null || value <= 1 ? value : 1 + Math.log2(value));
const same = (value) => value;

const upright = (axis, top, low) => {
  if (axis.scale === "net") {
    const ticks = TICKS.filter((tick) => tick <= Math.max(top, 1.2) && tick >= low - 0.5);
    return { tickvals: ticks.map(bent), ticktext: ticks.map(String) };
  }
  return axis.scale === "percent" ? { tickformat: ".0%" } : {};
};

const wrap = (text, width, plain) => wrapped(text, width).map(plain).join("<br>");

const said = (value, se, as) => `${as(value)}${se ? ` \u00b1 ${as(se)}` : ""}`;

/** Names stand above the lines, where they cover nothing; plotly makes room for them at the cost of the plot. */
const LEGEND = { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11 } };
const legendHeight = (names, width) => {
  const lines = names.map((each) => each.split("<br>"));
  const widest = Math.max(...lines.flat().map((each) => each.length)) * 6.2 + 55;
  const beside = Math.max(1, Math.floor((width - 60) / widest));
  return Math.ceil(lines.length / beside) * 19 * Math.max(...lines.map((each) => each.length));
};

const traceOf = (line, number, { look, bend, at, plain, as, many, first, open }) => ({
  type: "scatter",
  mode: open ? "markers" : "lines+markers",
  name: wrap(many ? line.family : line.label, 40, plain),
  legendgroup: many ? line.family : `${number}`,
  showlegend: first,
  x: line.x.map(at),
  y: line.y.map(bend),
  error_y: many ? undefined : {
    type: "data", symmetric: false, thickness: 1, width: 3, visible: line.se.some(Boolean),
    array: line.y.map((y, i) => bend(y + (line.se[i] || 0)) - bend(y)),
    arrayminus: line.y.map((y, i) => bend(y) - bend(y - (line.se[i] || 0))),
  },
  text: line.y.map((y, i) => `${plain(line.label)}: ${said(y, line.se[i], as)}`),
  hovertemplate: "%{text}<extra></extra>",
  line: { color: COLOURS[look % 8], dash: DASHES[look % 6], width: many ? 1.2 : 2 },
  marker: { color: COLOURS[look % 8], symbol: `${MARKS[look % 6]}${open ? "-open" : ""}`, size: many ? 5 : open ? 10 : 7 },
});

const across = (panel) => {
  const all = [...new Set([...panel.lines, ...panel.marks].flatMap((line) => line.x))].sort((a, b) => a - b);
  if (panel.x.scale === "levels") return { at: (x) => all.indexOf(x), axis: { tickvals: all.map((_, i) => i), ticktext: all.map(String) }, ends: [0, all.length - 1] };
  const axis = panel.x.scale === "percent" ? { tickformat: ".0%" } : all.length <= 6 ? { tickvals: all } : {};
  return { at: same, axis, ends: [all[0], all[all.length - 1]] };
};

const paperOf = (line, { at, bend, as, plain }) => {
  const found = line.paper.map((value, i) => ({ value, x: line.x[i] })).filter((each) => each.value !== null);
  return found.map((each) => ({ x: at(each.x), y: bend(each.value), text: `paper, ${plain(line.label)}: ${as(each.value)}` }));
};

/** A panel of lines. */
export const lineChart = (panel, plain, width) => {
  const bend = panel.y.scale === "net" ? bent : same;
  const as = panel.y.scale === "percent" ? (value) => `${(100 * value).toFixed(1)} %` : (value) => value.toFixed(3);
  const { at, axis, ends } = across(panel);
  const many = panel.lines.length > FEW && panel.lines.every((line) => line.family);
  const families = [...new Set(panel.lines.map((line) => line.family))];
  const seen = new Set();
  const lines = panel.lines.map((line, i) => {
    const first = !many || !seen.has(line.family);
    seen.add(line.family);
    return traceOf(line, i, { look: many ? families.indexOf(line.family) : i, bend, at, plain, as, many, first });
  });
  const marks = panel.marks.map((line, i) => traceOf(line, i, { look: panel.lines.length === 1 ? i + 1 : i, bend, at, plain, as, first: panel.lines.length === 1, open: true }));
  const levels = panel.levels.map((level, i) => ({ type: "scatter", mode: "lines", name: plain(level.label), x: ends.map((each) => each), y: ends.map(() => bend(level.value)), line: { color: COLOURS[(i + 2) % 8], dash: DASHES[i + 1], width: 1.5 }, text: ends.map(() => `${plain(level.label)}: ${as(level.value)}`), hovertemplate: "%{text}<extra></extra>" }));
  const values = [...panel.lines, ...panel.marks].flatMap((line) => line.y).concat(panel.levels.map((each) => each.value), panel.y.honest ?? []).filter((value) => value !== null);
  const [low, top] = [Math.min(...values), Math.max(...values)];
  const bounds = panel.bounds.map((bound, i) => ({ type: "scatter", mode: "lines", name: plain(bound.label), x: [bound.at, bound.at], y: [low, top], line: { color: COLOURS[(i + 3) % 8], dash: DASHES[(i + 2) % 6], width: 1.5 }, hoverinfo: "name" }));
  const paper = [...panel.lines, ...panel.marks].flatMap((line) => paperOf(line, { at, bend, as, plain }));
  const crosses = paper.length ? [{ type: "scatter", mode: "markers", name: "paper", x: paper.map((each) => each.x), y: paper.map((each) => each.y), text: paper.map((each) => each.text), hovertemplate: "%{text}<extra></extra>", marker: { color: "--bad", symbol: "x-thin-open", size: 9, line: { width: 2 } } }] : [];
  const rule = (value, dash, color) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: bend(value), y1: bend(value), line: { color, width: 1, dash }, layer: "below" });
  const data = [...lines, ...marks, ...levels, ...bounds, ...crosses];
  const named = data.filter((each) => each.showlegend !== false).map((each) => each.name);
  return {
    data,
    layout: {
      height: 300 + legendHeight(named, width),
      showlegend: true,
      legend: LEGEND,
      hovermode: "closest",
      xaxis: { ...axis, title: { text: plain(panel.x.title) }, zeroline: false },
      yaxis: { ...upright(panel.y, top, low), title: { text: plain(panel.y.title) }, zeroline: false },
      shapes: [panel.y.honest === null ? null : rule(panel.y.honest, "solid", "--edge"), panel.y.limit === null ? null : rule(panel.y.limit, "dot", "--bad")].filter(Boolean),
    },
    label: `${panel.title}: ${panel.y.title} against ${panel.x.title}, ${panel.lines.length} lines, from ${as(low)} to ${as(top)}.`,
    csv: {
      columns: ["line", "family", "x", "value", "se", "paper"],
      rows: [...panel.lines, ...panel.marks].flatMap((line) => line.x.map((x, i) => ({ line: line.label, family: line.family, x, value: line.y[i], se: line.se[i], paper: line.paper[i] }))),
    },
  };
};

/** A panel of dots: a row for each head, a dot with its error for each series. */
export const dotChart = (panel, plain, width) => {
  const step = Math.min(0.2, 0.7 / panel.series.length);
  const data = panel.series.map((series, number) => ({
    type: "scatter", mode: "markers", name: plain(series.label),
    x: series.x, y: series.at.map((at) => at + step * (number - (panel.series.length - 1) / 2)),
    error_x: { type: "data", array: series.se.map((each) => each || 0), thickness: 1, width: 3 },
    marker: { color: COLOURS[number % 8], symbol: `${MARKS[number % 6]}${number % 2 ? "-open" : ""}`, size: 9 },
    text: series.x.map((x, i) => `${plain(panel.heads[series.at[i]])}: ${said(x, series.se[i], (value) => value.toFixed(3))}${series.attack[i] ? `<br>${wrap(series.attack[i], 60, plain)}` : ""}`),
    hovertemplate: "%{text}<extra></extra>",
  }));
  const heads = panel.heads.map((head) => wrap(head, width < 520 ? 18 : 34, plain));
  return {
    data,
    layout: {
      height: 90 + 44 * heads.length + legendHeight(panel.series.map((each) => each.label), width),
      legend: LEGEND,
      xaxis: { title: { text: plain(panel.x.title) }, zeroline: false },
      yaxis: { tickvals: heads.map((_, i) => i), ticktext: heads, range: [heads.length - 0.5, -0.5], zeroline: false },
      shapes: [{ type: "line", yref: "paper", y0: 0, y1: 1, x0: panel.x.honest, x1: panel.x.honest, line: { color: "--edge", width: 1 }, layer: "below" }],
    },
    label: `${panel.title}: ${panel.x.title} of ${panel.heads.length} mechanisms; ${panel.series.map((each) => `${each.label} up to ${Math.max(...each.x).toFixed(2)}`).join(", ")}.`,
    csv: {
      columns: ["row", "series", "value", "se", "paper", "attack"],
      rows: panel.series.flatMap((series) => series.x.map((value, i) => ({ row: panel.heads[series.at[i]], series: series.label, value, se: series.se[i], paper: series.paper[i], attack: series.attack[i] }))),
    },
  };
};
