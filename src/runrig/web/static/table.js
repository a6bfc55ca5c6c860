// The table by keyboard, and what is chosen in it, which stays chosen when the table is drawn anew.
import { fetched } from "./live.js";

const chosen = new Set();
let at = -1;
const rows = () => [...document.querySelectorAll(".flow tbody tr:has(th)")];
const link = (row) => row.querySelector("th a:last-of-type");

document.addEventListener("change", ({ target }) => target.name === "id" && (target.checked ? chosen.add(target.value) : chosen.delete(target.value)));
document.addEventListener("refreshed", () => document.querySelectorAll("[name=id]").forEach((each) => (each.checked = chosen.has(each.value))));
document.querySelectorAll("[name=id]:checked").forEach((each) => chosen.add(each.value));
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, textarea, dialog")) return;
  const all = rows();
  const here = all.indexOf(document.activeElement?.closest("tr"));
  if (here >= 0) at = here;
  if (event.key === "j" || event.key === "k") {
    at = Math.max(0, Math.min(all.length - 1, at + (event.key === "j" ? 1 : -1)));
    if (all[at]) link(all[at]).focus();
  } else if (event.key === "x" && here >= 0) all[here].querySelector("[name=id]")?.click();
  else if (event.key === "o" && here >= 0) all[here].querySelector("[data-fold]")?.click();
  else return;
  event.preventDefault();
});
// An array opens in place; the address names it, so that the live table keeps it open.
document.addEventListener("click", async (event) => {
  const fold = event.target.closest("[data-fold]");
  if (!fold || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const found = await fetched(fold.href).catch(() => null);
  const list = found?.getElementById("list");
  if (!list) return location.assign(fold.href);
  history.replaceState(null, "", fold.href);
  document.getElementById("list").replaceWith(document.adoptNode(list));
  document.dispatchEvent(new Event("refreshed"));
  (document.getElementById(fold.id) ?? list.querySelector(`[id="fold-${fold.id.slice(fold.id.indexOf("-") + 1)}"]`))?.focus();
});
