// Making and filling elements. Text is always text: nothing here reads markup.

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

/** An HTML element; attributes named on… are listeners. */
export const h = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

/** The same of SVG. */
export const s = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

export const by = (id) => document.getElementById(id);

/** Only what is different is touched, so that a reader of the screen is not told everything again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, ...children) {
  element.replaceChildren(...children.flat(2).filter(Boolean));
}

/** Scrolls to what is shown below its list in a narrow window. */
export function reveal(element) {
  if (matchMedia("(max-width: 900px)").matches) element.scrollIntoView({ block: "start" });
}

/** Says something to who listens instead of looking. */
export function say(text) {
  by("said").textContent = text;
}

export const empty = (text, ...more) => h("div", { class: "empty" }, h("p", {}, text), ...more);

const ICONS = { good: "✓", bad: "✗", warned: "▲", "": "○" };

/** State told in words and by a sign, not by colour alone. */
export const badge = (kind, text, icon = ICONS[kind]) =>
  h("span", { class: `badge ${kind}` }, h("span", { "aria-hidden": "true" }, icon), text);

export const problemBox = (problem) =>
  h("div", { class: "problem", role: "alert" }, h("p", {}, problem.message), problem.hint && h("p", {}, problem.hint));
