// Units and matches of a large graph, painted: SVG of so many nodes would be slow to move under a slider.

import { LOOKS, lines, lookOf, reasonOf } from "./marks.js";

/** A canvas under the picture, painted once it is on the page, where it has colours. */
export function paint(graph, laid) {
  const canvas = document.createElement("canvas");
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(laid.width * scale);
  canvas.height = Math.round(laid.height * scale);
  canvas.className = "evidence";
  canvas.setAttribute("aria-hidden", "true");
  requestAnimationFrame(() => brush(canvas, scale, graph, laid));
  return canvas;
}

function brush(canvas, scale, graph, laid) {
  const colours = getComputedStyle(canvas);
  const colour = (variable) => colours.getPropertyValue(variable).trim();
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, laid.width, laid.height);
  pen.globalAlpha = 0.4;
  lines(graph, laid, graph.edges).forEach((path, reason) => {
    pen.strokeStyle = colour(`--${reasonOf(reason)}`);
    pen.stroke(new Path2D(path));
  });
  pen.globalAlpha = 0.9;
  graph.units.forEach((unit, row) => {
    const look = LOOKS[lookOf(graph, unit)];
    const square = [laid.x[row] - laid.spot, laid.y[row] - laid.spot, 2 * laid.spot, 2 * laid.spot];
    pen.fillStyle = pen.strokeStyle = colour(look.colour);
    if (look.hollow) pen.strokeRect(...square);
    else pen.fillRect(...square);
  });
}
