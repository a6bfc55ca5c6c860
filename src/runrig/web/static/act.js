// Commands and edits in place: the forms are pages of their own, which are shown in a dialog, and answered there.
// All of them work without this.
const [DEBOUNCE_MS, BUSY_MS] = [150, 1000];
const box = document.createElement("dialog");
box.className = "act-box";
document.body.append(box);
document.documentElement.classList.add("with-script");

// As a document: it is parsed without running anything, which the policy of the page would not allow otherwise.
function ask(address, form, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(form ? "POST" : "GET", address);
    request.responseType = "document";
    request.setRequestHeader("Accept", "text/html");
    if (form) request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
    request.onload = () => (request.response ? resolve([request.response, request.responseURL, request.status]) : reject(new Error(`the server returned status ${request.status}`)));
    request.onerror = () => reject(new Error("no response from the server"));
    signal?.addEventListener("abort", () => {
      request.abort();
      reject(new DOMException("", "AbortError"));
    });
    request.send(form ? form.toString() : null);
  });
}

function problem(place, text) {
  let said = place.querySelector(":scope > .unsent");
  if (!said) {
    said = document.createElement("p");
    said.className = "problem unsent";
    said.setAttribute("role", "alert");
    place.prepend(said);
  }
  said.textContent = text;
}

function adopt(section) {
  const found = document.adoptNode(section);
  found.removeAttribute("aria-labelledby");
  found.classList.remove("panel");
  box.setAttribute("aria-labelledby", "act-title");
  box.replaceChildren(found);
  return found;
}

// A form has been answered: by itself again, with what is wrong or what it would do; or by the page of what it did.
function answered(place, [found, address]) {
  const section = found.getElementById("act");
  if (!section) {
    if (new URL(address).pathname === "/login") return problem(place, "You are signed out. Sign in in another tab, then open this form again. Your input is still here to copy.");
    const said = found.querySelector("main.narrow p");
    if (said) return problem(place, said.textContent);
    return location.assign(address);
  }
  const here = document.adoptNode(section);
  place.replaceChildren(...here.childNodes);
  const next = place.querySelector("[role=alert], [data-answer]");
  if (!next) return undefined;
  next.tabIndex = -1;
  return next.focus();
}

document.addEventListener("click", async (event) => {
  const plain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  const link = event.target.closest("a[data-act]");
  // A page that is a form itself has none in a dialog too: their fields would have the same ids.
  if (link && plain && !document.querySelector("main > #act")) {
    event.preventDefault();
    const [found, address] = await ask(link.href).catch(() => [null, link.href]);
    const section = found?.getElementById("act");
    if (!section) return location.assign(address);
    adopt(section);
    if (!box.open) box.showModal();
  }
  if (plain && box.open && event.target.closest("a[data-leave]")) {
    event.preventDefault();
    box.close();
  }
  const copy = event.target.closest("button[data-copy]");
  if (copy) {
    await navigator.clipboard.writeText(document.getElementById(copy.dataset.copy).textContent);
    copy.textContent = "Copied";
  }
  return undefined;
});

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-ask]");
  const place = form?.closest("#act");
  if (!place) return;
  event.preventDefault();
  if (place.ariaBusy === "true") return; // a second click
  place.ariaBusy = "true";
  try {
    const fields = new URLSearchParams(new FormData(form));
    if (event.submitter?.name) fields.set(event.submitter.name, event.submitter.value);
    answered(place, await ask(form.getAttribute("action"), fields));
  } catch (error) {
    problem(place, `Not sent: ${error.message}. Try again.`);
  } finally {
    place.ariaBusy = "false";
  }
});

document.addEventListener("change", async (event) => {
  const file = event.target.dataset?.into && event.target.files[0];
  if (file) document.getElementById(event.target.dataset.into).value = await file.text();
});

// What if: the last question counts, and one that nobody waits for any more ends.
for (const form of document.querySelectorAll("form[data-what-if]")) {
  const answer = document.getElementById("what-answer");
  const range = form.querySelector("input[type=range]");
  let timer = 0;
  let asking = null;
  const say = () => (form.querySelector("output").textContent = Number(range.value).toLocaleString("en"));
  const put = async () => {
    asking?.abort();
    const mine = (asking = new AbortController());
    answer.ariaBusy = "true";
    try {
      const [found, , status] = await ask(`${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`, null, mine.signal);
      if (status === 503 && asking === mine) {
        timer = setTimeout(put, BUSY_MS); // the question before is still being given up
        return;
      }
      const said = found.getElementById("what-answer") ?? found.querySelector("main");
      answer.replaceChildren(...document.adoptNode(said).childNodes);
    } catch (error) {
      if (error.name !== "AbortError") answer.textContent = `No answer: ${error.message}.`;
    } finally {
      if (asking === mine) answer.ariaBusy = "false";
    }
  };
  const soon = () => {
    say();
    clearTimeout(timer);
    timer = setTimeout(put, DEBOUNCE_MS);
  };
  form.addEventListener("input", soon);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    put();
  });
}
