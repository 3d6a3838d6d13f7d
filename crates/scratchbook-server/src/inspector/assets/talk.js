// Talk: a message is sent without leaving the page, and the answer's text appears as it comes.
"use strict";

const sayForm = document.querySelector("form.say");

function bubble() {
  const article = document.createElement("article");
  article.className = "event agent piece";
  article.dataset.own = "";
  const header = document.createElement("header");
  const author = document.createElement("b");
  author.className = "author";
  header.append(author);
  const text = document.createElement("p");
  text.className = "text";
  article.append(header, text);
  document.querySelector("#conversation").append(article);
  return article;
}

function stopButton(run) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Stop";
  button.addEventListener("click", () => {
    fetch(sayForm.dataset.stop, { method: "POST", body: new URLSearchParams({ run }), redirect: "manual" });
  });
  return button;
}

// Yields the name and the data of each frame of a stream.
async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part)?.[1];
      const data = /^data: (.*)$/m.exec(part)?.[1];
      if (name && data) yield [name, JSON.parse(data)];
    }
  }
}

// Sends a message or an answer; the result says whether the run has ended well.
async function talk(fields) {
  const note = document.createElement("p");
  note.className = "note soft";
  note.dataset.own = "";
  note.setAttribute("role", "status");
  note.textContent = "Sending… ";
  sayForm.before(note);
  let shown = null;
  try {
    const answer = await fetch(sayForm.action, { method: "POST", body: new URLSearchParams({ ...fields, stream: "1" }) });
    if (!answer.ok || !answer.headers.get("content-type")?.startsWith("text/event-stream")) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      throw new Error(page.querySelector(".error p")?.textContent ?? `The server answered ${answer.status}.`);
    }
    for await (const [name, data] of frames(answer.body)) {
      if (name === "run") {
        note.dataset.run = data.run;
        note.replaceChildren("The agent is at work. ", stopButton(data.run));
      } else if (name === "piece") {
        shown ??= bubble();
        shown.querySelector(".author").textContent = data.author;
        shown.querySelector(".text").textContent += data.text;
        const pane = document.querySelector(".left");
        pane.scrollTop = pane.scrollHeight;
      } else if (name === "event") {
        shown?.remove();
        shown = null;
      } else if (name === "end") {
        if (data.error) throw new Error(data.error);
        note.remove();
      }
    }
    return true;
  } catch (error) {
    note.className = "note failure";
    note.textContent = error.message;
    setTimeout(() => note.remove(), 15000);
    return false;
  } finally {
    shown?.remove();
    delete note.dataset.run;
    news();
  }
}

if (sayForm) {
  const field = sayForm.elements.message;
  sayForm.addEventListener("submit", (event) => {
    event.preventDefault();
    const message = field.value.trim();
    if (!message) return;
    field.value = "";
    talk({ message });
  });
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("form.question")) return;
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(form, event.submitter));
    // Until the run has ended, the form stays as it is, and takes nothing.
    form.dataset.own = "";
    form.hidden = true;
    const answered = await talk(fields);
    delete form.dataset.own;
    if (answered) form.reset();
    else form.hidden = false;
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      sayForm.requestSubmit();
    }
  });
}
