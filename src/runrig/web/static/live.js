// Keeps the page as it is now: the server says that something changed, and what stands in the sections is fetched anew.
// A page that nobody looks at asks for nothing.  How long to pause between two questions is up to the server.
const PAUSE_MS = 2000;
const mark = document.getElementById("pulse");
let source = null;
let waiting = false;
let pause = PAUSE_MS;
// The last revision that the server told of, and the one that the sections show: -1 if they have to be fetched in any case.
let told = Number(document.body.dataset.revision || 0);
let shown = told;
// A page of an earlier time stays as it is.
const past = () => "at" in document.body.dataset;

// As a document: it is parsed without running anything, which the policy of the page would not allow otherwise.
export function fetched(address, headers = {}, answered = () => {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", address);
    request.responseType = "document";
    request.setRequestHeader("Accept", "text/html");
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.onload = () => {
      const there = request.responseURL.includes("/login") ? 401 : request.status;
      answered(request);
      if (there === 200 && request.response) resolve(request.response);
      else reject(new Error(`${there}`));
    };
    request.onerror = () => reject(new Error("no response"));
    request.send();
  });
}

export function swap(id, from) {
  const here = document.getElementById(id);
  const there = from.getElementById(id);
  if (here && there && here.outerHTML !== there.outerHTML && !here.contains(document.activeElement)) here.replaceWith(document.adoptNode(there));
}

async function refresh() {
  if (waiting || document.hidden || shown >= told) return;
  waiting = true;
  // Many tabs hear of a change at the same moment.
  if (pause > PAUSE_MS) await new Promise((resolve) => setTimeout(resolve, Math.random() * (pause - PAUSE_MS)));
  try {
    const here = location.pathname + location.search;
    const sections = [...document.querySelectorAll("[data-live]")];
    let least = told;
    // What is one's own has an address of its own, since the rest is shared by all with the same roles.
    for (const address of new Set([here, ...sections.map((each) => each.dataset.live || here)])) {
      const found = await fetched(address, { "X-Page-Refresh": "1" }, (answer) => {
        pause = 1000 * answer.getResponseHeader("X-Page-Pause") || pause;
      });
      for (const each of sections) swap(each.id, found);
      least = Math.min(least, Number(found.body.dataset.revision || told));
    }
    shown = least;
    document.dispatchEvent(new Event("refreshed"));
  } catch (error) {
    // What may no longer be seen does not stay on the screen.  After anything else the next change asks again.
    if (["401", "403", "404"].includes(error.message) && document.querySelector("[data-live]")) location.reload();
    shown = told;
  }
  setTimeout(() => {
    waiting = false;
    refresh();
  }, pause);
}

function say(text, live) {
  mark.textContent = text;
  mark.classList.toggle("live", live);
}

// After a gap: what was told meanwhile is not known.
function again() {
  open();
  document.dispatchEvent(new Event("reset"));
  shown = -1;
  refresh();
}

function open() {
  if (source || document.hidden || past()) return;
  source = new EventSource(shown < 0 ? "/page/live" : `/page/live?since=${Math.min(shown, told)}`);
  source.onopen = () => say("live", true);
  source.onmessage = (event) => {
    const change = JSON.parse(event.data);
    told = Math.max(told, change.r);
    document.dispatchEvent(new CustomEvent("changed", { detail: change }));
    refresh();
  };
  source.addEventListener("reset", (event) => {
    told = parseInt(event.lastEventId, 10) || 0;
    document.dispatchEvent(new Event("reset"));
    shown = -1;
    refresh();
  });
  source.onerror = () => {
    say("not live", false);
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(again, 5000);
    }
  };
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    if (source) source.close();
    source = null;
    say("", false);
  } else if (!past()) {
    again();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog, [role=application]")) return;
  (document.getElementById("q") ?? document.getElementById("find-all")).focus();
  event.preventDefault();
});
// The slider over earlier times is fetched when somebody wants it.
const travel = document.getElementById("travel");
const slider = () => import("./time.js").then((time) => time.uses({ fetched, swap }));
if (travel?.open) slider();
else travel?.addEventListener("toggle", slider, { once: true });
open();
