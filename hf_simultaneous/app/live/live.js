// The page: what is typed goes to the server word by word, what comes back is shown.
import {SimultaneousClient} from "./simultaneous.js";

const find = (id) => document.getElementById(id);
const server = document.body.dataset.server;
const REST = 1000;  // milliseconds without typing after which a full stop ends a sentence
const STOP = /[.!?。！？]["'”“’»)\]]*$/u;
let client, told, row, resting;

function begin() {  // anew, with nothing said and nothing shown
  client?.close();
  told = "";
  row = null;
  find("shown").replaceChildren();
  const latency = find("latency").value;
  client = new SimultaneousClient(server.split(","), {
    token: find("token").value,
    start: {pieces: true, ...(latency && {latency})},
    onEvent: show,
    onState: state,
  });
}

function state(now, why) {
  const hint = `no answer from ${server}; it must let this page in: serve --origin ${location.origin}`;
  const texts = {open: `connected: ${why}`, waiting: why || hint, closed: `closed: ${why}`};
  find("state").textContent = texts[now];
  find("state").dataset.state = now;
}

function element(name, className, text = "", lang = "") {
  const made = document.createElement(name);
  Object.assign(made, {className, textContent: text, lang});
  return made;
}

function show(event) {
  if (!row) {
    row = element("li", "sentence");
    row.append(element("p", "said", "", "en"), element("ol", "path"));
    row.lastChild.ariaLive = "off";
    find("shown").prepend(row);
  }
  const [said, path] = row.children;
  if (event.action === "READ") {
    const column = element("li", "");
    column.append(element("span", "read", event.text, "de"), element("span", "write", "", "en"));
    path.append(column);
  } else if (event.action === "PIECE") {
    const text = (event.spaced ? " " : "") + event.text;
    said.textContent += text;
    path.lastChild.lastChild.textContent += text;
  } else if (event.action === "END") {
    row = null;
  }
}

function hear({over = false, rested = false} = {}) {
  clearTimeout(resting);
  const text = find("source").value;
  if (!text.startsWith(told)) begin();
  const final = over || rested ? text : text.replace(/\S+$/u, "");  // the last word may still change
  client.say(final.slice(told.length) + (rested ? " " : ""));
  told = final;
  if (over) client.flush();
  else if (!rested && STOP.test(text)) resting = setTimeout(() => hear({rested: true}), REST);
}

find("source").addEventListener("input", () => hear());
find("end").addEventListener("click", () => hear({over: true}));
for (const id of ["latency", "token"]) find(id).addEventListener("change", () => { begin(); hear(); });
begin();
