// Saves changes on the server. What it has not accepted stays in this browser, also when the page is
// closed, and is sent again. The server decides by revision; a recording that was changed elsewhere is
// neither overwritten nor given up: the person decides.

const FIRST = 500; // milliseconds until the second attempt
const LONGEST = 15000;

const plain = (list) =>
  JSON.stringify((list ?? []).map((one) => [one.start, one.end, one.kind, one.label ?? ""]).sort());
const alike = (a, b) => plain(a) === plain(b);
// By recording: lists that are not saved, those that they replace, and those that were sent without an
// answer, so that the server may have saved one of them; then labels, and those that they replace.
const nothing = () => ({ annotations: {}, base: {}, tried: {}, labels: null, before: null });
const MOST_TRIED = 20;

export class Saver {
  // actions: call(address, method, body), changed(), and replaced() when history is not valid anymore
  constructor(state, actions) {
    Object.assign(this, { state, actions, mine: nothing(), conflicts: {}, problem: "", pause: FIRST });
    Object.assign(this, { sending: false, timer: 0, key: "", isKept: false });
    addEventListener("beforeunload", (event) => this.pending && !this.isKept && event.preventDefault());
  }

  get pending() {
    return this.mine.labels !== null || Object.keys(this.mine.annotations).length > 0;
  }

  get isDisputed() {
    return Object.keys(this.conflicts).length > 0;
  }

  // Save lists by recording, and labels; `before` holds those that they replace.
  add(annotations, labels, before) {
    const { mine } = this;
    for (const [name, list] of Object.entries(annotations)) {
      mine.base[name] ??= before.annotations[name];
      mine.annotations[name] = list;
    }
    if (JSON.stringify(labels) !== JSON.stringify(before.labels)) {
      mine.before ??= before.labels;
      mine.labels = labels;
    }
    this.keep();
    this.send();
  }

  // Send until all is saved; after an error again in a while, and at every change.
  async send() {
    if (this.sending) return;
    clearTimeout(this.timer);
    this.sending = true;
    try {
      while (this.sendable().length || this.mine.labels !== null) await this.sendOnce();
      this.pause = FIRST;
      if (!this.isDisputed) this.problem = "";
    } catch (error) {
      this.problem = error.message;
      this.timer = setTimeout(() => this.send(), this.pause);
      this.pause = Math.min(2 * this.pause, LONGEST);
    }
    this.sending = false;
    this.actions.changed();
  }

  sendable() {
    return Object.entries(this.mine.annotations).filter(([name]) => !(name in this.conflicts));
  }

  async sendOnce() {
    const { state, mine } = this;
    const [sent, labels] = [this.sendable(), mine.labels];
    const change = { revision: state.revision, annotations: Object.fromEntries(sent) };
    for (const [name, list] of sent) {
      mine.tried[name] = [...new Set([...(mine.tried[name] ?? []), plain(list)])].slice(-MOST_TRIED);
    }
    this.keep();
    if (labels) change.labels = labels;
    if (state.annotator) change.annotator = state.annotator;
    const answer = await this.actions.call("api/changes", "PUT", change);
    if (answer.status === 409) return this.merge(answer.content);
    if (!answer.ok) throw new Error(answer.content.error.replace(/^Not saved: /, "").replace(/\.?$/, "."));
    state.revision = answer.content.revision;
    for (const [name, list] of sent) {
      if (!(name in mine.annotations)) continue;
      mine.base[name] = list;
      delete mine.tried[name];
      if (mine.annotations[name] === list) this.settle(name);
    }
    mine.before = labels ?? mine.before;
    if (mine.labels === labels) mine.labels = mine.before = null;
    this.keep();
  }

  settle(name) {
    const { annotations, base, tried } = this.mine;
    for (const lists of [annotations, base, tried, this.conflicts]) delete lists[name];
  }

  // Take over what the server has, but keep the lists that are not saved yet.
  merge(content) {
    const { state, mine } = this;
    let replaced = false;
    for (const name of new Set([...Object.keys(state.annotations), ...Object.keys(content.annotations)])) {
      const theirs = content.annotations[name] ?? [];
      if (!(name in mine.annotations)) replaced ||= !alike(theirs, state.annotations[name]);
      else if (alike(theirs, mine.annotations[name])) this.settle(name); // only its answer was lost
      else if (alike(theirs, mine.base[name]) || mine.tried[name]?.includes(plain(theirs))) {
        mine.base[name] = theirs;
        delete this.conflicts[name];
      } else this.conflicts[name] = theirs;
    }
    if (mine.labels && JSON.stringify(content.labels) !== JSON.stringify(mine.before)) {
      mine.labels = [...new Set([...content.labels, ...mine.labels])].slice(0, state.most_labels);
      mine.before = content.labels;
    }
    if (JSON.stringify(mine.labels) === JSON.stringify(content.labels)) mine.labels = mine.before = null;
    state.revision = content.revision;
    state.annotations = { ...content.annotations, ...mine.annotations };
    state.labels = mine.labels ?? content.labels;
    if (replaced || this.isDisputed) this.actions.replaced();
    if (this.isDisputed) {
      const names = Object.keys(this.conflicts).map((name) => `“${name}”`).join(", ");
      this.problem = `Another window or program has changed ${names} since.`;
    }
    this.keep();
  }

  // Save again, over what others have saved meanwhile.
  insist() {
    Object.assign(this.mine.base, this.conflicts);
    this.conflicts = {};
    return this.send();
  }

  // Give up what is not saved, and show what is.
  discard() {
    const { state, mine, conflicts } = this;
    Object.assign(state.annotations, mine.base, conflicts);
    state.labels = mine.before ?? state.labels;
    clearTimeout(this.timer);
    Object.assign(this, { mine: nothing(), conflicts: {}, problem: "", pause: FIRST });
    this.keep();
    this.actions.replaced();
    this.actions.changed();
  }

  keep() {
    try {
      if (this.pending) localStorage.setItem(this.key, JSON.stringify(this.mine));
      else localStorage.removeItem(this.key);
      this.isKept = true;
    } catch {
      this.isKept = false; // too large to store
    }
  }

  // Take over what pages of this folder that are closed have left; each open page holds a lock.
  async restore(content) {
    const prefix = `unsaved:${content.id}:`;
    const left = Object.keys(localStorage).filter((key) => key.startsWith(prefix));
    this.key = prefix + crypto.randomUUID();
    navigator.locks?.request(this.key, () => new Promise(() => {}));
    for (const key of left) {
      const take = () => this.take(key, content);
      const patience = { signal: AbortSignal.timeout(1000) }; // a page that reloads is about to go
      await (navigator.locks?.request(key, patience, take) ?? take()).catch(() => {});
    }
    if (!this.pending) return;
    this.merge(content);
    this.actions.replaced();
    this.send();
  }

  async take(key, content) {
    const found = { ...nothing(), ...JSON.parse(localStorage.getItem(key)) };
    const names = Object.keys(found.annotations);
    const isHere = (name) => content.recordings.some((one) => one.name === name);
    if (!names.every(isHere) || names.some((name) => name in this.mine.annotations)) return; // next time
    Object.assign(this.mine.annotations, found.annotations);
    Object.assign(this.mine.base, found.base);
    Object.assign(this.mine.tried, found.tried);
    if (found.labels) Object.assign(this.mine, { labels: found.labels, before: found.before });
    this.keep();
    if (this.isKept) localStorage.removeItem(key);
  }
}
