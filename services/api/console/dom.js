// Creation and update of elements. Texts are inserted as text only, never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Creates an HTML element; attributes named on… are event listeners. */
export const h = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

/** Creates an SVG element. */
export const s = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

export const by = (id) => document.getElementById(id);

/** Sets the text only if it differs, so that screen readers do not announce it again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, ...children) {
  element.replaceChildren(...children.flat(2).filter(Boolean));
}

/** Scrolls to an element in a narrow window, where it is below its list. */
export function reveal(element) {
  if (matchMedia("(max-width: 900px)").matches) element.scrollIntoView({ block: "start" });
}

/** Announces a text to screen readers. */
export function say(text) {
  by("said").textContent = text;
}

export const empty = (text, ...more) => h("div", { class: "empty" }, h("p", {}, text), ...more);

const ICONS = { good: "✓", bad: "✗", warned: "▲", "": "○" };

/** Shows a state as text with an icon, because colour alone is not accessible. */
export const badge = (kind, text, icon = ICONS[kind]) =>
  h("span", { class: `badge ${kind}` }, h("span", { "aria-hidden": "true" }, icon), text);

export const problemBox = (problem) =>
  h("div", { class: "problem", role: "alert" }, h("p", {}, problem.message), problem.hint && h("p", {}, problem.hint));
