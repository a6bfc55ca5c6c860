// Output as it is written, a search in what is on the page, and what would start a workflow, which takes a moment to find.
import { fetched, swap } from "./live.js";

const MOST = 5000;
const AGAIN_MS = 1000;
const would = document.getElementById("would");
const of = (id) => document.getElementById(id);

function element(name, text, kind) {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

// Records as lines, with a rule before another attempt and another day.
function lines(box) {
  const attempts = {};
  let day = "";
  return ({ time, task, attempt, stream, text }) => {
    const made = [];
    if (attempt > (attempts[task] ?? attempt)) made.push(element("p", `${task}: attempt ${attempt + 1}`, "rule"));
    if (day && day !== time.slice(0, 10)) made.push(element("p", time.slice(0, 10), "rule"));
    [attempts[task], day] = [attempt, time.slice(0, 10)];
    const line = element("p", "", stream === "stderr" ? "err" : "");
    line.append(element("time", time.slice(11, 19)), " ");
    if ("several" in box.dataset) line.append(element("i", task, `h${[...task].reduce((sum, each) => sum + each.codePointAt(0), 0) % 8}`), " ");
    line.append(text.replace(/\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, ""));
    made.push(line);
    return made;
  };
}

async function follow(box, added) {
  const answer = await fetch(box.dataset.follow);
  if (!answer.ok) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const drawn = lines(box);
  let rest = null; // null: what the server drew is still there
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (rest === null && !value.trim()) continue; // a sign of life
    if (rest === null) box.replaceChildren();
    const whole = ((rest ?? "") + value).split("\n");
    rest = whole.pop();
    box.append(...whole.slice(-MOST).flatMap((each) => drawn(JSON.parse(each))));
    while (box.childElementCount > MOST) box.firstElementChild.remove();
    added(whole.length);
  }
  // It has ended: the page shows why, and draws its output anew.
  await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  swap("out", await fetched(location.pathname + location.search));
  uses();
}

function uses() {
  const box = of("output");
  if (!box) return;
  const [find, hits, keep, fresh] = ["find", "hits", "follow", "fresh"].map(of);
  const error = location.hash === "#error" ? null : of("error");
  let [found, at, unseen] = [[], -1, 0];
  const toEnd = () => (box.scrollTop = box.scrollHeight);

  const mark = () => {
    const text = find.value.toLowerCase();
    box.querySelectorAll(".hit").forEach((each) => each.classList.remove("hit", "now"));
    found = text ? [...box.children].filter((each) => each.lastChild.textContent.toLowerCase().includes(text)) : [];
    found.forEach((each) => each.classList.add("hit"));
    at = found.length;
    hits.textContent = text ? `${found.length}` : "";
  };
  const step = (by) => {
    if (!found.length) return;
    found[at]?.classList.remove("now");
    at = (at + by + found.length) % found.length;
    found[at].classList.add("now");
    box.scrollTop = found[at].offsetTop - box.clientHeight / 2;
    hits.textContent = `${at + 1} of ${found.length}`;
  };
  find.addEventListener("input", mark);
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !found.length) return;
    event.preventDefault();
    if (at === found.length && !event.shiftKey) at = -1;
    step(event.shiftKey ? -1 : 1);
  });
  if (find.value) mark();

  for (const each of of("out").querySelectorAll("[data-hides]")) each.addEventListener("change", () => box.classList.toggle(each.dataset.hides, !each.checked));
  if (location.hash !== "#error") error ? (box.scrollTop = error.offsetTop - box.clientHeight / 3) : toEnd();
  if (!keep) return;
  const seen = () => {
    unseen = 0;
    fresh.hidden = true;
  };
  keep.addEventListener("change", () => keep.checked && (toEnd(), seen()));
  fresh.addEventListener("click", () => (toEnd(), seen()));
  box.addEventListener("scroll", () => {
    keep.checked = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
    if (keep.checked) seen();
  });
  follow(box, (count) => {
    of("silent")?.remove();
    if (find.value) mark();
    if (keep.checked) return toEnd();
    unseen += count;
    fresh.hidden = false;
    fresh.textContent = `${unseen} new lines`;
    return undefined;
  }).catch(() => {});
}

uses();
if (would && would.dataset.load) fetched(would.dataset.load).then((found) => swap("would", found)).catch(() => {});
