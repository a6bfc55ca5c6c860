// Fetches a page anew, and puts what stands in its sections into the page that is here.

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
