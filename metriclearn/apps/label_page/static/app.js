// The page: it sends every change of labels to the server, and shows what the model has learned.

import * as edits from "./edits.js";
import { find, made } from "./elements.js";
import { download, readFile, showFiles, silence } from "./files.js";
import { Player } from "./player.js";
import { Quality } from "./quality.js";
import { Saver } from "./saving.js";
import { Timeline, clock } from "./timeline.js";

const COLORS = 9;
const LANES = 6;
const KEYS = [
  ["Click", "set a boundary; within 3 pixels of one of the model it goes there, as shown before (Alt: it does not)"],
  ["Drag", "select a stretch; on a boundary: move it"],
  ["Click below", "in the row You: select from one of your boundaries to the next; in Model: a segment or boundary"],
  ["1 – 9", "label the selection, or the segment at the cursor (Shift+click on a label: rename it)"],
  ["N", "mark the selection: no change"],
  ["O", "mark the selection: exactly one change, anywhere"],
  ["U", "remove all labels from the selection"],
  ["A", "accept the model's segments and names in the selection, or in view"],
  ["F", "extend the segment at the cursor to its neighbors"],
  ["C", "confirm the selected boundary of the model"],
  ["Delete", "delete the selected boundary (of the model: nothing changes there)"],
  ["Enter", "go to the next question"],
  ["← →", "move the cursor (Shift: faster; Alt: move the selected boundary)"],
  ["B", "set a boundary at the cursor"],
  ["[  ]", "start and end a selection at the cursor"],
  [",  .", "select the previous or next boundary"],
  ["↑ ↓", "open the previous or next recording"],
  ["+  −  0", "zoom about the pointer, or the cursor; show all (wheel: zoom; Shift+wheel: scroll)"],
  ["Space", "play or pause"],
  ["L  S", "play the selection (or what is in view) in a loop; play slower"],
  ["Ctrl+Z", "undo; Ctrl+Shift+Z or Ctrl+Y: redo"],
  ["Esc", "clear the selection"],
];

const state = {
  recordings: [], annotations: {}, labels: [], revision: 0,
  current: null, cursor: 0, selection: null, chosen: null, asked: -1,
  learned: { recordings: {}, suggestions: [], curve: [], serial: 0 },
  done: [], undone: [], silence: "", channels: {}, dragged: null, annotator: "", tiers: {},
};
const saver = new Saver(state, {
  call,
  changed: () => [saver.pending || remember(), refresh()],
  replaced: () => Object.assign(state, { done: [], undone: [], selection: null, chosen: null }),
});
let timeline, quality;
const player = new Player(find("player"), {
  moved: (time) => [(state.cursor = time), reveal(time), timeline.draw()],
  range: () => state.selection ?? [timeline.from, timeline.to],
  failed: () => toast("This browser cannot play the recording; it can still be labeled."),
});

// ---- labels

const known = (name = state.current.name) => state.annotations[name] ?? [];
const shownList = () => state.dragged ?? known();
const color = (label) => {
  const index = state.labels.indexOf(label);
  return index < 0 ? timeline.color("known") : timeline.color(`c${(index % COLORS) + 1}`);
};

// Change annotations ({name: list}) or labels: show at once, save in the background, allow undo.
function commit(annotations, labels = state.labels, record = true) {
  const before = { annotations: {}, labels: state.labels };
  for (const name of Object.keys(annotations)) before.annotations[name] = known(name);
  const unchanged = Object.entries(annotations).every(([n, l]) => JSON.stringify(l) === JSON.stringify(known(n)));
  if (unchanged && JSON.stringify(labels) === JSON.stringify(state.labels)) return;
  if (record) {
    state.done.push({ before, after: { annotations, labels } });
    state.undone = [];
  }
  Object.assign(state.annotations, annotations);
  state.labels = labels;
  saver.add(annotations, labels, before);
  refresh();
}

// Undo survives a reload of this window, unless the annotations were changed elsewhere.
function remember() {
  const { revision, done, undone } = state;
  try {
    sessionStorage.setItem(`undo:${state.id}`, JSON.stringify({ revision, done: done.slice(-100), undone }));
  } catch {
    sessionStorage.removeItem(`undo:${state.id}`); // too large to store
  }
}

function recall() {
  const kept = JSON.parse(sessionStorage.getItem(`undo:${state.id}`) ?? "null");
  if (kept?.revision === state.revision) Object.assign(state, { done: kept.done, undone: kept.undone });
}

async function call(address, method = "GET", body = undefined) {
  const isText = body === undefined || typeof body === "string" || body instanceof Blob;
  const headers = isText ? {} : { "Content-Type": "application/json" };
  const signal = AbortSignal.timeout(30000);
  let answer;
  try {
    answer = await fetch(address, { method, headers, signal, body: isText ? body : JSON.stringify(body) });
    return { ok: answer.ok, status: answer.status, content: await answer.json() };
  } catch {
    throw answer ? new Error(`The server failed (status ${answer.status}).`) : silence();
  }
}

// The content of an answer that is no error.
async function asked(...given) {
  const { ok, content } = await call(...given);
  if (!ok) throw new Error(content.error);
  return content;
}

const undo = () => replay(state.done, state.undone, "before");
const redo = () => replay(state.undone, state.done, "after");

function replay(steps, others, side) {
  const step = steps.pop();
  if (!step) return;
  others.push(step);
  const { annotations, labels } = step[side];
  const [name] = Object.keys(annotations);
  if (name && !(state.current.name in annotations)) open(name);
  const before = known();
  state.chosen = null;
  commit(annotations, labels, false);
  const has = (list, one) => list.some((other) => JSON.stringify(other) === JSON.stringify(one));
  const shown = before.find((one) => !has(known(), one)) ?? known().find((one) => !has(before, one));
  if (shown) reveal(shown.start);
}

const edit = (list) => commit({ [state.current.name]: list });

// The stretch to mark: the selection, or the segment around the cursor, of yours alone or of the model, too.
// Boundaries of the model that are less than a step away from yours do not count.
function target(isYours = false) {
  if (state.selection) return state.selection;
  const mine = [0, ...edits.stops(known()), state.current.seconds];
  const isFar = (time) => mine.every((t) => Math.abs(t - time) > 1 / state.current.rate - 1e-6);
  const theirs = isYours ? [] : boundaries().map((one) => one.time).filter(isFar);
  const ends = [...mine, ...theirs].sort((a, b) => a - b);
  const after = ends.findIndex((t) => t > state.cursor + 1e-9);
  return after < 0 ? [ends.findLast((t) => t < state.cursor), state.cursor] : [ends[after - 1], ends[after]];
}

function mark([start, end], kind, label) {
  const { rate, seconds } = state.current;
  edit(edits.mark(known(), ...edits.filled(known(), start, end, 1 / rate, seconds), kind, label));
}

function say(kind, label) {
  const [start, end] = target().map(edits.rounded);
  if (!(end > start)) return;
  if (kind) mark([start, end], kind, label);
  else edit(edits.erase(known(), start, end));
}

// Turn the model's segments into labels, where there are none yet.
function accept() {
  const said = state.learned.recordings[state.current.name];
  if (!said) return toast(`The model has no segments yet. It needs ${needed()}.`);
  const [start, end] = (state.selection ?? [timeline.from, timeline.to]).map(edits.rounded);
  const mine = edits.stretches(known());
  const labeled = (time, kinds) => mine.some((one) => kinds.includes(one.kind) && one.start < time && time < one.end);
  const shown = boundaries()
    .map((one) => edits.rounded(one.time))
    .filter((t) => t > start && t < end && !labeled(t, ["segment", "no change"]));
  const edges = edits.stops(known()).filter((t) => t > start && t < end);
  const ends = [...new Set([start, ...shown, ...edges, end])].sort((a, b) => a - b);
  let list = known();
  for (let i = 0; i + 1 < ends.length; i++) {
    const middle = (ends[i] + ends[i + 1]) / 2;
    const label = said.labels[said.boundaries.filter((t) => t <= middle).length];
    if (labeled(middle, label ? ["segment"] : ["segment", "no change"])) continue;
    list = edits.mark(list, ends[i], ends[i + 1], label ? "segment" : "no change", label);
  }
  // after the loop, as setting a boundary divides neighbors that mark() has joined
  edit(shown.reduce((cut, time) => edits.part(cut, time), list));
}

function fill() {
  const time = state.selection ? (state.selection[0] + state.selection[1]) / 2 : state.cursor;
  edit(edits.fill(known(), time, state.current.seconds));
}

function label(number) {
  const name = state.labels[number - 1];
  if (name) say("segment", name);
  else if (number === state.labels.length + 1) find("labels").querySelector("input")?.focus();
}

// A line of up to 200 letters, as the server takes it.
const line = (text) => [...text.replace(/[\p{Cc}\p{Cs}]/gu, " ").trim()].slice(0, 200).join("").trim();

function labelOf(text) {
  const name = line(text);
  if (name !== "unknown") return name;
  toast("“unknown” is reserved for unlabeled stretches; use another word.");
  return "";
}

function addLabel(text) {
  const name = labelOf(text);
  if (!name) return;
  if (!state.labels.includes(name)) commit({}, [...state.labels, name]);
  if (state.selection) say("segment", name);
}

function rename(index) {
  const was = state.labels[index];
  const name = labelOf(prompt(`Rename “${was}” in all recordings to:`, was) ?? "");
  if (!name || name === was) return;
  const renamed = {};
  for (const [recording, list] of Object.entries(state.annotations)) {
    if (!list.some((one) => one.label === was)) continue;
    renamed[recording] = list.map((one) => (one.label === was ? { ...one, label: name } : one));
  }
  const labels = state.labels.map((one) => (one === was ? name : one));
  commit(renamed, labels.filter((one, i) => labels.indexOf(one) === i));
}

// ---- drawing

function boundaries() {
  const mine = edits.changes(shownList());
  const said = state.learned.recordings[state.current.name] ?? { boundaries: [] };
  const near = 0.75 / state.current.rate;
  const theirs = said.boundaries
    .map((time, i) => ({ time, confidence: said.confidence[i], reach: said.reach[i] }))
    .filter(({ time }) => !mine.some((t) => Math.abs(t - time) <= near));
  const all = [...mine.map((time) => ({ time, yours: true, confidence: 1 })), ...theirs];
  return all
    .map((one) => ({ ...one, chosen: state.chosen !== null && Math.abs(one.time - state.chosen) < 1e-6 }))
    .sort((a, b) => a.time - b.time);
}

function predicted() {
  const said = state.learned.recordings[state.current.name];
  if (!said) return [];
  const ends = [0, ...said.boundaries, state.current.seconds];
  return ends.slice(1).map((end, i) => ({
    start: ends[i], end, text: suggested(said, i),
    color: said.labels[i] ? color(said.labels[i]) : timeline.color(i % 2 ? "known" : "line"),
  }));
}

// What is missing until the model finds more than one segment in recordings like the open one.
function needed() {
  const count = state.learned.missing?.[state.current.name] ?? 0;
  return count ? `${count} more labeled ${count === 1 ? "boundary" : "boundaries"}` : "more labels";
}

// The model's name for a segment, and how sure it is.
function suggested(said, i) {
  if (!said.labels[i]) return "";
  return said.sure[i] < 1 ? `${said.labels[i]} ${Math.round(100 * said.sure[i])} %` : said.labels[i];
}

function marks() {
  return {
    boundaries: boundaries(),
    edges: edits.stretches(shownList()).flatMap((one) => [one.start, one.end]),
    predicted: predicted(),
    note: state.learned.revision === undefined || state.learned.recordings[state.current.name] ? "" : `needs ${needed()}`,
    stretches: edits.stretches(shownList()).map((one) => ({
      ...one,
      text: one.label ?? one.kind,
      color: one.label ? color(one.label) : timeline.color(one.kind === "one change" ? "soft" : "known"),
    })),
    suggestions: state.learned.suggestions.filter((one) => one.recording === state.current.name),
    selection: state.selection,
    cursor: state.cursor,
    tiers: others().map((list) => ({
      changes: edits.changes(list),
      stretches: edits.stretches(list).map((one) => ({ ...one, text: one.label ?? "", color: timeline.color("known") })),
    })),
  };
}

// Annotations of the open recording in the other tiers.
const others = () =>
  Object.entries(state.tiers).filter(([tier]) => tier !== state.tier).map(([, lists]) => lists[state.current.name] ?? []);

function refresh() {
  if (state.chosen !== null && !boundaries().some((one) => one.chosen)) state.chosen = null; // it is gone
  find("undo").disabled = !state.done.length;
  find("redo").disabled = !state.undone.length;
  find("next").disabled = !state.learned.suggestions.length;
  showStatus();
  showAlarm();
  showList();
  showLabels();
  quality.show(state.learned.curve, state.current.name in (state.learned.missing ?? {}));
  find("hint").title = find("hint").textContent = hint();
  announce();
  for (const button of find("marks").children) {
    button.disabled = { chosen: state.chosen === null, theirs: state.chosen === null || isMine(state.chosen) }[button.dataset.needs] ?? false;
  }
  timeline.draw();
}

function hint() {
  if (state.chosen !== null && isMine(state.chosen)) return "Boundary selected: drag it, or press Delete.";
  if (state.chosen !== null) return "Boundary of the model: press C to confirm it, or Delete if nothing changes there.";
  if (state.selection) {
    const [start, end] = state.selection;
    return `${clock(start, 3)}${whose(start)} to ${clock(end, 3)}${whose(end)} selected: label it${proposal(start, end)}.`;
  }
  const anything = Object.values(state.annotations).some((list) => list.length);
  if (!anything) return "Click where something changes. Then click beside it in the row You, and label it.";
  if (!state.learned.recordings[state.current.name]) return "Label both sides of each boundary: click there in the row You, and press N or 1 to 9.";
  return "Click to set a boundary, drag to select a stretch. “Next question” shows where a label helps most.";
}

// What the key A would accept in a stretch, where you have labeled nothing.
function proposal(from, to) {
  const isOpen = ({ start, end }) => {
    const middle = (Math.max(start, from) + Math.min(end, to)) / 2;
    return start < to - 1e-3 && end > from + 1e-3
      && !edits.stretches(known()).some((one) => one.start < middle && middle < one.end);
  };
  const inside = predicted().filter(isOpen);
  if (!inside.length) return "";
  const names = inside.map((one) => one.text).filter(Boolean);
  if (!names.length) return `, or press A to accept the model's ${inside.length === 1 ? "segment" : `${inside.length} segments`}`;
  return `, or press A to accept: ${names.slice(0, 4).join(", ")}${names.length > 4 ? ", …" : ""}`;
}

// Tell screen readers where the cursor is and what is there, once it rests.
function announce() {
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => !player.isPlaying && (find("said").textContent = told()), 300);
}

function told() {
  const { cursor, chosen, selection, current } = state;
  if (chosen !== null) {
    const one = boundaries().find((boundary) => boundary.chosen);
    const owner = one?.yours ? "Your boundary" : `The model's boundary, ${Math.round(100 * (one?.confidence ?? 0))} % certain`;
    return `${owner}, at ${clock(chosen, 3)}.`;
  }
  if (selection) return hint();
  const mine = edits.stretches(known()).find((one) => one.start <= cursor && cursor < one.end);
  const theirs = predicted().find((one) => one.start <= cursor && cursor < one.end);
  return [
    `Cursor at ${clock(cursor, 3)} in ${current.name}.`,
    mine ? `Your label: ${mine.label ?? mine.kind}, ${clock(mine.start, 3)} to ${clock(mine.end, 3)}.` : "Not labeled.",
    theirs ? `Model: ${theirs.text || "a segment"}, ${clock(theirs.start, 3)} to ${clock(theirs.end, 3)}.` : "",
  ].filter(Boolean).join(" ");
}

function whose(time) {
  const has = (times) => times.some((t) => Math.abs(t - time) < 6e-4); // the selection is rounded
  if (has(edits.stops(known()))) return " (your boundary)";
  return has(state.learned.recordings[state.current.name]?.boundaries ?? []) ? " (the model's boundary)" : "";
}

// What the server has not accepted, until it has.
function showAlarm() {
  const place = find("alarm");
  place.hidden = !(saver.problem && saver.pending);
  if (place.hidden) return;
  const kept = saver.isKept ? "are kept in this browser" : "are only on this page: do not close it. They";
  find("alarm-text").textContent = `Not saved. ${saver.problem} Your last changes ${kept}${
    saver.isDisputed ? "." : " and are sent again."}`;
  find("again").textContent = saver.isDisputed ? "Save mine" : "Save now";
}

function showStatus() {
  const { learned } = state;
  const isEmpty = !state.revision && !saver.pending && !Object.keys(state.annotations).length;
  const isLearned = Object.keys(learned.recordings).length > 0;
  const saved = saver.pending ? (saver.problem ? "Not saved" : "Saving") : state.revision ? "Saved" : "Loaded from segments.csv";
  const learning = state.silence ? state.silence
    : learned.error ? learned.error
    : learned.revision === undefined ? "Opening"
    : learned.revision !== state.revision || saver.pending ? "Learning"
    : (isLearned ? `Learned in ${learned.seconds.toFixed(1)} s` : `The model needs ${needed()}`) + (learned.busy ? ", still checking" : "");
  const isReady = !state.silence && !learned.error && learned.revision === state.revision;
  find("status").title = find("status").textContent = isEmpty && isReady ? "No labels yet. Mark a boundary to begin."
    : isEmpty ? `${learning.replace(/\.$/, "")}.`
    : `${saved}. ${learning.replace(/\.$/, "")}.`;
}

function showList() {
  const list = find("recordings");
  if (list.children.length !== state.recordings.length) {
    list.replaceChildren(...state.recordings.map((one) => made("li", { title: one.name },
      made("button", { onclick: () => open(one.name) }, made("b", {}, one.name), made("small"), made("i")))));
  }
  state.recordings.forEach((one, i) => {
    const button = list.children[i].firstChild;
    const parts = edits.stretches(known(one.name));
    const seconds = parts.reduce((sum, part) => sum + part.end - part.start, 0);
    button.setAttribute("aria-current", one === state.current);
    button.querySelector("small").textContent = `${clock(seconds)} of ${clock(one.seconds)}`;
    button.querySelector("i").style.background = strip(one);
  });
  find("overview").style.background = strip(state.current);
}

// Labeled and suggested stretches of a recording, as a background.
function strip(one) {
  const layer = (parts, fill) => {
    const [at, wide] = [(time) => (100 * time) / one.seconds, 0.8]; // in percent
    const stops = parts.map((part) =>
      `transparent 0 ${at(part.start)}%, ${fill(part)} 0 ${Math.max(at(part.end), at(part.start) + wide)}%, `);
    return `linear-gradient(90deg, ${stops.join("")}transparent 0 100%)`;
  };
  const asked = state.learned.suggestions.filter((part) => part.recording === one.name).sort((a, b) => a.start - b.start);
  return [
    layer(edits.stretches(known(one.name)), (part) => part.label ? color(part.label) : timeline.color("soft")),
    layer(asked, () => timeline.color("ask")), `linear-gradient(${timeline.color("line")} 0 0)`,
  ].join(",");
}

function showLabels() {
  const place = find("labels");
  const wanted = JSON.stringify(state.labels);
  if (place.dataset.shown === wanted) return;
  place.dataset.shown = wanted;
  const buttons = state.labels.map((name, i) => {
    const button = made("button", {
      title: "Label the selection (with Shift: rename the label)",
      onclick: (event) => event.shiftKey ? rename(i) : say("segment", name),
    }, ...(i < 9 ? [made("kbd", {}, i + 1)] : []), name);
    button.style.setProperty("--color", `var(--c${(i % COLORS) + 1})`);
    return button;
  });
  const input = entry(state.labels.length ? "add a label" : "first label", "New label", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") addLabel(input.value);
    if (["Enter", "Escape"].includes(event.key)) find("timeline").focus({ preventScroll: true });
  });
  place.replaceChildren(...buttons, ...(state.labels.length < state.most_labels ? [input] : []));
}

// A field for a new name; `typed` gets its keys, but none that only chooses a character.
const entry = (placeholder, ariaLabel, typed) =>
  made("input", { placeholder, ariaLabel, onkeydown: (event) => event.isComposing ? event.stopPropagation() : typed(event) });

// The tiers, and the name of the person, which this browser keeps.
function showTiers() {
  const names = Object.keys(state.tiers);
  const home = state.tier ? "../../" : "./";
  const go = (name) => (location.href = name ? `${home}tier/${encodeURIComponent(name)}/` : home);
  const buttons = names.map((name) =>
    made("button", { ariaCurrent: name === state.tier, onclick: () => go(name) }, name || "first tier"));
  const input = entry("add a tier", "Name of a new tier", async (event) => {
    if (event.key !== "Enter" || !input.value.trim()) return;
    try {
      go((await asked("api/tiers", "POST", input.value)).tier);
    } catch (error) {
      toast(error.message);
    }
  });
  find("tiers").replaceChildren(...[...buttons, input].map((one) => made("li", {}, one)));
  find("tier").textContent = state.tier ? `tier ${state.tier}` : "";
  find("more").open = names.length > 1;
  state.annotator = line(localStorage.getItem("annotator") ?? "");
  find("annotator").value = state.annotator;
  find("annotator").onchange = (event) => {
    state.annotator = line(event.target.value);
    localStorage.setItem("annotator", state.annotator);
  };
}

function toast(text) {
  const place = find("toast");
  (document.querySelector("dialog[open]") ?? document.body).append(place); // a dialog covers all else
  place.textContent = text;
  place.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => (place.hidden = true), 9000);
}

// ---- navigation

function open(name) {
  const one = state.recordings.find((recording) => recording.name === name);
  Object.assign(state, { current: one, selection: null, chosen: null, cursor: 0, dragged: null });
  state.channels[name] ??= one.channels.map((_, i) => i).slice(0, LANES);
  find("name").textContent = name;
  timeline.open(one, state.channels[name]);
  showLanes(one);
  player.open(one);
  refresh();
  const [list, item] = [find("recordings"), find("recordings").children[state.recordings.indexOf(one)]];
  const least = item.offsetTop + item.offsetHeight + 1 - list.clientHeight; // offsets are rounded
  list.scrollTop = Math.max(Math.min(list.scrollTop, item.offsetTop), least);
}

function showLanes(one) {
  find("lanes").hidden = one.channels.length < 2;
  find("lanes").querySelector("div").replaceChildren(...one.channels.slice(0, 400).map((channel, i) => {
    const box = made("input", { type: "checkbox", checked: state.channels[one.name].includes(i) });
    box.onchange = () => {
      const chosen = state.channels[one.name].filter((k) => k !== i);
      if (box.checked && chosen.length >= 12) return [(box.checked = false), toast("At most twelve signals fit; hide one first.")];
      state.channels[one.name] = box.checked ? [...chosen, i].sort((a, b) => a - b) : chosen;
      timeline.open(one, state.channels[one.name], true);
    };
    return made("label", {}, box, ` ${channel.name}`);
  }));
}

function reveal(time) {
  const span = timeline.to - timeline.from;
  if (time < timeline.from || time > timeline.to) timeline.show(time - span / 4, time + (3 * span) / 4);
}

function moveCursor(time) {
  state.cursor = Math.min(Math.max(time, 0), state.current.seconds);
  player.seek(state.cursor);
  reveal(state.cursor);
  timeline.draw();
  announce();
}

function next() {
  const { suggestions } = state.learned;
  if (!suggestions.length) return toast("No questions: everything is labeled, or the first boundary is missing.");
  state.asked = (state.asked + 1) % suggestions.length;
  const asked = suggestions[state.asked];
  if (asked.recording !== state.current.name) open(asked.recording);
  const room = Math.max(asked.end - asked.start, 8 / state.current.rate);
  timeline.show(asked.start - room, asked.end + room);
  Object.assign(state, { selection: [edits.rounded(asked.start), edits.rounded(asked.end)], chosen: null });
  moveCursor(asked.start);
  refresh();
}

function step(direction) {
  const all = boundaries();
  const from = state.chosen ?? state.cursor;
  const later = direction > 0 ? all.find((b) => b.time > from + 1e-6) : all.findLast((b) => b.time < from - 1e-6);
  if (!later) return;
  Object.assign(state, { chosen: later.time, selection: null });
  moveCursor(later.time);
  refresh();
}

const isMine = (time) => edits.changes(known()).some((t) => Math.abs(t - time) < 1e-6);

function confirmChosen() {
  if (state.chosen === null || isMine(state.chosen)) return;
  const time = edits.rounded(state.chosen);
  edit(edits.part(known(), time));
  state.chosen = time;
  refresh();
}

function remove() {
  if (state.chosen === null) return;
  const half = 2 / state.current.rate;
  if (isMine(state.chosen)) edit(edits.join(known(), state.chosen));
  else {
    const mine = [0, ...edits.stops(known()), state.current.seconds];
    const start = Math.max(state.chosen - half, ...mine.filter((t) => t <= state.chosen));
    const end = Math.min(state.chosen + half, ...mine.filter((t) => t > state.chosen));
    mark([start, end].map(edits.rounded), "no change");
  }
  state.chosen = null;
  refresh();
}

function arrow(event, direction) {
  const pixels = (event.shiftKey ? 60 : 4) / timeline.second;
  if (event.altKey && state.chosen !== null) {
    const list = edits.move(known(), state.chosen, state.chosen + direction * Math.max(pixels / 4, 0.001));
    const times = edits.changes(list).filter((t) => !edits.changes(known()).includes(t));
    edit(list);
    state.chosen = times[0] ?? state.chosen;
    return refresh();
  }
  moveCursor(state.cursor + direction * pixels);
}

function border(which) {
  const [start, end] = state.selection ?? [state.cursor, state.cursor];
  const pair = which ? [Math.min(start, state.cursor), state.cursor] : [state.cursor, Math.max(end, state.cursor)];
  Object.assign(state, { selection: pair.map(edits.rounded), chosen: null });
  refresh();
}

function other(direction) {
  const index = state.recordings.indexOf(state.current) + direction;
  if (state.recordings[index]) open(state.recordings[index].name);
}

const ACTIONS = {
  n: () => say("no change"), o: () => say("one change"), u: () => say(null), a: accept,
  b: () => edit(edits.part(known(), edits.rounded(state.cursor))),
  "[": () => border(0), "]": () => border(1), ",": () => step(-1), ".": () => step(1),
  c: confirmChosen, f: fill, l: () => player.loop(), s: () => player.slow(),
  Delete: remove, Backspace: remove, Enter: next, " ": () => player.toggle(), "?": () => find("keys").showModal(),
  "+": () => timeline.zoom(0.6), "=": () => timeline.zoom(0.6), "-": () => timeline.zoom(1 / 0.6),
  0: () => timeline.show(0, state.current.seconds),
  ArrowLeft: (event) => arrow(event, -1), ArrowRight: (event) => arrow(event, 1),
  ArrowUp: () => other(-1), ArrowDown: () => other(1),
  Escape: () => [Object.assign(state, { selection: null, chosen: null }), refresh()],
};

// The key of an event: of letters that are not Latin, and in the row of digits, its place counts.
function pressed(event) {
  const [, row, place] = /^(Key|Digit)(.)$/.exec(event.code) ?? [];
  const isOther = row && !event.altKey && !isThird(event) && (event.key > "~" || (row === "Digit" && !event.shiftKey));
  const name = isOther ? place : event.key;
  return name.length > 1 ? name : name.toLowerCase();
}

// Whether "AltGr" chooses a character, which sets Ctrl and Alt on some systems.
const isThird = (event) => event.getModifierState("AltGraph");

function key(event) {
  const focus = document.activeElement ?? document.body;
  if (document.querySelector("dialog[open]") || focus.matches("input:not([type=checkbox])")) return;
  const name = pressed(event);
  if ((event.ctrlKey || event.metaKey) && !isThird(event)) {
    if (name === "z") event.shiftKey ? redo() : undo();
    else if (name === "y") redo();
    else return;
    return event.preventDefault();
  }
  if ([" ", "Enter"].includes(name) && focus.matches("button, summary, input")) return;
  if (event.altKey && /^[a-z0-9]$/.test(name)) return; // a menu of the browser
  if (/^[1-9]$/.test(name)) label(Number(name));
  else if (ACTIONS[name]) ACTIONS[name](event);
  else return;
  event.preventDefault();
}

// ---- files

async function importFile(file) {
  try {
    const { annotations, unknown, late } = await readFile(asked, file, state.current.name);
    const used = Object.values(annotations).flat().map((one) => one.label).filter(Boolean);
    commit(annotations, [...new Set([...state.labels, ...used])].slice(0, state.most_labels));
    find("transfer").close();
    const lost = [];
    if (unknown.length) lost.push(`Not imported, as they are not in this folder: ${unknown.slice(0, 5).join(", ")}.`);
    if (late.length) lost.push(`Cut at the end of the recording: ${late.slice(0, 5).join(", ")}; are times in seconds?`);
    if (lost.length) toast(lost.join(" "));
  } catch (error) {
    toast(error.message);
  }
}

// ---- start

async function listen() {
  let patience = 500;
  for (;;) {
    try {
      const content = await asked(`api/learned/${state.learned.serial}`);
      if (state.silence) { // another server may answer now, with serial numbers of its own
        Object.assign(state, { silence: "", learned: { ...state.learned, serial: 0 } });
        saver.send();
      }
      if (content.serial !== state.learned.serial) {
        if (!content.suggestions?.length && content.busy) content.suggestions = state.learned.suggestions ?? [];
        else state.asked = -1;
        state.learned = { suggestions: [], recordings: {}, curve: [], ...content };
      }
      if (content.saved > state.revision && !saver.sending) { // another window has saved
        const { ok: isRead, content: theirs } = await call("api/project");
        if (isRead && theirs.revision > state.revision && !saver.sending) saver.merge(theirs);
      }
      refresh();
      patience = 500;
    } catch (error) {
      state.silence = error.message;
      refresh();
      await new Promise((go) => setTimeout(go, patience));
      patience = Math.min(2 * patience, 8000);
    }
  }
}

function button(text, pressed, onclick, needs = "") {
  const one = made("button", { onclick }, made("kbd", {}, pressed), text);
  one.dataset.needs = needs;
  return one;
}

async function begin() {
  const content = await asked("api/project");
  Object.assign(state, content, { recordings: content.recordings.map((one) => ({ ...one, bins: content.bins })) });
  recall();
  await saver.restore(content);
  document.title = `${content.folder} · label`;
  find("folder").textContent = content.folder;
  showTiers();
  quality = new Quality(() => timeline.color);
  timeline = new Timeline(find("timeline"), {
    marks,
    recolored: () => [quality.recolor(), refresh()],
    view: () => {
      const bar = find("overview").firstElementChild.style;
      bar.left = `${(100 * timeline.from) / state.current.seconds}%`;
      bar.width = `${(100 * (timeline.to - timeline.from)) / state.current.seconds}%`;
    },
    cursor: () => state.cursor,
    click: (time, strip, hit, place) => {
      moveCursor(time);
      if (hit) Object.assign(state, { chosen: hit.time, selection: null });
      else if (strip !== "") {
        Object.assign(state, { selection: null, chosen: null });
        const other = edits.stretches(others()[strip] ?? []).find((one) => one.start <= time && time < one.end);
        state.selection = (other ? [other.start, other.end] : target(strip === "yours")).map(edits.rounded);
      } else {
        const meant = edits.rounded(place);
        if (meant > 0 && meant < state.current.seconds) edit(edits.part(known(), meant));
        Object.assign(state, { chosen: meant, selection: null });
      }
      refresh();
    },
    drag: (boundary, time, done) => {
      const list = edits.move(known(), boundary, Math.min(time, state.current.seconds - 0.001));
      state.dragged = done ? null : list;
      state.chosen = edits.changes(list).find((t) => !edits.changes(known()).includes(t)) ?? boundary;
      if (done) edit(list);
      timeline.draw();
    },
    select: (start, end) => {
      Object.assign(state, { selection: [edits.rounded(start), edits.rounded(end)], chosen: null });
      state.cursor = start;
      find("hint").textContent = hint();
      announce();
      timeline.draw();
    },
  }, Object.keys(state.tiers).filter((name) => name !== state.tier).map((name) => name || "first tier"));
  find("marks").append(
    button("Accept", "A", accept), button("No change", "N", () => say("no change")),
    button("One change", "O", () => say("one change")), button("Fill", "F", fill), button("Remove labels", "U", () => say(null)),
    button("Confirm", "C", confirmChosen, "theirs"), button("Delete", "Del", remove, "chosen"));
  find("keys").querySelector("table").innerHTML = KEYS.map(([k, text]) => `<tr><td><kbd>${k}</kbd></td><td>${text}</td></tr>`).join("");
  const clicks = {
    undo, redo, next, files: () => showFiles(state.current.name, state.formats), help: ACTIONS["?"], in: ACTIONS["+"], out: ACTIONS["-"], all: ACTIONS[0],
    overview: (event) => {
      const box = find("overview").getBoundingClientRect();
      const middle = ((event.clientX - box.left) / box.width) * state.current.seconds;
      const half = (timeline.to - timeline.from) / 2;
      timeline.show(middle - half, middle + half);
    },
  };
  for (const [id, action] of Object.entries(clicks)) find(id).onclick = action;
  find("file").onchange = async ({ target }) => {
    if (target.files.length) await importFile(target.files[0]);
    target.value = ""; // so that the same file can be chosen again
  };
  find("transfer").querySelector("table").onclick = (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    download(link).catch((error) => toast(error.message));
  };
  find("again").onclick = () => saver.isDisputed ? saver.insist() : saver.send();
  find("discard").onclick = () => confirm("Discard the changes that are not saved?") && saver.discard();
  document.addEventListener("keydown", key);
  for (const type of ["keydown", "keyup"]) { // a browser would open its menu
    document.addEventListener(type, (event) => event.key === "Alt" && timeline.alter(type === "keydown") && event.preventDefault());
  }
  open(state.recordings[0].name);
  find("timeline").focus({ preventScroll: true }); // on small screens the name is above it
  listen();
}

begin().catch((error) => {
  find("status").textContent = `The page failed to load: ${error.message}`;
  throw error;
});
