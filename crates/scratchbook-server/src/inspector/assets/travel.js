// Travel through time: the slider, the arrow keys and the numbers of events show the state at an event.
"use strict";

const bar = document.querySelector("#travel");
const slider = document.querySelector("#slider");

function view() {
  return new URLSearchParams(location.search);
}

function lastSeq() {
  return Number(bar?.dataset.last ?? 0);
}

function currentSeq() {
  return view().has("at") ? Number(view().get("at")) : lastSeq();
}

function partAddress(name, query) {
  return `${bar.dataset.page}/${name}?${query}`;
}

// Marks only this event as the shown one.
function choose(event) {
  for (const old of document.querySelectorAll("article.event[aria-current]")) old.removeAttribute("aria-current");
  event?.setAttribute("aria-current", "true");
}

// Whether the parts of the page are below each other.
function isNarrow() {
  return getComputedStyle(document.querySelector(".left")).overflowY === "visible";
}

// Chooses an event, and fetches its surroundings if they are not on the page.
let settling;
function markEvent(seq) {
  // Place 0 is before the first event.
  const place = Math.max(seq, 1);
  const event = document.getElementById(`e${place}`);
  clearTimeout(settling);
  choose(seq > 0 ? event : null);
  if (event) scrollToEvent(event);
  else {
    settling = setTimeout(async () => {
      await replacePart(partAddress("events", view()), "#conversation");
      const shown = document.getElementById(`e${place}`);
      if (shown) scrollToEvent(shown);
    }, 120);
  }
}

function scrollToEvent(event) {
  const list = event.closest(".left");
  if (list && list.scrollHeight > list.clientHeight && getComputedStyle(list).overflowY !== "visible") {
    const top = event.getBoundingClientRect().top - list.getBoundingClientRect().top + list.scrollTop;
    if (top < list.scrollTop || top + event.offsetHeight > list.scrollTop + list.clientHeight) {
      list.scrollTop = top - list.clientHeight / 3;
    }
  } else event.scrollIntoView({ block: "center" });
}

function showBar(seq, isNow) {
  slider.value = seq;
  document.querySelector("#place").textContent = `${seq.toLocaleString("en")} / ${lastSeq().toLocaleString("en")}`;
  const now = bar.querySelector("a.now");
  if (isNow) now.setAttribute("aria-current", "true");
  else now.removeAttribute("aria-current");
  // A fork copies the session up to the shown event.
  const fork = document.querySelector("form.fork");
  if (fork) {
    fork.querySelector("input[name=at]").disabled = isNow;
    fork.querySelector("input[name=at]").value = seq;
    fork.querySelector("button").textContent = isNow ? "Fork" : `Fork at event ${seq.toLocaleString("en")}`;
  }
  for (const step of bar.querySelectorAll("a.step")) {
    const query = view();
    query.set("at", Math.max(0, Math.min(lastSeq(), seq + Number(step.dataset.step))));
    step.href = `${bar.dataset.page}?${query}`;
  }
}

// Shows the state at an event, or now; other parameters of the address stay.
async function travelTo(seq, { key, push = true } = {}) {
  const query = view();
  query.delete("with");
  query.delete("before");
  query.delete("after");
  if (seq === null) query.delete("at");
  else query.set("at", seq);
  if (key !== undefined) key === null ? query.delete("key") : query.set("key", key);
  const text = query.toString();
  history[push ? "pushState" : "replaceState"](null, "", text ? `${bar.dataset.page}?${text}` : bar.dataset.page);
  const at = seq ?? lastSeq();
  showBar(at, seq === null);
  markEvent(at);
  if (query.has("key") && key === undefined && document.querySelector("#history")) showHistory(query.get("key"));
  await replacePart(partAddress("state", query), "#state");
}

async function showHistory(key) {
  const query = view();
  query.set("key", key);
  query.delete("before");
  const box = document.querySelector("#key");
  if (!document.querySelector("#history")) {
    const place = document.createElement("section");
    place.id = "history";
    box.replaceChildren(place);
  }
  for (const link of document.querySelectorAll("#state .row a.key")) {
    if (link.dataset.key === key) link.closest(".row").setAttribute("aria-current", "true");
    else link.closest(".row").removeAttribute("aria-current");
  }
  await replacePart(partAddress("history", query), "#history");
  // On a narrow screen the history is below the conversation.
  if (isNarrow()) box.scrollIntoView();
}

function clampSeq(seq) {
  return Math.max(0, Math.min(lastSeq(), seq));
}

if (bar) {
  slider.addEventListener("input", () => travelTo(Number(slider.value), { push: false }));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey || event.button > 0) return;
    const link = event.target.closest?.("a[data-at], a[data-key], a[data-step], a.now, a[data-close]");
    if (!link) return;
    event.preventDefault();
    if (link.dataset.close) {
      document.querySelector("#key").replaceChildren();
      const query = view();
      query.delete("key");
      history.pushState(null, "", `${bar.dataset.page}?${query}`);
    } else if (link.dataset.step) travelTo(clampSeq(currentSeq() + Number(link.dataset.step)));
    else if (link.classList.contains("now")) travelTo(null);
    else {
      const { at, key } = link.dataset;
      if (at !== undefined) travelTo(Number(at), { key });
      else {
        const query = view();
        query.set("key", key);
        history.pushState(null, "", `${bar.dataset.page}?${query}`);
      }
      if (key !== undefined) showHistory(key);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches?.("input:not([type=range]), textarea, select")) return;
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
    const step = steps[event.key];
    if (step && (event.key.startsWith("Arrow") || event.target === slider)) {
      event.preventDefault();
      travelTo(clampSeq(currentSeq() + step), { push: false });
    }
  });
  addEventListener("popstate", () => location.reload());
  const chosen = document.querySelector("article.event[aria-current]");
  if (isNarrow() && view().has("key")) document.querySelector("#key").scrollIntoView();
  else if (chosen && view().has("at")) scrollToEvent(chosen);
  else {
    const list = document.querySelector(".left");
    list.scrollTop = list.scrollHeight;
  }
}
