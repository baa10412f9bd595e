"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const draw = (paper) => {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    for (const [id, chart] of Object.entries(charts)) {
      const place = document.getElementById(id);
      if (!place) continue;
      const narrow = !paper && place.clientWidth < 520;
      const data = JSON.parse(JSON.stringify(chart.data), (key, value) =>
        typeof value === "string" && value.startsWith("--") ? color(value) : value);
      const axis = { gridcolor: color("--line"), zerolinecolor: color("--line"), linecolor: color("--line") };
      const given = JSON.parse(JSON.stringify(chart.layout), (key, value) =>
        typeof value === "string" && value.startsWith("--") ? color(value) : value);
      const layout = {
        ...given,
        width: paper ? 660 : undefined,
        autosize: true,
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        font: { family: "inherit", size: narrow ? 11 : 13, color: color("--ink") },
        xaxis: { ...axis, ...(given.xaxis || {}), fixedrange: true },
        yaxis: { ...axis, ...(given.yaxis || {}), fixedrange: true },
      };
      if (narrow && layout.legend) layout.legend = { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" };
      Plotly.react(place, data, layout, { displayModeBar: false, responsive: !paper });
    }
  };
  if (typeof Plotly !== "undefined") {
    draw(false);
    dark.addEventListener("change", () => draw(false));
    addEventListener("beforeprint", () => draw(true));
    addEventListener("afterprint", () => draw(false));
  }

  const find = document.getElementById("find");
  const rows = [...document.querySelectorAll("[data-find]")];
  const count = document.getElementById("found");
  find.addEventListener("input", () => {
    const wanted = find.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = wanted !== "" && !row.dataset.find.toLowerCase().includes(wanted);
      if (!row.hidden && row.tagName === "TR") shown += 1;
    }
    count.textContent = wanted === "" ? "" : `${shown} found`;
  });
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open]):not(.more)")].filter((each) => !each.closest(".more"));
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of opened) each.open = false;
  });
})();
