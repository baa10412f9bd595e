// The shell: which page an address is of, its links, its colours.
import { ask, problem } from "./ask.js";
import { el, fill } from "./dom.js";
import { forget, tell } from "./keys.js";
import { closeStates } from "./url.js";

const main = document.getElementById("main");
const styled = new Set();
let shown = null; // the path on show
let leave = null;
let turn = 0;

const pageOf = (path) => path.replace(/^\/+|\/+$/g, "");

const style = (page, styles) => {
  const loads = styles
    .filter((each) => (page === each || page.startsWith(`${each}/`)) && !styled.has(each))
    .map((each) => new Promise((resolve) => {
      styled.add(each);
      document.head.append(el("link", { rel: "stylesheet", href: `/static/pages/${each}.css`, on: { load: resolve, error: resolve } }));
    }));
  return Promise.all(loads);
};

const show = async () => {
  const mine = (turn += 1);
  let page = pageOf(location.pathname);
  if (!page) {
    const site = await ask("/api/site").catch((error) => fill(main, problem(error)));
    if (!site || mine !== turn) return;
    page = site.home;
  }
  shown = location.pathname;
  if (leave) leave();
  leave = null;
  closeStates();
  forget();
  for (const each of document.querySelectorAll("header nav a")) {
    const here = page === pageOf(each.pathname) || page.startsWith(`${pageOf(each.pathname)}/`);
    here ? each.setAttribute("aria-current", "page") : each.removeAttribute("aria-current");
  }
  fill(main, el("p", { class: "soft", role: "status" }, "Loading the page."));
  try {
    const [site, module] = await Promise.all([ask("/api/site"), import(`/static/pages/${page}.js`)]);
    await style(page, site.styles);
    if (mine !== turn) return;
    document.title = `${module.title} \u00b7 DataMarket-Gym`;
    fill(main);
    main.dataset.page = page;
    const left = await module.show(main, site);
    if (mine === turn) leave = left || null;
    else if (left) left();
    if (mine === turn) main.dataset.ready = page;
  } catch (error) {
    if (mine === turn) fill(main, problem(error));
  }
};

/** Go to another page of the explorer without loading everything again. */
export const go = (url) => {
  history.pushState(null, "", url);
  delete main.dataset.ready;
  show();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
};

document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (link.origin !== location.origin || link.target || link.hasAttribute("download")) return;
  if (/^\/(api|static|enter)/.test(link.pathname) || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(link.href);
});
addEventListener("popstate", () => location.pathname !== shown && show());

// Colours: as the system has them, or as the reader chose.
const button = document.querySelector("header [name=theme]");
const THEMES = { "": "as the system", light: "light", dark: "dark" };
const dress = (theme) => {
  theme ? (document.documentElement.dataset.theme = theme) : delete document.documentElement.dataset.theme;
  button.setAttribute("aria-label", `Colours: ${THEMES[theme]}`);
  dispatchEvent(new Event("themechange"));
};
button.addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme || "") + 1) % names.length];
  localStorage.setItem("theme", next);
  dress(next);
});
const kept = localStorage.getItem("theme");
dress(kept in THEMES ? kept : "");
document.querySelector("header [name=keys]").addEventListener("click", tell);
show();
