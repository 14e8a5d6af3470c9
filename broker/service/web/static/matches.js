// Matches, live: new ones come in on top, older ones as one scrolls down, without end.

import { follow, get, lines, operates } from "./api.js";
import { button, h } from "./dom.js";
import { plural } from "./format.js";
import { card } from "./match_card.js";
import { Timeline } from "./timeline.js";

const MOST_AT_ONCE = 60; // beyond, the list begins anew with the newest
const PAINTED = 8; // milliseconds of one frame
const AT_ONCE = 4; // matches that fill the window

/** The screen. `params`: subscription, feed, text; `go` changes them. */
export function matches(main, params, go) {
  const wanted = { subscription: params.get("subscription") || "", feed: params.get("feed") || "", text: params.get("text") || "" };
  const filtered = Object.values(wanted).some((value) => value);
  const state = h("span", { class: "live", role: "status" }, "Connecting…");
  const list = h("div", { class: "timeline", role: "feed", "aria-label": "Matches, newest first" });
  const end = h("div", { class: "end" });
  const pill = button("", () => show(), { class: "pill", hidden: true });
  main.append(h("header", { class: "top" }, h("h1", {}, "Matches"), state), filters(wanted, go), pill, list, end);

  const held = []; // matches that came in while one reads further down
  const queue = []; // matches that are to be painted
  let gap = null; // the number below which matches are left out of what comes
  let frame = 0;
  let stop = () => {};
  let closed = false;
  const onSubscription = (id) => go({ ...wanted, subscription: id });
  const timeline = new Timeline(list, {
    load: (before, limit) => lines("matches", { ...wanted, before: before ?? Number.MAX_SAFE_INTEGER, limit }),
    render: (match, fresh) => card(match, { fresh, onSubscription }),
    onEnd: (count) => ended(count),
  });

  function ended(count) {
    if (count) end.replaceChildren(h("p", { class: "quiet" }, "These are all matches that are still kept."));
    else end.replaceChildren(nothing(filtered, go));
  }

  function paint() {
    frame = 0;
    const until = performance.now() + PAINTED;
    if (queue.length > MOST_AT_ONCE) {
      queue.length = 0;
      timeline.reset(null);
      return;
    }
    if (gap !== null) {
      timeline.reset(gap, true);
      gap = null;
      // Together with what stands in their place, so that nothing flickers.
      for (let count = 0; count < AT_ONCE && queue.length; count += 1) timeline.prepend([queue.shift()]);
    }
    while (queue.length && performance.now() < until) timeline.prepend([queue.shift()]);
    if (queue.length) frame = requestAnimationFrame(paint);
    else timeline.resume();
    if (timeline.count && end.querySelector(".nothing")) end.replaceChildren();
  }

  function show() {
    window.scrollTo({ top: 0 });
    queue.push(...held.splice(0));
    pill.hidden = true;
    frame ||= requestAnimationFrame(paint);
  }

  function come(match) {
    if (window.scrollY < 120 && !held.length) {
      queue.push(match);
      frame ||= requestAnimationFrame(paint);
      return;
    }
    held.push(match);
    if (held.length > MOST_AT_ONCE + 1) held.shift();
    pill.hidden = false;
    pill.textContent = held.length > MOST_AT_ONCE ? `More than ${MOST_AT_ONCE} new matches` : plural(held.length, "new match", "new matches");
  }

  // So much has come at once that the list begins anew with the newest of it.
  function skipped(below) {
    if (window.scrollY < 120 && !held.length) {
      queue.length = 0;
      gap = below;
    } else {
      held.length = MOST_AT_ONCE + 1;
      held.fill(null);
    }
  }

  // The stream begins behind the newest match that there is, whether the list has it or not.
  async function begin() {
    const { found } = await lines("matches", { before: Number.MAX_SAFE_INTEGER, limit: 1 });
    if (closed) return;
    stop = follow({ ...wanted, after: found.length ? found[0].n : 0 }, {
      onMatch: come,
      onSkipped: skipped,
      onState: (open) => {
        state.className = open ? "live on" : "live";
        state.textContent = open ? "Live" : "Reconnecting…";
      },
    });
  }
  begin().catch(() => {
    state.textContent = "The service does not answer";
    if (!closed) setTimeout(() => !closed && begin().catch(() => {}), 3000);
  });
  const clock = setInterval(() => renew(list), 30_000);

  return () => {
    closed = true;
    stop();
    timeline.close();
    clearInterval(clock);
    cancelAnimationFrame(frame);
  };
}

// -- filters ---------------------------------------------------------------------------------------

function filters(wanted, go) {
  const given = {};
  let timer = 0;
  const changed = (event) => {
    event.target.dataset.written = "yes"; // and not yet looked for
    clearTimeout(timer);
    timer = setTimeout(() => {
      for (const input of Object.values(given)) delete input.dataset.written;
      go(Object.fromEntries(Object.entries(given).map(([name, input]) => [name, input.value.trim()])));
    }, 350);
  };
  const field = (name, label, more = {}) => {
    given[name] = h("input", { type: "search", id: `f-${name}`, value: wanted[name], autocomplete: "off", spellcheck: "false", ...more, on: { input: changed, ...more.on } });
    return h("label", { for: `f-${name}` }, h("span", {}, label), given[name]);
  };
  const ids = h("datalist", { id: "ids" });
  const titles = h("datalist", { id: "titles" });
  const suggestIds = async () => {
    const found = await get("subscriptions", { prefix: given.subscription.value, limit: 20 }).catch(() => []);
    ids.replaceChildren(...found.map((each) => h("option", { value: each.id })));
  };
  const suggestTitles = async () => {
    if (titles.childNodes.length || !operates()) return;
    const found = await get("feeds").catch(() => []);
    titles.replaceChildren(...[...new Set(found.map((each) => each.title))].filter((title) => title).slice(0, 500).map((title) => h("option", { value: title })));
  };
  return h(
    "form",
    { class: "filters", role: "search", on: { submit: (event) => event.preventDefault() } },
    field("text", "Text", { placeholder: "in a title or value" }),
    field("subscription", "Subscription", { list: "ids", placeholder: "all", on: { focus: suggestIds, keyup: suggestIds } }),
    field("feed", "Feed", { list: "titles", placeholder: "all", on: { focus: suggestTitles } }),
    ids,
    titles,
  );
}

function nothing(filtered, go) {
  if (filtered) {
    return h("div", { class: "nothing" }, h("p", {}, "No match is like that."), button("Show all matches", () => go({}), { class: "plain" }));
  }
  return h(
    "div",
    { class: "nothing" },
    h("h2", {}, "No matches yet"),
    h("p", {}, "Matches appear here as they are found."),
    h("a", { class: "button", href: "#/start" }, "Begin here"),
  );
}

// Times grow old while one looks.
function renew(list) {
  import("./format.js").then(({ ago }) => {
    for (const time of list.querySelectorAll("article > header time")) time.textContent = ago(time.dateTime);
  });
}
