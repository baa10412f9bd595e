// Who is at this browser: asked once, kept in it, written into the book with whatever they do.
const KEY = "datamarket who";

export const whoAmI = () => ({
  get name() {
    return localStorage.getItem(KEY) || "";
  },
  set name(text) {
    localStorage.setItem(KEY, text);
  },
});
