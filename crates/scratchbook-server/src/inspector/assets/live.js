// Shows new commits on the page, marked for a moment. A lost connection is resumed where it was lost.
"use strict";

const sign = document.querySelector("#live");

function say(text, kind) {
  sign.textContent = text;
  sign.className = kind;
}

let refreshing;
function refreshState() {
  if (view().has("at")) return;
  refreshing ??= setTimeout(() => {
    refreshing = null;
    if (!view().has("at")) replacePart(partAddress("state", view()), "#state");
  }, 150);
}

function moveEnd(seq) {
  bar.hidden = false;
  bar.dataset.last = seq;
  slider.max = seq;
  const count = document.querySelector("#count");
  if (count) count.textContent = seq.toLocaleString("en");
  if (!view().has("at")) showBar(seq, true);
  else showBar(currentSeq(), false);
}

// Shows the events that were committed between the answer with the page and the beginning of the stream.
async function catchUp(last) {
  if (last <= lastSeq()) return;
  moveEnd(last);
  refreshState();
  if (view().has("at")) return;
  await replacePart(partAddress("events", view()), "#conversation");
  const pane = document.querySelector(".left");
  pane.scrollTop = pane.scrollHeight;
}

// Removes the buttons of runs that were in progress when the page was made, once these runs have ended.
function askAfterRuns() {
  if (!document.querySelector("form.stop")) return;
  setTimeout(async () => {
    const answer = await fetch(location.href).catch(() => null);
    const page = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : document;
    if (page.querySelector("form.stop")) askAfterRuns();
    else for (const form of document.querySelectorAll("form.stop")) form.remove();
  }, 2000);
}

function addEvent({ seq, run, html }) {
  const list = document.querySelector("#conversation");
  if (seq <= lastSeq()) return;
  const wasLast = lastSeq();
  moveEnd(seq);
  // The page may show another part of the session.
  if (wasLast > 0 && !document.getElementById(`e${wasLast}`)) return;
  list.querySelector(".empty")?.remove();
  const runs = [...list.querySelectorAll("section.run")];
  let section = runs.at(-1);
  const name = section?.querySelector(".run-head bdi")?.textContent ?? "";
  if (!section || name !== run) {
    section = document.createElement("section");
    section.className = "run";
    if (run) {
      const head = document.createElement("h2");
      head.className = "run-head";
      const id = document.createElement("bdi");
      id.textContent = run;
      const timeline = document.createElement("a");
      timeline.href = `${bar.dataset.page}/runs?${new URLSearchParams({ run, at: seq })}`;
      timeline.textContent = "Timeline";
      head.append("run ", id, timeline);
      section.append(head);
    }
    list.insertBefore(section, runs.at(-1)?.nextSibling ?? null);
  }
  const pane = document.querySelector(".left");
  const atEnd = pane.scrollHeight - pane.scrollTop - pane.clientHeight < 80;
  const box = document.createElement("template");
  box.innerHTML = html;
  const event = box.content.firstElementChild;
  event.classList.add("new");
  section.append(event);
  if (!view().has("at")) choose(event);
  document.dispatchEvent(new CustomEvent("part", { detail: "#conversation" }));
  if (atEnd) pane.scrollTop = pane.scrollHeight;
}

if (bar && sign) {
  const stream = new EventSource(bar.dataset.live);
  stream.onopen = () => say("live", "on");
  stream.onerror = () => say("connection lost, trying again", "off");
  stream.onmessage = ({ data }) => {
    const news = JSON.parse(data);
    if (news.gone) {
      say("deleted", "off");
      stream.close();
    } else if (news.last !== undefined) catchUp(news.last);
    else if (news.html) {
      addEvent(news);
      refreshState();
    } else refreshState();
  };
  addEventListener("pagehide", () => stream.close());
  askAfterRuns();
}
