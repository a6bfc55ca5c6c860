// Output as it is written, and what would start a workflow, which takes a moment to find.
import { fetched, swap } from "./live.js";

const MOST = 400000;
const output = document.getElementById("output");
const would = document.getElementById("would");

async function follow(address) {
  const answer = await fetch(address);
  if (!answer.ok) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    text = (text + value).slice(-MOST);
    const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 4;
    output.textContent = text;
    document.getElementById("silent")?.remove();
    if (atEnd) output.scrollTop = output.scrollHeight;
  }
}

if (output) {
  output.scrollTop = output.scrollHeight;
  if (output.dataset.follow) follow(output.dataset.follow).catch(() => {});
}
if (would && would.dataset.load) fetched(would.dataset.load).then((found) => swap("would", found)).catch(() => {});
