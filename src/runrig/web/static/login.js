// The code of `runrig open` stands behind the #: no server logs it, and it is used at once.
const code = location.hash.slice(1);
if (/^[\w-]{20,200}$/.test(code)) {
  history.replaceState(null, "", location.pathname + location.search);
  document.getElementById("shown").value = code;
  document.getElementById("login").requestSubmit();
}
