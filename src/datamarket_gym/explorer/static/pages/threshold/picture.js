// The chart: similarities, the chaining curve and the false-match cost above one axis of theta, and the handle on it.
import { draw } from "../../lib/chart.js";
import { el } from "../../lib/dom.js";

const MARGIN = { l: 52, r: 18, b: 44 };
const KINDS = [
  ["alike", "--c1", "rows of one class"],
  ["nearest", "--c2", "each row and its nearest other row"],
  ["copies", "--c3", "rows and their copies"],
];

/** Where the axis begins: below all that was seen, but not below 0, and never above one half. */
const lowest = (histograms) => {
  const starts = histograms.filter((each) => each && each.shares.length).map((each) => each.start);
  return Math.max(0, Math.floor(10 * Math.min(0.5, ...starts)) / 10);
};

const steps = (histogram, name, color) => {
  const x = [histogram.start];
  const y = [0];
  const top = Math.max(...histogram.shares);
  histogram.shares.forEach((share, i) => {
    const from = histogram.start + i * histogram.step;
    x.push(from, from + histogram.step);
    y.push(share / top, share / top);
  });
  x.push(x.at(-1));
  y.push(0);
  return { x, y, name, type: "scatter", mode: "lines", fill: "tozeroy", line: { color, width: 1.5 }, opacity: 0.85, hoverinfo: "skip", yaxis: "y" };
};

const level = (value, axis, lo) => ({ type: "line", xref: "x", yref: axis, x0: lo, x1: 1, y0: value, y1: value, line: { color: "--soft", width: 1, dash: "dot" } });
const mark = ([value, color, dash]) => ({ type: "line", xref: "x", yref: "paper", x0: value, x1: value, y0: 0, y1: 1, line: { color, width: 1.5, dash } });
const heading = (text, y) => ({ text, xref: "paper", yref: "paper", x: 0, y, xanchor: "left", yanchor: "bottom", showarrow: false, font: { size: 12, color: "--soft" } });

/** Lines across all three parts: [value, colour, dash], as far as they are known. */
export const marks = (check, policy) => [
  check ? [check.pairwise_floor, "--c1", "dash"] : null,
  check ? [check.chaining_floors[String(check.cutoff)], "--bad", "dash"] : null,
  check ? [check.near_duplicate_p10, "--c3", "dashdot"] : null,
  policy && policy.theta !== null ? [policy.theta, "--c4", "solid"] : null,
].filter(Boolean);

/** The chart of what is known: rows, the check and the policy, any of which may be missing. */
export class Picture {
  constructor(onmove) {
    this.onmove = onmove;
    this.place = el("div", {});
    this.label = el("span", { class: "knob" });
    this.handle = el("div", { class: "handle", "aria-hidden": "true", hidden: true }, this.label);
    this.node = el("div", { class: "theta-chart" }, this.place, this.handle);
    this.lo = 0;
    this.node.addEventListener("pointerdown", (event) => this.grab(event), true);
    this.watch = new ResizeObserver(() => this.move(this.theta));
    this.watch.observe(this.node);
  }

  get width() {
    return this.node.clientWidth - MARGIN.l - MARGIN.r;
  }

  /** The pointer takes the handle: anywhere in the chart, with mouse, pen or finger. */
  grab(event) {
    if (this.handle.hidden || event.button || event.target.closest("button")) return;
    event.preventDefault();
    const follow = (at) => {
      const share = (at.clientX - this.node.getBoundingClientRect().left - MARGIN.l) / this.width;
      const theta = this.lo + Math.min(1, Math.max(0, share)) * (1 - this.lo);
      this.onmove(Math.round(theta * 1000) / 1000);
    };
    const over = () => {
      removeEventListener("pointermove", follow);
      for (const end of ["pointerup", "pointercancel"]) removeEventListener(end, over);
      this.node.classList.remove("held");
    };
    this.node.classList.add("held");
    addEventListener("pointermove", follow);
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, over);
    follow(event);
  }

  /** Put the handle at theta. */
  move(theta) {
    this.theta = theta;
    if (theta === undefined) return;
    const share = (Math.max(this.lo, Math.min(1, theta)) - this.lo) / (1 - this.lo);
    this.handle.style.setProperty("left", `${MARGIN.l + share * this.width}px`);
    this.handle.classList.toggle("far", share > 0.85);
    this.label.textContent = `θ ${theta.toFixed(3)}`;
  }

  async show(rows, check, policy) {
    const histograms = { alike: check?.alike, nearest: rows?.nearest, copies: check?.copies };
    this.lo = lowest(Object.values(histograms));
    const cut = Object.values(histograms).some((each) => each?.shares.length && each.start < this.lo);
    const narrow = this.node.clientWidth < 520;
    const priced = policy?.cost;
    const lower = priced ? [0.36, 0.62] : [0, 0.42];
    const data = KINDS.filter(([key]) => histograms[key]?.shares.length)
      .map(([key, color, words]) => steps(histograms[key], key === "alike" && check && !check.classes ? "any two rows" : words, color));
    this.node.hidden = !data.length && !check && !priced;
    if (this.node.hidden) return;
    const layout = {
      height: (priced ? 520 : 400) + (narrow ? 40 : 0),
      margin: { ...MARGIN, t: narrow ? 96 : 56 },
      showlegend: true,
      legend: { orientation: narrow ? "v" : "h", x: 0, y: 1, yanchor: "bottom", font: { size: 12 }, itemclick: false, itemdoubleclick: false },
      xaxis: { range: [this.lo, 1], anchor: priced ? "y3" : check ? "y2" : "y", automargin: false, title: { text: "theta (cosine similarity)", standoff: 8 } },
      yaxis: { domain: [0.7, 0.94], range: [0, 1.05], automargin: false, showticklabels: false },
      yaxis2: { domain: lower, range: [0, 1.05], automargin: false, tickformat: ".0%" },
      shapes: [],
      annotations: [heading(`similarities, each to its own scale${cut ? ", from 0 on" : ""}`, 0.94), heading("mixed components of honest providers", lower[1])],
    };
    if (check) {
      const [low, high] = check.interval;
      if (high > low) layout.shapes.push({ type: "rect", xref: "x", yref: "paper", x0: low, x1: Math.min(1, high), y0: 0, y1: 1, fillcolor: "--band", line: { width: 0 }, layer: "below" });
      data.push({ x: check.curve_theta, y: check.curve, name: "mixed components", type: "scatter", mode: "lines", line: { color: "--bad", width: 2 }, yaxis: "y2", showlegend: false, hovertemplate: "theta %{x}: %{y:.1%}<extra></extra>" });
      layout.shapes.push(level(check.cutoff, "y2", this.lo));
    }
    if (priced) {
      layout.yaxis3 = { domain: [0, 0.28], automargin: false, tickformat: ".1%", rangemode: "tozero" };
      layout.annotations.push(heading("honest pay that lineage moves (false-match cost)", 0.28));
      data.push({ x: priced.thetas, y: priced.costs, error_y: { type: "data", array: priced.errors.map((each) => 3 * each), thickness: 1, width: 2 }, name: "false-match cost", type: "scatter", mode: "lines+markers", marker: { size: 4 }, line: { color: "--c4", width: 2 }, yaxis: "y3", showlegend: false, hovertemplate: "theta %{x}: %{y:.2%}<extra></extra>" });
      layout.shapes.push(level(policy.limit, "y3", this.lo));
    }
    layout.shapes.push(...marks(check, policy).map(mark));
    await draw(this.place, { data, layout, name: "threshold", label: said(check, policy), csv: table(histograms, check, priced) });
    this.handle.style.setProperty("height", `${layout.height - MARGIN.b}px`);
    this.handle.hidden = false;
    this.move(this.theta);
  }

  close() {
    this.watch.disconnect();
  }
}

const said = (check, policy) =>
  [check ? `Similarities and bounds. ${check.verdict}.` : "Similarities of rows.", policy ? policy.words : ""].join(" ").trim();

const table = (histograms, check, priced) => {
  const rows = [];
  for (const [key, found] of Object.entries(histograms)) {
    if (found) found.shares.forEach((share, i) => rows.push({ what: key, theta: (found.start + i * found.step).toFixed(2), value: share }));
  }
  if (check) check.curve_theta.forEach((theta, i) => rows.push({ what: "mixed components", theta, value: check.curve[i] }));
  if (priced) priced.thetas.forEach((theta, i) => rows.push({ what: "false-match cost", theta, value: priced.costs[i], error: priced.errors[i] }));
  return { columns: ["what", "theta", "value", "error"], rows };
};
