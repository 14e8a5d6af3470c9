// The HTTP API: requests with the session's cookie, problems as errors, streams of matches.

let csrf = null;
let who = { name: "", operates: false }; // of the token with which this browser was signed in
let signedOut = () => {};

/** What is called when the session is over. */
export function onSignedOut(act) {
  signedOut = act;
}

/** Whether the one who looks may do everything. */
export function operates() {
  return who.operates;
}

/** The name of the token; the service's own has none. */
export function signedInAs() {
  return who.name;
}

/** A problem of the API (RFC 9457), or a service that does not answer (`status` 0). */
export class Problem extends Error {
  constructor(status, details) {
    super(details.detail || details.title || `the service answers with ${status}`);
    this.status = status;
    this.kind = (details.type || "").split(":").pop();
    this.errors = details.errors || [];
  }
}

async function request(method, path, { params, body, headers = {}, signal } = {}) {
  // A list of values is a parameter that comes several times.
  const given = Object.entries(params || {}).flatMap(([name, value]) => [value].flat().map((each) => [name, each])).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = given.length ? `?${new URLSearchParams(given)}` : "";
  const options = { method, headers: { ...headers }, signal, credentials: "same-origin", cache: "no-store" };
  if (csrf && method !== "GET") options.headers["X-CSRF-Token"] = csrf;
  if (body !== undefined) {
    const json = typeof body !== "string";
    options.headers["Content-Type"] ??= json ? "application/json" : "application/xml";
    options.body = json ? JSON.stringify(body) : body;
  }
  let answer;
  try {
    answer = await fetch(path + query, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The service does not answer. It may be restarting." });
  }
  if (answer.ok) return answer;
  const details = await answer.json().catch(() => ({}));
  if (answer.status === 401 && path !== "session") signedOut();
  throw new Problem(answer.status, details);
}

/** The JSON at a path below /v1. */
export async function get(path, params, signal) {
  return (await request("GET", `v1/${path}`, { params, signal })).json();
}

/** The objects in lines of JSON, and the cursor of the next page. */
export async function lines(path, params, signal) {
  const answer = await request("GET", `v1/${path}`, { params, signal });
  const text = await answer.text();
  const found = text ? text.trimEnd().split("\n").map((line) => JSON.parse(line)) : [];
  return { found, cursor: Number(answer.headers.get("Next-Cursor")) };
}

/** Change something; the JSON of the answer, or null. */
export async function change(method, path, body, params) {
  const answer = await request(method, `v1/${path}`, { body, params });
  return answer.status === 204 ? null : answer.json();
}

// -- the session -----------------------------------------------------------------------------------

async function begun(answer) {
  const session = await answer.json();
  csrf = session.csrf;
  who = session;
  return session;
}

/** The session of this browser, null if it is not signed in. */
export async function session() {
  try {
    return await begun(await request("GET", "session"));
  } catch (error) {
    if (error.status === 401) return null;
    throw error;
  }
}

/** Sign in with a one-time code. */
export async function signIn(code) {
  return begun(await request("POST", "session", { body: { code } }));
}

/** Sign out, here and now. */
export async function signOut() {
  await request("DELETE", "session");
  csrf = null;
}

// -- a stream of matches ---------------------------------------------------------------------------

const EVERY = 1; // seconds between two looks of the service, while there is much
const MOST = 10; // of more at once only the newest are sent: a window shows half of them

/**
 * Follow matches behind a number of the log, beyond restarts of the service. `onMatch` gets each,
 * `onSkipped` the number below which some are left out, and `onState` whether the stream is open.
 * Returns the function that ends it.
 */
export function follow(params, { onMatch, onSkipped, onState }) {
  let source = null;
  let timer = 0;
  let last = params.after;
  let ended = false;
  const open = () => {
    const given = Object.entries({ ...params, after: last, every: EVERY, most: MOST }).filter(([, value]) => value !== "" && value !== null);
    source = new EventSource(`v1/matches/stream?${new URLSearchParams(given)}`);
    source.onopen = () => onState(true);
    source.onmessage = (event) => {
      last = Number(event.lastEventId);
      onMatch(JSON.parse(event.data));
    };
    source.addEventListener("skipped", (event) => onSkipped(JSON.parse(event.data).below));
    source.onerror = () => {
      onState(false);
      if (source.readyState === EventSource.CLOSED && !ended) timer = setTimeout(again, 2000);
    };
  };
  // A browser gives up where the answer is a problem: the session is over, or the service starts.
  const again = async () => {
    try {
      const found = await session();
      if (ended) return;
      if (found) open();
      else signedOut();
    } catch {
      if (!ended) timer = setTimeout(again, 2000);
    }
  };
  // A stream that the network has lost may never say so: back in a network it is opened anew.
  const anew = () => {
    clearTimeout(timer);
    source.close();
    onState(false);
    again();
  };
  window.addEventListener("online", anew);
  open();
  return () => {
    ended = true;
    window.removeEventListener("online", anew);
    clearTimeout(timer);
    source.close();
  };
}
