// Keeps the page as it is now: the server says that something changed, and what stands in the sections is fetched anew.
// A page that nobody looks at asks for nothing.
const PAUSE_MS = 2000;
const mark = document.getElementById("pulse");
let source = null;
let waiting = false;
let stale = false;
// A page of an earlier time stays as it is.
const past = () => "at" in document.body.dataset;

// As a document: it is parsed without running anything, which the policy of the page would not allow otherwise.
export function fetched(address) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", address);
    request.responseType = "document";
    request.setRequestHeader("Accept", "text/html");
    request.onload = () => {
      const there = request.responseURL.includes("/login") ? 401 : request.status;
      if (there === 200 && request.response) resolve(request.response);
      else reject(new Error(`${there}`));
    };
    request.onerror = () => reject(new Error("no answer"));
    request.send();
  });
}

export function swap(id, from) {
  const here = document.getElementById(id);
  const there = from.getElementById(id);
  if (here && there && here.outerHTML !== there.outerHTML && !here.contains(document.activeElement)) here.replaceWith(document.adoptNode(there));
}

async function refresh() {
  if (waiting || document.hidden) {
    stale = true;
    return;
  }
  waiting = true;
  stale = false;
  try {
    const found = await fetched(location.pathname + location.search);
    for (const each of document.querySelectorAll("[data-live]")) swap(each.id, found);
    document.dispatchEvent(new Event("refreshed"));
  } catch (error) {
    // What may no longer be seen does not stay on the screen.  After anything else the next change asks again.
    if (["401", "403", "404"].includes(error.message) && document.querySelector("[data-live]")) location.reload();
  }
  setTimeout(() => {
    waiting = false;
    if (stale) refresh();
  }, PAUSE_MS);
}

function say(text, live) {
  mark.textContent = text;
  mark.classList.toggle("live", live);
}

// After a gap: what was told meanwhile is not known.
function again() {
  open();
  document.dispatchEvent(new Event("reset"));
  refresh();
}

function open() {
  if (source || document.hidden || past()) return;
  source = new EventSource("/page/live");
  source.onopen = () => {
    say("live", true);
    if (!sessionStorage.getItem("acted")) return;
    sessionStorage.removeItem("acted");
    refresh();
  };
  source.onmessage = (event) => {
    document.dispatchEvent(new CustomEvent("change", { detail: JSON.parse(event.data) }));
    refresh();
  };
  source.addEventListener("reset", () => {
    document.dispatchEvent(new Event("reset"));
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
// The slider over earlier times is fetched when somebody wants it.
const travel = document.getElementById("travel");
if (travel?.open) import("./time.js");
else travel?.addEventListener("toggle", () => import("./time.js"), { once: true });
open();
