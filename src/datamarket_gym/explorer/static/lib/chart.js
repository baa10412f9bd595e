// Charts: plotly's own script, loaded with the first of them, in the colours of the page.
import { el, fill } from "./dom.js";
import { csvOf, download } from "./files.js";

// Plotly would write the look of its maps into the page, which may not be: an element of that name keeps it from trying.
const MAPS = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53";

let loading = null;
const plotly = () => {
  loading = loading || new Promise((resolve, reject) => {
    document.head.append(el("meta", { id: MAPS }));
    const script = el("script", { src: "/static/plotly.min.js" });
    script.addEventListener("load", () => resolve(globalThis.Plotly));
    script.addEventListener("error", () => reject(new Error("plotly's script did not load")));
    document.head.append(script);
  });
  return loading;
};

/** Text for plotly, whose texts are markup: a name stays a name. */
export const plain = (text) =>
  String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const painted = (value, style) => {
  if (typeof value === "string") return value.startsWith("--") ? style.getPropertyValue(value).trim() || value : value;
  if (Array.isArray(value)) return value.map((each) => painted(each, style));
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, painted(each, style)]));
  return value;
};

const charts = new Set();

const paint = async (chart) => {
  const Plotly = await plotly();
  if (!chart.node.isConnected) return;
  const style = getComputedStyle(document.documentElement);
  const [data, given] = [painted(chart.data, style), painted(chart.layout, style)];
  const ink = style.getPropertyValue("--ink").trim();
  const line = style.getPropertyValue("--line").trim();
  const narrow = chart.node.clientWidth < 520;
  const layout = {
    height: 320,
    ...given,
    autosize: true,
    margin: { l: 56, r: 16, t: given.title ? 40 : 16, b: 48, ...given.margin },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "inherit", size: narrow ? 11 : 13, color: ink },
    hoverlabel: { font: { family: "inherit" } },
  };
  for (const axis of Object.keys(given).filter((key) => /^[xy]axis\d*$/.test(key)).concat("xaxis", "yaxis")) {
    layout[axis] = { gridcolor: line, zerolinecolor: line, linecolor: line, fixedrange: true, automargin: true, ...given[axis] };
  }
  await Plotly.react(chart.node, data, layout, { displayModeBar: false, responsive: true, ...chart.config });
  if (chart.drawn) chart.drawn(chart.node);
};

const repaint = () => {
  for (const chart of charts) chart.node.isConnected ? paint(chart) : charts.delete(chart);
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
addEventListener("themechange", repaint);

/**
 * Draw a chart into a node, or draw it anew. Strings that begin with "--" are colours of the page. `label` says in words
 * what is seen. With `name`, SVG can be downloaded, and with `csv` ({columns, rows}) the numbers.
 * Resolves when it is drawn.
 */
export const draw = async (node, { data, layout = {}, name = "", label = "", csv = null, config = {}, drawn = null }) => {
  let chart = node.chart;
  if (!chart) {
    const place = el("div", { class: "plot", role: "img" });
    const tools = el("div", { class: "tools small" });
    fill(node, place, tools);
    node.classList.add("chart");
    chart = node.chart = { node: place, tools };
    charts.add(chart);
  }
  Object.assign(chart, { data, layout, config, drawn });
  chart.node.setAttribute("aria-label", label);
  fill(chart.tools,
    name ? el("button", { type: "button", class: "quiet", name: `svg-${name}`, on: { click: () => svgOf(chart, name) } }, "SVG") : null,
    name && csv ? el("button", { type: "button", class: "quiet", name: `csv-${name}`, on: { click: () => download(`${name}.csv`, csvOf(csv), "text/csv") } }, "CSV") : null);
  await paint(chart);
};

const svgOf = async (chart, name) => {
  const Plotly = await plotly();
  const url = await Plotly.toImage(chart.node, { format: "svg", width: Math.max(640, chart.node.clientWidth), height: chart.node.clientHeight });
  download(`${name}.svg`, decodeURIComponent(url.slice(url.indexOf(",") + 1)), "image/svg+xml");
};
