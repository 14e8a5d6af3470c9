// A list of any length, newest first: what is far from the window has no elements, only a height.
//
// In: `load(before)`, which gives { found, cursor } of the entries below a number, and `render(entry)`.
// Entries are in chunks. A chunk that comes near the window gets its elements, which it loses when it
// is far; beyond the last 2,000 hidden entries it is loaded anew. So a hundred thousand entries are as
// light as a hundred.

import { h } from "./dom.js";

const CHUNK = 25;
const NEAR = "1500px 0px";
const KEPT = 80; // hidden chunks whose entries are kept

export class Timeline {
  constructor(root, { load, render, onEnd }) {
    this.root = root;
    this.load = load;
    this.render = render;
    this.onEnd = onEnd;
    this.chunks = new Map(); // element -> chunk
    this.hidden = [];
    this.sentinel = h("div", { class: "sentinel", "aria-hidden": "true" });
    this.observer = new IntersectionObserver((seen) => seen.forEach((each) => this.#seen(each)), { rootMargin: NEAR });
    this.reset(null);
  }

  /** Begin again: with the newest, or below a number; `waiting` for `resume` before it loads. */
  reset(before, waiting = false) {
    this.observer.disconnect();
    this.chunks.clear();
    this.hidden = [];
    this.before = before;
    this.count = 0;
    this.head = null;
    this.turn = (this.turn || 0) + 1; // what an earlier turn still loads is dropped
    this.loading = false;
    this.root.replaceChildren(this.sentinel);
    this.waiting = waiting;
    if (!waiting) this.observer.observe(this.sentinel);
  }

  /** Load what is near, after a reset that waits. */
  resume() {
    if (!this.waiting) return;
    this.waiting = false;
    this.observer.observe(this.sentinel);
  }

  /** Add new entries on top; the newest is the last of them. */
  prepend(entries) {
    for (const entry of entries) {
      if (!this.head || this.head.entries.length >= CHUNK) {
        this.head = this.#chunk([], entry.n);
        this.root.prepend(this.head.element);
        this.observer.observe(this.head.element);
      }
      this.head.entries.unshift(entry);
      this.head.top = entry.n;
      if (this.head.shown) this.head.element.prepend(this.render(entry, true));
    }
    this.count += entries.length;
  }

  close() {
    this.turn += 1;
    this.observer.disconnect();
  }

  #chunk(entries, top) {
    const chunk = { element: h("div", { class: "chunk" }), entries, top, length: entries.length, shown: true, near: true };
    this.chunks.set(chunk.element, chunk);
    return chunk;
  }

  #seen({ target, isIntersecting }) {
    if (target === this.sentinel) {
      this.wanted = isIntersecting;
      if (isIntersecting) this.#more();
      return;
    }
    const chunk = this.chunks.get(target);
    if (!chunk) return;
    chunk.near = isIntersecting;
    if (isIntersecting && !chunk.shown) this.#show(chunk);
    else if (!isIntersecting && chunk.shown) this.#hide(chunk);
  }

  async #more() {
    if (this.loading || this.before === 0) return;
    this.loading = true;
    this.root.setAttribute("aria-busy", "true");
    const turn = this.turn;
    try {
      const { found, cursor } = await this.load(this.before, CHUNK);
      if (turn !== this.turn) return;
      this.before = cursor;
      if (found.length) {
        const chunk = this.#chunk(found, found[0].n);
        chunk.element.append(...found.map((entry) => this.render(entry)));
        this.root.insertBefore(chunk.element, this.sentinel);
        this.observer.observe(chunk.element);
        this.count += found.length;
      }
      if (cursor === 0) this.onEnd(this.count);
    } finally {
      if (turn === this.turn) {
        this.loading = false;
        this.root.removeAttribute("aria-busy");
        // The sentinel may still be near, of which no observer tells a second time.
        if (this.before !== 0) {
          this.observer.unobserve(this.sentinel);
          this.observer.observe(this.sentinel);
        }
      }
    }
  }

  #hide(chunk) {
    chunk.element.style.height = `${chunk.element.offsetHeight}px`;
    chunk.element.replaceChildren();
    chunk.shown = false;
    if (chunk === this.head) return;
    chunk.length = chunk.entries.length;
    this.hidden.push(chunk);
    if (this.hidden.length > KEPT) {
      const oldest = this.hidden.shift();
      if (!oldest.shown) oldest.entries = null;
    }
  }

  async #show(chunk) {
    this.hidden = this.hidden.filter((each) => each !== chunk);
    if (!chunk.entries) {
      const turn = this.turn;
      const { found } = await this.load(chunk.top + 1, chunk.length);
      if (turn !== this.turn) return;
      chunk.entries = found;
      if (!chunk.near) return;
    }
    chunk.shown = true;
    chunk.element.replaceChildren(...chunk.entries.map((entry) => this.render(entry)));
    chunk.element.style.height = "";
  }
}
