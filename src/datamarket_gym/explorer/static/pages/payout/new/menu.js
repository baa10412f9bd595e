// The head of a column: a button that opens a menu of roles. Arrows move, Enter or space chooses, Escape closes.
import { el, name } from "../../../lib/dom.js";
import { byName, given, rolesFor } from "./roles.js";

let opened = null;

const close = (back) => {
  if (!opened) return;
  const { list, head } = opened;
  opened = null;
  list.remove();
  head.setAttribute("aria-expanded", "false");
  if (back) head.focus();
};

addEventListener("click", (event) => {
  if (opened && !opened.list.contains(event.target) && !opened.head.contains(event.target)) close(false);
});
const beside = (list, head) => {
  const at = head.getBoundingClientRect();
  const wide = list.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, innerWidth - wide.width - 8));
  const below = at.bottom + wide.height + 8 < innerHeight ? at.bottom + 4 : Math.max(8, at.top - wide.height - 4);
  list.style.setProperty("left", `${left}px`);
  list.style.setProperty("top", `${below}px`);
};

const along = (event) => opened && !opened.list.contains(event.target) && beside(opened.list, opened.head);
addEventListener("resize", () => opened && beside(opened.list, opened.head));
addEventListener("scroll", along, true);

/** The page is left: no menu stays. */
export const closeMenu = () => close(false);

/** The head of a column and its menu; `tell(roles)` says what the reader of tables takes it for. */
export const menu = ({ page, table, column, columns }) => {
  let mine = [];
  const head = el("button", {
    type: "button", class: "column", name: `column-${table}-${column.name}`, "aria-haspopup": "menu", "aria-expanded": "false",
    on: {
      click: () => (opened?.head === head ? close(true) : open()),
      keydown: (event) => {
        if (event.key !== "ArrowDown") return;
        event.preventDefault();
        open();
      },
    },
  }, name(column.name), el("span", { class: "mark", "aria-hidden": "true" }, "▾"));
  const choose = (role, has) => {
    close(true);
    page.choose(given(role, column, has, page.state.value.set, columns));
  };
  const open = () => {
    close(false);
    const { set } = page.state.value;
    const items = rolesFor(table).map((role) => {
      const has = mine.includes(role.role);
      const fixed = has && byName(role, set);
      return el("button", {
        type: "button", role: "menuitemcheckbox", name: `role-${role.role}`, tabindex: "-1",
        "aria-checked": String(has), "aria-disabled": fixed ? "true" : null,
        on: { click: () => !fixed && choose(role, has) },
      }, role.label, fixed ? el("span", { class: "soft" }, " (by its name)") : null);
    });
    const list = el("div", { class: "menu", role: "menu", "aria-label": `What ${column.name} is` }, items);
    list.addEventListener("keydown", (event) => {
      const at = items.indexOf(document.activeElement);
      const to = { ArrowDown: at + 1, ArrowUp: at - 1 + items.length, Home: 0, End: items.length - 1 }[event.key];
      if (to !== undefined) {
        event.preventDefault();
        items[to % items.length].focus();
      } else if (event.key === "Escape") {
        event.preventDefault();
        close(true);
      } else if (event.key === "Tab") close(false);
    });
    document.body.append(list);
    opened = { list, head };
    head.setAttribute("aria-expanded", "true");
    beside(list, head);
    (items.find((item) => item.getAttribute("aria-checked") === "true") || items[0]).focus({ preventScroll: true });
  };
  return {
    node: head,
    tell: (roles) => {
      mine = roles;
      head.setAttribute("aria-label", `${column.name}, ${column.kind}${roles.length ? `, ${roles.join(" and ")}` : ""}: choose what it is`);
    },
  };
};
