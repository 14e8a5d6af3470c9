// Tokens: who may do what, and how much.

import { change, get } from "./api.js";
import { button, h, say } from "./dom.js";
import { number, plural, size } from "./format.js";
import { when } from "./match_card.js";
import { asking, field, keyed, part } from "./parts.js";

/** The part of a screen, and the function that renews it. */
export function tokens() {
  const list = h("ul", { class: "rows" });
  const none = h("div", {});
  const secret = h("div", { "aria-live": "polite" });
  const render = keyed(list, (token) => token.name, (token) => row(token, load, shown));
  async function load() {
    const found = await get("tokens");
    render(found);
    none.replaceChildren(found.length ? "" : h("p", { class: "quiet" }, "There is only the service's own token, which may do everything."));
  }
  function shown({ name, secret: text }) {
    const value = h("input", { id: "secret", readonly: true, value: text });
    secret.replaceChildren(h("div", { class: "card adding" }, h("div", { class: "line" }, h("label", { for: "secret" }, h("span", {}, `The secret of ${name}, shown this once`), value), button("Done", () => secret.replaceChildren()))));
    value.select();
  }
  return { element: part("Tokens and quotas", null, secret, making(load, shown), list, none), load };
}

function row(token, load, shown) {
  const path = `tokens/${encodeURIComponent(token.name)}`;
  const { subscriptions, documents, bytes, state } = token.quota;
  const bounds = [subscriptions !== null && `${number(subscriptions)} subscriptions`, documents !== null && `${number(documents)} documents a second`, bytes !== null && `${size(bytes)} a second`, state !== null && `${size(state)} stored`].filter((each) => each);
  return h(
    "li",
    { class: "card entry acting" },
    h("div", { class: "what" }, h("h2", {}, token.name), h("p", { class: "small" }, token.scopes.map((scope) => h("code", { class: "scope" }, scope))), h("p", { class: "quiet small facts-line" }, h("span", {}, plural(token.subscriptions, "subscription")), h("span", {}, bounds.length ? `at most ${bounds.join(", ")}` : "no quota"), h("span", {}, "made ", when(token.made)))),
    h(
      "div",
      { class: "row" },
      asking("Rotate…", `Give ${token.name} another secret?`, "The former one is taken for a day more. Addresses for feed readers change with it.", async () => {
        shown(await change("POST", `${path}/rotate`, { overlap: "1 day" }));
        await load();
      }, { answer: "Rotate", props: { "aria-label": `Rotate ${token.name}…` } }),
      asking("Revoke…", `Revoke ${token.name}?`, "It is not taken any more, also for streams that are open. Its subscriptions and their channels are paused.", async () => {
        await change("DELETE", path);
        say(`${token.name} is revoked.`);
        await load();
      }, { props: { class: "danger", "aria-label": `Revoke ${token.name}…` } }),
    ),
  );
}

function making(load, shown) {
  const name = field("token-name", "Name", { required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", maxlength: 100 });
  const scopes = field("token-scopes", "Scopes", { required: true, value: "subscribe read:S", placeholder: "subscribe read:S publish:S operate" });
  const most = field("token-most", "Subscriptions at most", { type: "number", min: "0", placeholder: "no bound" });
  const rate = field("token-rate", "Documents a second at most", { type: "number", min: "0.001", step: "any", placeholder: "no bound" });
  const value = (label) => label.querySelector("input").value.trim();
  const bound = (label) => (value(label) ? Number(value(label)) : null);
  const add = h("button", { class: "main" }, "Add token");
  const make = async (event) => {
    event.preventDefault();
    try {
      const made = await change("POST", "tokens", { name: value(name), scopes: value(scopes).split(/[\s,]+/), quota: { subscriptions: bound(most), documents: bound(rate) } });
      form.reset();
      details.open = false;
      shown(made);
      await load();
    } catch (error) {
      say(error.message, true);
    }
  };
  const form = h("form", { class: "unfolded fields", on: { submit: make } }, name, scopes, most, rate, h("div", { class: "row whole-row" }, add));
  const details = h("details", { class: "card folded" }, h("summary", {}, "New token"), form);
  return details;
}
