// Questions to the explorer: an answer at once, or a job that is followed with words and a bar until it is over.
import { el, fill, many } from "./dom.js";

/** What went wrong, in words for the reader. */
export class Told extends Error {
  constructor(message, status = 0) {
    super(message);
    this.name = "Told";
    this.status = status;
  }
}

const CLIENT = [...crypto.getRandomValues(new Uint8Array(9))].map((byte) => byte.toString(36)).join("");
let turn = 0; // of this page's questions: they need not arrive in order
const LATE = 300; // milliseconds after which the reader is told that it takes a while

/** Send something; the headers are those by which the explorer knows its own pages. */
export const send = async (path, { method = "GET", body, signal, type = "application/json", keepalive = false } = {}) => {
  const headers = { "x-datamarket": "explorer", "x-client": CLIENT, "x-turn": String(++turn) };
  if (body !== undefined) headers["content-type"] = type;
  try {
    return await fetch(path, { method, headers, body, signal, keepalive });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Told("The explorer does not answer; was it stopped? Start it again, then reload this page.");
  }
};

const read = async (response) => {
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Told("The explorer's answer broke off; try again.", response.status);
  }
};

const pause = (ms, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("not needed any more", "AbortError"));
    }, { once: true });
  });

/** Words and a bar for work under way; with `cancel` a button that ends it. */
export const bar = (told, cancel) => {
  const counted = told.total > 0;
  const words = told.state === "waiting" ? "waiting for its turn" : told.what || "computing";
  return el("div", { class: "progress", role: "status" },
    el("span", {}, `${words}${counted ? `: ${many(told.done)} of ${many(told.total)} ${told.unit}` : ""}, ${Math.round(told.seconds)} s`),
    counted ? el("progress", { max: told.total, value: told.done, "aria-label": words }) : el("progress", { "aria-label": words }),
    cancel ? el("button", { type: "button", class: "quiet", name: "cancel", on: { click: cancel } }, "Cancel") : null);
};

/**
 * The answer to a question. `progress` is a node in which words and a bar stand while it takes long, or a function that
 * is told how far it is. `topic`: a newer question of this page on the same topic drops this one.
 */
export const ask = async (path, { body, method, signal, progress, topic = "", cancellable = false, job = null } = {}) => {
  const began = performance.now();
  const show = (told) => {
    if (typeof progress === "function") progress(told);
    else if (progress && performance.now() - began >= LATE) fill(progress, bar(told, cancellable && job ? () => send(`/api/jobs/${job}`, { method: "DELETE" }) : null));
  };
  const late = setTimeout(() => show({ state: "running", what: "computing", total: 0, seconds: 0 }), LATE);
  try {
    const url = topic ? `${path}${path.includes("?") ? "&" : "?"}topic=${encodeURIComponent(topic)}` : path;
    let response = await send(url, { method: method || (body === undefined ? "GET" : "POST"), body: body === undefined ? undefined : JSON.stringify(body), signal });
    while (response.status === 202) {
      const told = await read(response);
      job = told.job;
      if (!job) return told; // an answer of its own
      clearTimeout(late);
      show(told);
      await pause(100, signal);
      response = await send(`/api/jobs/${job}`, { signal });
    }
    const answer = await read(response);
    if (response.status === 401) location.assign("/enter");
    if (!response.ok) throw new Told(answer.error || `The explorer answered ${response.status}.`, response.status);
    return answer;
  } finally {
    clearTimeout(late);
    if (progress instanceof Node) fill(progress);
  }
};

/** Follow a job that was begun elsewhere, such as before a reload. */
export const follow = (job, options = {}) => ask(`/api/jobs/${job}`, { ...options, job });

/** Wraps f(signal, ...) so that only the newest call counts: older ones are aborted, and answer nothing. */
export const latest = (f) => {
  let control = null;
  return async (...args) => {
    control?.abort();
    const mine = new AbortController();
    control = mine;
    try {
      const answer = await f(mine.signal, ...args);
      return control === mine ? answer : undefined;
    } catch (error) {
      if (error.name === "AbortError" || control !== mine) return undefined;
      throw error;
    }
  };
};

/** A file sent as it is; `progress(sent, total)` is told how much of it has gone. */
export const upload = (file, progress = () => {}) =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/api/uploads?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("content-type", "application/octet-stream");
    request.setRequestHeader("x-datamarket", "explorer");
    request.upload.addEventListener("progress", (event) => progress(event.loaded, event.total));
    request.addEventListener("error", () => reject(new Told("The upload broke off; try again.")));
    request.addEventListener("load", () => {
      let answer = {};
      try {
        answer = JSON.parse(request.responseText);
      } catch { /* said below */ }
      if (request.status === 200) resolve(answer);
      else reject(new Told(answer.error || `The explorer answered ${request.status}.`, request.status));
    });
    request.send(file);
  });

/** Do something; where it fails, the node says why. */
export const attempt = async (node, work) => {
  try {
    return await work();
  } catch (error) {
    if (error.name !== "AbortError") fill(node, problem(error));
    return undefined;
  }
};

/** An error as a note; anything but words for the reader is a fault, and goes to the console as well. */
export const problem = (error) => {
  if (!(error instanceof Told)) console.error(error);
  return el("p", { class: "note bad", role: "alert" }, error instanceof Told ? error.message : `This page failed: ${error.message}`);
};
