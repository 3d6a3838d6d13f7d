// Updates the overview while its page is visible.
"use strict";

const plots = document.getElementById("plots");

setInterval(async () => {
  if (document.hidden) return;
  const answer = await fetch(location.href).catch(() => null);
  if (!answer || !answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const found = page.getElementById("plots");
  if (found) plots.replaceChildren(...found.childNodes);
  document.dispatchEvent(new Event("part"));
}, 15000);
