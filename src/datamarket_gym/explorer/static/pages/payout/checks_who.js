// Who is at this browser: asked once, kept in it, written into the ledger with whatever they do.
const KEY = "datamarket who";

export const whoAmI = () => ({
  get name() {
    return localStorage.getItem(KEY) || "";
  },
  set name(text) {
    localStorage.setItem(KEY, text);
  },
});

/** Whether somebody has said who they are; else the field for it asks them to. */
export const hasName = (who, by) => {
  if (who.name) return true;
  by.focus();
  by.setCustomValidity("Say who you are first: it is written down with what you do.");
  by.reportValidity();
  return false;
};
