// Fields of a form, registered by the path in a document that each field fills, so that a problem is shown at the field that caused it.

import { h, problemBox, say, setText, show } from "./dom.js";

let made = 0;

export class Fields {
  #known = new Map();
  /** Place for problems that concern no field. */
  box = h("div", {});

  /** Adds a control with its label; `place` is, for example, `Tenant/name`, or an array of such places. */
  field(place, label, control, hint = "") {
    const id = `field-${++made}`;
    const wrong = h("p", { id: `${id}-wrong`, class: "wrong" });
    control.id ||= id;
    control.setAttribute("aria-describedby", `${id}-wrong${hint ? ` ${id}-hint` : ""}`);
    for (const one of [place].flat()) this.#known.set(one, { control, wrong });
    return h("div", { class: "field" }, h("label", { for: control.id }, label), control,
      hint && h("span", { id: `${id}-hint`, class: "muted" }, hint), wrong);
  }

  /** Adds several controls that fill one place together. */
  group(place, legend, control, ...content) {
    const wrong = h("p", { class: "wrong" });
    this.#known.set(place, { control, wrong });
    return h("fieldset", { class: "group" }, h("legend", {}, legend), ...content, wrong);
  }

  clear() {
    show(this.box);
    for (const one of this.#known.values()) mark(one, "");
  }

  /** Shows a problem at the fields that caused it; `kinds` are the kinds of the documents that were sent. */
  tell(problem, kinds) {
    this.clear();
    let first = null;
    let placed = problem.errors.length > 0;
    for (const error of problem.errors) {
      const known = this.#at(placeOf(error.pointer ?? "", kinds));
      if (!known) placed = false;
      else {
        mark(known, sentence(problem, error));
        first ??= known.control();
      }
    }
    if (!placed) show(this.box, problemBox(problem));
    first?.closest("details")?.setAttribute("open", "");
    first?.focus();
    if (first) say(problem.message);
  }

  #at(parts) {
    for (let length = parts.length; length > 1; length -= 1) {
      const found = this.#known.get(parts.slice(0, length).join("/"));
      if (found) return { ...found, control: () => (typeof found.control === "function" ? found.control() : found.control) };
    }
    return null;
  }
}

/** Returns the problem's text without the name of the field, for display at the field itself. */
function sentence({ message, hint, errors }, { detail }) {
  if (errors.length > 1) return detail;
  const at = message.indexOf(detail);
  const [place] = message.slice(0, Math.max(0, at)).match(/line \d+, column \d+: $/) ?? [""];
  return `${place}${at < 0 ? message : message.slice(at)}${hint ? `: ${hint}` : ""}`;
}

function mark({ control, wrong }, text) {
  setText(wrong, text);
  const marked = typeof control === "function" ? control() : control;
  if (!marked) return;
  if (text) marked.setAttribute("aria-invalid", "true");
  else marked.removeAttribute("aria-invalid");
}

/** Splits a JSON pointer into the parts of a place: `#/documents/1/columns/ts` becomes `Stream/columns/ts`. */
function placeOf(pointer, kinds) {
  const parts = pointer.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (parts[0] !== "documents") return [kinds[0], ...parts];
  return [kinds[Number(parts[1])], ...parts.slice(2)];
}
