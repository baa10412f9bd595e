// The state of a page lives in its address: a link shows the same to somebody else, and back goes back.

const opened = new Set();

const kindOf = (fallback) => {
  if (typeof fallback === "number") return (text) => (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : fallback);
  if (typeof fallback === "boolean") return (text) => text === "1" || text === "true";
  if (Array.isArray(fallback) || (fallback && typeof fallback === "object")) {
    return (text) => {
      try {
        const found = JSON.parse(text);
        return Array.isArray(found) === Array.isArray(fallback) && found && typeof found === "object" ? found : fallback;
      } catch {
        return fallback;
      }
    };
  }
  return (text) => text;
};

const written = (value) => {
  if (typeof value === "boolean") return value ? "1" : "0";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};

/** The state: types follow the defaults, and what equals its default is left out of the address. */
export const urlState = (defaults) => {
  const listeners = new Set();
  const path = location.pathname;
  let held = null;
  const read = () => {
    const given = new URLSearchParams(location.search);
    const value = {};
    for (const [key, fallback] of Object.entries(defaults)) {
      value[key] = given.has(key) ? kindOf(fallback)(given.get(key)) : structuredClone(fallback);
    }
    return value;
  };
  const tell = () => {
    held = null;
    if (location.pathname !== path) return;
    for (const listener of [...listeners]) listener(state.value);
  };
  const state = {
    get value() {
      held = held || read();
      return held;
    },
    /** Change some of it; {push: true} makes a step that back undoes, {quiet: true} tells nobody. */
    set(changes, { push = false, quiet = false } = {}) {
      const next = { ...state.value, ...changes };
      const params = new URLSearchParams(location.search);
      for (const [key, fallback] of Object.entries(defaults)) {
        if (written(next[key]) === written(fallback)) params.delete(key);
        else params.set(key, written(next[key]));
      }
      const query = params.toString();
      history[push ? "pushState" : "replaceState"](null, "", `${location.pathname}${query ? `?${query}` : ""}`);
      held = next;
      if (!quiet) for (const listener of [...listeners]) listener(state.value);
    },
    /** Call f after every change, and when the reader goes back or forward. Returns what stops it. */
    onchange(f) {
      listeners.add(f);
      return () => listeners.delete(f);
    },
    close() {
      listeners.clear();
      removeEventListener("popstate", tell);
    },
  };
  addEventListener("popstate", tell);
  opened.add(state);
  return state;
};

/** The shell calls it when a page is left: states of that page listen no more. */
export const closeStates = () => {
  for (const state of opened) state.close();
  opened.clear();
};

/** The address of a page with a state. */
export const link = (path, params = {}) => {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) if (value !== null && value !== undefined && value !== "") query.set(key, written(value));
  const text = query.toString();
  return `${path}${text ? `?${text}` : ""}`;
};
