// The start: from nothing to a first match, by the hand. Something to read, a question, its matches.

import { change, get, operates } from "./api.js";
import { h, say } from "./dom.js";
import { adding, samples } from "./feeds.js";
import { number, plural } from "./format.js";
import { card } from "./match_card.js";
import { doing, field, often } from "./parts.js";
import { coloured } from "./xscl.js";

const FIRST = ["same-link", "three-feeds", "reply", "no-reply"]; // what one finds at once

/** The screen. */
export function start(main, params, go) {
  let feeds = [];
  const read = h("p", { class: "quiet", role: "status" });
  const question = h("div", { class: "asked" });
  const first = operates();
  main.append(
    h("header", { class: "top" }, h("h1", {}, "Begin here")),
    ...(first ? [step(1, "Something to read", h("p", { class: "quiet" }, "Seventeen sample feeds come with the program and need no network. Or add feeds of your own, two or more."), h("div", { class: "row" }, doing("Load the samples", () => samples(load), { class: "main" })), adding(() => feeds, load), read)] : []),
    step(first ? 2 : 1, "A question", h("p", { class: "quiet" }, "A subscription says which documents belong together. Choose one that is ready; it can be changed afterwards."), question),
  );
  ask(question, go).catch((error) => question.append(h("p", { class: "bad" }, error.message)));

  async function load() {
    const [found, status] = await Promise.all([get("feeds"), get("status")]);
    feeds = found;
    const documents = status.intake.last;
    read.className = documents ? "good" : "quiet";
    read.textContent = feeds.length || documents ? `${plural(feeds.length, "feed")}, ${plural(documents, "document")} read so far.` : "";
  }
  return first ? often(load, 2) : () => {};
}

function step(count, title, ...rest) {
  return h("section", { class: "card step", "aria-label": title }, h("h2", {}, h("span", { class: "count", "aria-hidden": "true" }, number(count)), title), ...rest);
}

async function ask(place, go) {
  const all = await get("drafts");
  const drafts = [...FIRST.map((name) => all.find((each) => each.name === name)), ...all.filter((each) => !FIRST.includes(each.name))].filter((each) => each);
  const below = h("div", { class: "chosen" });
  const choose = (draft) => {
    for (const each of place.querySelectorAll(".choice")) each.setAttribute("aria-pressed", String(each.dataset.name === draft.name));
    below.replaceChildren(...written(draft, go));
  };
  place.append(
    h("div", { class: "choices-of" }, drafts.map((draft) => h("button", { type: "button", class: "choice", "aria-pressed": "false", "data-name": draft.name, on: { click: () => choose(draft) } }, capital(draft.finds)))),
    below,
  );
}

// The text of a question with its answers, what it finds now, and the way to keep it.
function written(draft, go) {
  const text = h("pre", { class: "code", tabindex: "0" });
  const found = h("div", { class: "findings", "aria-live": "polite" });
  const save = doing("Subscribe", subscribe, { class: "main" });
  const fields = draft.questions.map((each) => field(`a-${each.name}`, capital(each.asks), { value: each.default || "", "data-name": each.name, required: each.default === null, on: { input: () => later() } }));
  let query = "";
  let timer = 0;
  let turn = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(write, 350);
  };

  async function write() {
    const mine = (turn += 1);
    const answers = {};
    for (const label of fields) {
      const input = label.querySelector("input");
      if (input.value.trim() || !input.required) answers[input.dataset.name] = input.value;
    }
    save.disabled = true;
    try {
      const made = await change("POST", `drafts/${draft.name}`, { answers });
      if (mine !== turn) return;
      query = made.text;
      text.replaceChildren(h("code", {}, coloured(query)));
      save.disabled = false;
      await tried(mine);
    } catch (error) {
      if (mine !== turn) return;
      text.replaceChildren();
      found.replaceChildren(h("p", { class: "warn" }, error.message));
    }
  }

  async function tried(mine) {
    const told = await change("POST", "subscriptions", { text: query, dry_run: true });
    if (mine !== turn) return;
    const count = told.matches.length;
    found.replaceChildren(
      h("p", { class: count ? "good" : "quiet" }, told.documents ? `${plural(count, "match", "matches")} among ${plural(told.documents, "document")} that are there${count ? ", such as" : ". More may come."}` : "There is nothing to read yet: see above."),
      ...told.matches.slice(-1).map((match) => card({ ...match, n: "first" })),
    );
  }

  async function subscribe() {
    const [made] = await change("POST", "subscriptions", { text: query, backfill: "INFINITY" });
    const count = made.history ? made.history.matches : 0;
    say(`${made.id} is there, with ${plural(count, "match", "matches")} so far.`);
    go({ subscription: made.id }, "matches");
  }
  write();
  return [h("div", { class: "fields" }, fields), text, found, h("div", { class: "row" }, save)];
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}
