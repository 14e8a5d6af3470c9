// Documents that were kept aside: why, what came, and another try.

import { change, get } from "./api.js";
import { button, h, say } from "./dom.js";
import { plural, short } from "./format.js";
import { when } from "./match_card.js";
import { asking, doing, keyed, part } from "./parts.js";
import { xml } from "./xscl.js";

const PAGE = 20;

/** The part of a screen; `load` renews it. It is not seen while nothing was kept aside. */
export function letters() {
  const list = h("ul", { class: "rows" });
  const more = h("div", { class: "end" });
  let pages = 1;
  const forgetAll = asking("Forget all…", "Forget all that was kept aside?", "These documents are deleted, and cannot be published again from here.", async () => {
    await change("DELETE", "dead-letters");
    await load();
  }, { props: { class: "danger" } });
  const element = part("Kept aside", forgetAll, h("p", { class: "quiet" }, "Documents that could not be processed, with the reason. To resend one publishes it again."), list, more);
  element.hidden = true;
  const render = keyed(list, (letter) => letter.number, (letter) => row(letter, load));

  async function load() {
    const found = await get("dead-letters", { limit: PAGE * pages });
    element.hidden = found.length === 0;
    render(found);
    more.replaceChildren(found.length === PAGE * pages ? button("Show more", () => ((pages += 1), load())) : "");
  }
  return { element, load };
}

function row(letter, load) {
  const body = h("div", { class: "unfolded" });
  return h(
    "li",
    { class: "card entry acting" },
    h(
      "div",
      { class: "what" },
      h("h2", { dir: "auto" }, short(letter.id || letter.place, 200), h("span", { class: "quiet small" }, letter.streams.slice(0, 5).join(", "))),
      h("p", { class: "warn small" }, short(letter.reason, 400)),
      h("p", { class: "quiet small facts-line" }, letter.at ? h("span", {}, when(letter.at)) : null, h("span", {}, short(letter.place, 200)), h("span", {}, plural(letter.xml.length, "character"))),
      h("details", { on: { toggle: () => body.childNodes.length || body.append(xml(letter.xml, 20_000)) } }, h("summary", {}, "What came"), body),
    ),
    h(
      "div",
      { class: "row" },
      doing("Resend", async () => {
        await change("POST", `dead-letters/${letter.number}/resubmit`);
        say("It is published again.");
        await load();
      }, { "aria-label": `Resend ${short(letter.id, 80)}` }),
      doing("Forget", async () => {
        await change("DELETE", "dead-letters", undefined, { numbers: letter.number });
        await load();
      }, { class: "danger", "aria-label": `Forget ${short(letter.id, 80)}` }),
    ),
  );
}
