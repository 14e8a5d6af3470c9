// Feeds: their health, finding and adding them, lists in and out, and documents that were kept aside.

import { change, get } from "./api.js";
import { button, h, outside, say } from "./dom.js";
import { ago, moment, number, plural, short } from "./format.js";
import { letters } from "./letters.js";
import { when } from "./match_card.js";
import { asking, doing, field, keyed, nothing, often, part, tick } from "./parts.js";

const SHOWN = 100;

/** The screen. */
export function feeds(main, params) {
  let known = [];
  let most = SHOWN;
  const list = h("ul", { class: "rows" });
  const end = h("div", { class: "end" });
  const summary = h("span", { class: "quiet", role: "status" });
  const search = h("input", { type: "search", id: "feed-text", value: params.get("text") || "", autocomplete: "off", on: { input: () => show() } });
  const health = h("select", { id: "feed-health", on: { change: () => show() } }, [["", "all"], ["ok", "ok"], ["failing", "failing"], ["new", "new"], ["paused", "paused"], ["gone", "gone"]].map(([value, text]) => h("option", { value }, text)));
  const render = keyed(list, (feed) => feed.url, (feed) => row(feed, load));
  const file = h("input", { type: "file", id: "opml", class: "unseen", accept: ".opml,.xml,text/x-opml", on: { change: () => bring(file.files[0]).then(() => (file.value = "")) } });
  const kept = letters();

  main.append(
    h("header", { class: "top" }, h("h1", {}, "Feeds"), summary, h("div", { class: "row" }, h("label", { for: "opml", class: "button" }, "Import OPML"), file, h("a", { class: "button", href: "v1/feeds/opml", download: "feeds.opml" }, "Export OPML"))),
    adding(() => known, load),
    h("form", { class: "filters two", role: "search", on: { submit: (event) => event.preventDefault() } }, h("label", { for: "feed-text" }, h("span", {}, "Title or address"), search), h("label", { for: "feed-health" }, h("span", {}, "Health"), health)),
    list,
    end,
    kept.element,
  );

  function show() {
    const text = search.value.trim().toLowerCase();
    const found = known.filter((feed) => (!text || `${feed.title} ${feed.url} ${feed.folder}`.toLowerCase().includes(text)) && (!health.value || state(feed) === health.value));
    render(found.slice(0, most));
    const failing = known.filter((feed) => state(feed) === "failing").length;
    const counts = `${known.length} ${failing}`;
    if (summary.dataset.counts !== counts) summary.replaceChildren(known.length ? plural(known.length, "feed") : "", failing ? ", " : "", failing ? button(`${number(failing)} failing`, () => ((health.value = "failing"), show()), { class: "linked bad" }) : "");
    summary.dataset.counts = counts;
    if (found.length > most) end.replaceChildren(button("Show more", () => ((most += SHOWN), show())));
    else if (found.length) end.replaceChildren();
    else if (known.length) end.replaceChildren(nothing("No feed is like that"));
    else end.replaceChildren(nothing("No feeds yet", "Write the address of a site above, or drop an OPML file here.", doing("Load the sample feeds", () => samples(load), { class: "main" })));
  }

  async function load() {
    known = await get("feeds");
    if (main.isConnected) show();
  }

  async function bring(dropped) {
    if (!dropped) return;
    try {
      const told = await change("POST", "feeds/opml", { opml: await dropped.text() });
      say(`${plural(told.feeds, "feed")} in ${dropped.name}, ${number(told.new)} new${told.left_out.length ? `; left out: ${short(told.left_out.join("; "), 300)}` : ""}.`, told.left_out.length > 0);
      await load();
    } catch (error) {
      say(error.message, true);
    }
  }

  const end_drop = droppable(main, bring);
  const end_load = often(load, 5);
  const end_kept = often(kept.load, 15);
  return () => [end_drop, end_load, end_kept].forEach((each) => each());
}

/** Add the sample feeds. */
export async function samples(then) {
  const told = await change("POST", "feeds/samples");
  say(`${plural(told.new, "sample feed")} added.`);
  await then?.();
}

// A file that is dropped anywhere on the screen.
function droppable(main, bring) {
  const over = (event) => {
    event.preventDefault();
    main.classList.add("dropping");
  };
  const leave = () => main.classList.remove("dropping");
  const drop = (event) => {
    event.preventDefault();
    leave();
    for (const file of event.dataTransfer.files) bring(file);
  };
  document.addEventListener("dragover", over);
  document.addEventListener("dragleave", leave);
  document.addEventListener("drop", drop);
  return () => {
    document.removeEventListener("dragover", over);
    document.removeEventListener("dragleave", leave);
    document.removeEventListener("drop", drop);
  };
}

// -- one feed --------------------------------------------------------------------------------------

/** ok, failing, new, paused or gone. */
export function state(feed) {
  if (feed.status !== "active") return feed.status;
  if (feed.errors) return "failing";
  return feed.last_success ? "ok" : "new";
}

function row(feed, load) {
  const params = { url: feed.url };
  const act = (label, method, path, said) =>
    doing(label, async () => {
      await change(method, path, undefined, params);
      say(`${name(feed)} ${said}.`);
      await load();
    }, { "aria-label": `${label} ${name(feed)}` });
  return h(
    "li",
    { class: "card entry acting" },
    h(
      "div",
      { class: "what" },
      h("h2", { dir: "auto" }, outside(feed.url, name(feed)), h("span", { class: `badge ${state(feed)}` }, state(feed)), feed.folder ? h("span", { class: "quiet small" }, feed.folder) : null),
      h("p", { class: "oneline small" }, feed.address === feed.url ? feed.url : `${feed.url} → ${feed.address}`),
      feed.problem ? h("p", { class: "bad small" }, `${short(feed.problem.replace(/^fetch: /, ""), 300)}${feed.errors > 1 ? ` (${number(feed.errors)} times in a row)` : ""}`) : null,
      feed.push_problem ? h("p", { class: "bad small" }, `pushes: ${short(feed.push_problem, 300)}`) : null,
      h("p", { class: "quiet small facts-line" }, times(feed).map((each) => h("span", {}, each))),
    ),
    h(
      "div",
      { class: "row" },
      feed.status === "active" ? act("Refresh", "POST", "feeds/refresh", "is fetched now") : act("Resume", "POST", "feeds/resume", "is fetched again"),
      feed.status === "active" ? act("Pause", "POST", "feeds/pause", "is paused") : null,
      asking("Remove…", `Remove ${name(feed)}?`, "It is not fetched any more. Its items stay known: added again it brings only what is new.", async () => {
        await change("DELETE", "feeds", undefined, params);
        say(`${name(feed)} is removed.`);
        await load();
      }, { props: { class: "danger", "aria-label": `Remove ${name(feed)}…` } }),
    ),
  );
}

function times(feed) {
  const found = [];
  if (feed.last_success) found.push(["read ", when(feed.last_success)]);
  if (feed.status === "active" && feed.next_fetch) found.push(h("span", { title: moment(feed.next_fetch) }, Date.parse(feed.next_fetch) <= Date.now() ? "due now" : `next ${ago(feed.next_fetch)}`));
  if (feed.items_per_day !== null) found.push(`${number(Math.round(feed.items_per_day * 10) / 10)} items a day`);
  return found;
}

function name(feed) {
  return feed.title || feed.url;
}

// -- adding ----------------------------------------------------------------------------------------

/** The form that finds the feeds of a site. */
export function adding(known, load) {
  const found = h("div", { class: "found", "aria-live": "polite" });
  const address = field("site", "Address of a site or a feed", { type: "text", inputmode: "url", required: true, placeholder: "example.org" });
  const near = tick("near", "it is on this machine or its network");
  const find = h("button", { class: "main" }, "Find feeds");
  const look = async (event) => {
    event.preventDefault();
    find.disabled = true;
    found.replaceChildren(h("p", { class: "quiet", "aria-busy": "true" }, "Looking for feeds there…"));
    const body = { url: address.querySelector("input").value, allow_private: near.querySelector("input").checked };
    try {
      const told = await change("POST", "feeds/discover", body);
      found.replaceChildren(
        ...told.feeds.map((each) => candidate(each, body.allow_private, known(), load)),
        told.feeds.length ? "" : h("p", { class: "warn" }, told.problems.length ? short(told.problems[0].replace(": fetch: ", ": "), 400) : "There is no feed there."),
      );
    } catch (error) {
      found.replaceChildren(h("p", { class: "bad" }, error.message));
    } finally {
      find.disabled = false;
    }
  };
  return h("form", { class: "card adding", on: { submit: look } }, h("div", { class: "line" }, address, find), near, found);
}

function candidate(feed, allow_private, known, load) {
  const there = known.some((each) => each.url === feed.url);
  const add = there
    ? h("span", { class: "quiet" }, "is fetched already")
    : doing("Add", async () => {
        await change("POST", "feeds", { url: feed.url, allow_private });
        add.replaceWith(h("span", { class: "good" }, "added"));
        say(`${feed.title || feed.url} is fetched from now on.`);
        await load();
      }, { class: "main", "aria-label": `Add ${feed.title || feed.url}` });
  return h(
    "div",
    { class: "candidate" },
    h("div", {}, h("b", { dir: "auto" }, feed.title || feed.url), h("p", { class: "quiet small" }, `${feed.url} · ${feed.dialect}, ${plural(feed.items, "item")}`), feed.newest ? h("p", { class: "small", dir: "auto" }, short(feed.newest, 120)) : null, feed.same_as ? h("p", { class: "quiet small" }, `the same items as ${feed.same_as}`) : null),
    add,
  );
}
