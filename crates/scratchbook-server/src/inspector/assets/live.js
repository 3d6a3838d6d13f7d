// Keeps an open page like the page that the server would send now. News of a commit makes the page fetch itself: the
// server alone renders events, state and facts. A lost connection is resumed where it was lost.
"use strict";

const sign = document.querySelector("#live");

function say(text, kind) {
  sign.textContent = text;
  sign.className = kind;
}

// What scripts have made, and what a person is filling in, is not replaced.
function isOwn(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return false;
  if ("own" in node.dataset) return true;
  const fields = node.matches("form") ? node.querySelectorAll("textarea, input[type=text], input[type=search]") : [];
  return [...fields].some((field) => field.value !== field.defaultValue);
}

// Whether an attribute belongs to the person or to a script.
function isKept(node, name) {
  return (name === "open" && node.matches("details")) || (name === "class" && node.classList.contains("new"));
}

// Makes an element like a fresh one. Nodes that are like their fresh ones stay: what is open, selected or scrolled stays.
function morph(old, fresh) {
  for (const name of old.getAttributeNames()) {
    if (!fresh.hasAttribute(name) && !isKept(old, name)) old.removeAttribute(name);
  }
  for (const name of fresh.getAttributeNames()) {
    if (!isKept(old, name) && old.getAttribute(name) !== fresh.getAttribute(name)) {
      old.setAttribute(name, fresh.getAttribute(name));
    }
  }
  let place = old.firstChild;
  for (const node of [...fresh.childNodes]) {
    let match = node.id ? document.getElementById(node.id) : place;
    while (match && !node.id && (match.nodeName !== node.nodeName || match.id || isOwn(match))) match = match.nextSibling;
    if (!match) {
      if (node.matches?.("article.event")) node.classList.add("new");
      for (const event of node.querySelectorAll?.("article.event") ?? []) event.classList.add("new");
      old.insertBefore(node, place);
      continue;
    }
    if (match === place) place = place.nextSibling;
    else old.insertBefore(match, place);
    if (match.nodeType === Node.TEXT_NODE) match.data = node.data;
    else if (!isOwn(match) && !match.isEqualNode(node)) morph(match, node);
  }
  while (place) {
    const next = place.nextSibling;
    if (!isOwn(place)) place.remove();
    place = next;
  }
}

async function fetchText(address) {
  const answer = await fetch(address).catch(() => null);
  if (answer?.status === 401) location.reload();
  return answer?.ok ? await answer.text() : null;
}

// Fetches the page, and the parts of it in which a link has shown something else.
async function fetchPage() {
  const text = await fetchText(location.href);
  const page = text && new DOMParser().parseFromString(text, "text/html").querySelector("main");
  if (!page) return null;
  for (const part of document.querySelectorAll("[data-from]")) {
    const box = document.createElement("template");
    box.innerHTML = (await fetchText(part.dataset.from)) ?? "";
    const fresh = box.content.querySelector(`#${part.id}`);
    if (fresh) {
      fresh.dataset.from = part.dataset.from;
      page.querySelector(`#${part.id}`)?.replaceWith(fresh);
    }
  }
  return page;
}

async function refresh() {
  const address = location.href;
  const parts = replaced;
  const page = await fetchPage();
  // The person has moved on in the meantime.
  if (address !== location.href || parts !== replaced) return news();
  if (!page) return;
  for (const note of document.querySelectorAll(".note[data-run]")) {
    // A button for this run is on the page already.
    page.querySelector(`#${CSS.escape(`stop-${note.dataset.run}`)}`)?.remove();
  }
  localTimes(page);
  const pane = document.querySelector(".left");
  const atEnd = pane.scrollHeight - pane.scrollTop - pane.clientHeight < 80;
  morph(document.querySelector("main"), page);
  if (slider) slider.value = currentSeq();
  if (atEnd && !view().has("at")) pane.scrollTop = pane.scrollHeight;
  askAfterRuns();
}

// No commit says that a run has ended.
let asking;
function askAfterRuns() {
  clearTimeout(asking);
  if (document.querySelector("form.stop")) asking = setTimeout(news, 2000);
}

// Refreshes the page soon. News that follow each other quickly count once, and a slow server is asked less often.
let waiting = null;
let busy = false;
let isStale = false;
let took = 0;
function news() {
  isStale = true;
  if (busy) return;
  waiting ??= setTimeout(async () => {
    waiting = null;
    busy = true;
    isStale = false;
    const start = performance.now();
    try {
      await refresh();
    } finally {
      busy = false;
      took = performance.now() - start;
      if (isStale) news();
    }
  }, Math.max(150, 2 * took));
}

// The first frame has the number of the last event before the stream. Every other one is news.
function hear(stream, { gone, last }) {
  if (gone) {
    say("deleted", "off");
    stream.close();
  } else if (last === undefined || last > lastSeq()) news();
}

if (bar && sign) {
  const stream = new EventSource(bar.dataset.live);
  stream.onopen = () => say("live", "on");
  stream.onerror = () => say("connection lost, trying again", "off");
  stream.onmessage = ({ data }) => hear(stream, JSON.parse(data));
  addEventListener("pagehide", () => stream.close());
  askAfterRuns();
}
