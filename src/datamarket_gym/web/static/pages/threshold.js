import { el } from "../lib/dom.js";

export const title = "Threshold";

export const show = async (main) => {
  main.append(el("h1", {}, title));
};
