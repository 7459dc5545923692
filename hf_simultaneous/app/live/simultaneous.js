// One speaker on an hf-simultaneous server, over as many servers as it takes. No dependencies.
//   const client = new SimultaneousClient("ws://127.0.0.1:8765", {onEvent: (event) => ...});
//   client.say("Das Haus ist "); client.flush(); client.close();
const PROTOCOL = "hf-simultaneous.v1";
const RATE = 45, ROOM = 200, CHUNK = 400, UNTOLD = 200;  // words a second, words undone, characters, events
const VISIBLE =
  /[^\s\u2581\u0000-\u001f\u007f-\u009f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff]/u;  // what counts of a text
const words = (text) => Math.max(1, (text.match(/[\u0e00-\uffef]|[^\s\u0e00-\uffef]+/gu) || []).length);

export class SimultaneousClient {
  constructor(urls, {token, start = {}, onEvent = () => {}, onState = () => {}} = {}) {
    Object.assign(this, {urls: [urls].flat(), token, options: start, onEvent, onState});
    Object.assign(this, {said: [], seq: 0, n: 0, told: 0, turn: 0, wait: 250, next: 0, closed: false});
    this.sentence = {number: 1, source: "", tokens: [], growing: []};
    this.connect();
  }

  say(text) {  // text cut anywhere; a word is final at the space behind it
    for (let at = 0; at < text.length; at += CHUNK) this.said.push({type: "text", text: text.slice(at, at + CHUNK)});
    this.pump();
  }

  flush() { this.said.push({type: "flush", text: " "}); this.pump(); }  // the sentence ends here, and its last word

  close() { this.closed = true; clearTimeout(this.timer); this.socket?.close(1000); }

  connect() {
    const url = this.urls[this.turn++ % this.urls.length].replace(/\/+$/, "") + "/v1/stream";
    this.socket = new WebSocket(url, [PROTOCOL, ...(this.token ? [`bearer.${this.token}`] : [])]);
    this.ready = false;
    this.socket.onopen = () => this.send({type: "start", ...this.options, ...this.replay()});
    this.socket.onmessage = ({data}) => this.hear(JSON.parse(data));
    this.socket.onclose = ({code, reason}) => this.lost(code, reason);
  }

  replay() {  // where another server shall go on
    const {number, source, tokens, growing} = this.sentence;
    if (!this.n) return {};
    const words = source.trim() ? [source.trim()] : [], open = /\S$/.test(source);  // the spaces in it are as they were
    const next = this.said.find(({type, text}) => type === "flush" || VISIBLE.test(text));
    const ended = words.length > 0 && next?.type === "flush";  // its tail may be among the tokens
    const written = tokens.length;
    return {replay: {sentence: number, n: this.n, words, open, ended, tokens: [...tokens, ...growing], written}};
  }

  lost(code, reason) {
    this.ready = false;
    const refused = code === 4400 || code === 1008 || code === 1009;  // it would be refused again
    this.onState(this.closed || refused ? "closed" : "waiting", reason || this.why || "");
    if (this.closed || refused) return;
    this.timer = setTimeout(() => this.connect(), this.wait * (0.5 + Math.random() / 2));
    this.wait = Math.min(2 * this.wait, 10000);
  }

  send(message) { this.told = this.n; this.socket.send(JSON.stringify({...message, seen: this.n})); }

  pump() {  // send what may be sent: not too fast, and not too far ahead of what is done
    clearTimeout(this.timer2);
    const message = this.said.find(({sent}) => !sent);
    const undone = this.said.reduce((sum, {sent, done, text}) => sum + (sent && !done ? words(text) : 0), 0);
    if (!this.ready || !message || undone > ROOM) return;
    const pause = this.next - performance.now();
    if (pause <= 0) {
      Object.assign(message, {sent: true, seq: ++this.seq});
      this.next = performance.now() + 1000 * words(message.text) / RATE;
      this.send({type: message.type, seq: message.seq, ...(message.type === "text" && {text: message.text})});
    }
    this.timer2 = setTimeout(() => this.pump(), Math.max(0, pause));
  }

  hear(message) {
    if (message.type === "started") {
      this.said = this.said.filter(({type, text}) => type === "flush" || text);
      this.said.forEach((said) => Object.assign(said, {sent: false, done: false}));
      Object.assign(this, {ready: true, wait: 250});
      this.onState("open", message.model);
    } else if (message.type === "error") {
      this.why = `${message.code}: ${message.message}`;
    } else if (message.type === "events") {
      message.events.filter(({n}) => n > this.n).forEach((event) => this.see(event));
      if (message.done) this.said.forEach((said) => { said.done ||= said.seq === message.seq; });
      while (this.said[0]?.done && !VISIBLE.test(this.said[0].text)) this.sentence.source += this.said.shift().text;
      if (this.n - this.told >= UNTOLD) this.send({type: "ping"});
    }
    this.pump();
  }

  see(event) {
    this.n = event.n;
    const {tokens, growing} = this.sentence;
    if (event.action === "READ") this.forget([...event.text].length);
    if (event.action === "PIECE") growing.push(...event.tokens);
    if (event.action === "WRITE") { tokens.push(...event.tokens); growing.splice(0, event.tokens.length); }
    if (event.action === "END") this.sentence = {number: event.sentence + 1, source: "", tokens: [], growing: []};
    this.onEvent(event);
  }

  forget(count) {  // so many characters of what was said were read, and the spaces around them
    for (const said of this.said) {
      const left = [...said.text];
      while (left.length && (count || !VISIBLE.test(left[0]))) {
        count -= VISIBLE.test(left[0]) ? 1 : 0;
        this.sentence.source += left.shift();
      }
      said.text = left.join("");
      if (said.text) return;  // a space behind it may be what ends a word that was not read
    }
  }
}
