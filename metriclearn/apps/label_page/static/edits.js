// The annotations of one recording, a list of {start, end, kind, label?} in order of time.
// Every function returns a new list. Its stretches never overlap, and contain no change inside.

const same = (a, b) => Math.abs(a - b) < 1e-6;
const isChange = (one) => one.kind === "change";
const alike = (a, b) => a.kind === b.kind && a.label === b.label;

export const rounded = (time) => Math.round(time * 1000) / 1000;
export const changes = (list) => list.filter(isChange).map((one) => one.start);
export const stretches = (list) => list.filter((one) => !isChange(one));
export const ordered = (list) => [...list].sort((a, b) => a.start - b.start || a.end - b.end);

export const stops = (list) => [...changes(list), ...stretches(list).flatMap((one) => [one.start, one.end])];

const change = (time) => ({ start: time, end: time, kind: "change" });

// Remove all annotations from start to end; changes at both ends stay.
export function erase(list, start, end) {
  const rest = [];
  for (const one of list) {
    if (isChange(one)) {
      if (one.start <= start || one.start >= end) rest.push(one);
    } else {
      // either half of "one change" may contain it, so neither stays
      const cut = one.start < end && one.end > start;
      if (cut && one.kind === "one change") continue;
      if (one.start < start) rest.push({ ...one, end: Math.min(one.end, start) });
      if (one.end > end) rest.push({ ...one, start: Math.max(one.start, end) });
      if (one.start >= start && one.end <= end && !cut) rest.push(one);
    }
  }
  const seen = new Set();
  return ordered(rest.filter((one) => {
    const key = JSON.stringify(one);
    return one.end - one.start > 1e-6 || isChange(one) ? !seen.has(key) && seen.add(key) : false;
  }));
}

// Add a stretch, and join it with neighbors of the same kind unless a change lies between.
export function mark(list, start, end, kind, label) {
  const given = { start, end, kind, ...(label ? { label } : {}) };
  const rest = erase(list, start, end);
  for (const one of stretches(rest)) {
    const [before, after] = [same(one.end, given.start), same(one.start, given.end)];
    const touch = before ? given.start : given.end;
    if ((!before && !after) || changes(rest).some((t) => same(t, touch))) continue;
    if (alike(one, given) && kind !== "one change") {
      rest.splice(rest.indexOf(one), 1);
      [given.start, given.end] = [Math.min(one.start, given.start), Math.max(one.end, given.end)];
    } else if (one.kind === "segment" && kind === "segment") {
      rest.push(change(touch));
    }
  }
  return ordered([...rest, given]);
}

// A stretch to mark, extended over unlabeled rests on both sides that are shorter than the step.
export function filled(list, start, end, step, seconds) {
  const all = [0, seconds, ...stops(list)];
  const isOpen = (time) => !stretches(list).some((one) => one.start < time && time < one.end);
  const reach = (time, stop) =>
    Math.abs(stop - time) < step - 1e-6 && isOpen((stop + time) / 2) ? stop : time;
  return [
    reach(start, Math.max(...all.filter((t) => t < start + 1e-6))),
    reach(end, Math.min(...all.filter((t) => t > end - 1e-6))),
  ];
}

// Extend the stretch at a time to its neighbors; where none is, the one before, or else the one after.
export function fill(list, time, seconds) {
  const all = stretches(list);
  const one = all.find(({ start, end }) => start <= time && time < end)
    ?? all.findLast(({ end }) => end <= time) ?? all[0];
  if (!one) return list;
  const others = [0, seconds, ...stops(list.filter((other) => other !== one))];
  const isMet = (end) => others.some((t) => same(t, end));
  const start = isMet(one.start) ? one.start : Math.max(...others.filter((t) => t < one.start));
  const end = isMet(one.end) ? one.end : Math.min(...others.filter((t) => t > one.end));
  return mark(list, start, end, one.kind, one.label);
}

// Add a change; it divides a segment around it in two.
export function part(list, time) {
  if (changes(list).some((t) => Math.abs(t - time) < 1e-3)) return list;
  const rest = [];
  for (const one of list) {
    if (!isChange(one) && one.start < time && time < one.end) {
      const kind = one.kind === "one change" ? "no change" : one.kind;
      rest.push({ ...one, kind, end: time }, { ...one, kind, start: time });
    } else rest.push(one);
  }
  return ordered([...rest, change(time)]);
}

// Remove the change at a time; the segments on both sides are joined, with the label of the first.
export function join(list, time) {
  const rest = list.filter((one) => !(isChange(one) && same(one.start, time)));
  const before = rest.find((one) => !isChange(one) && same(one.end, time));
  const after = rest.find((one) => !isChange(one) && same(one.start, time));
  if (!before || !after || before.kind !== after.kind || before.kind === "one change") return rest;
  return ordered([...rest.filter((one) => one !== before && one !== after), { ...before, end: after.end }]);
}

// Between which times a change may move: a millisecond from other changes and from the other ends of the
// stretches at it, and up to stretches elsewhere.
function room(list, time) {
  const [before, after] = [[0.001], [Infinity]];
  for (const one of list) {
    if (isChange(one) && same(one.start, time)) continue;
    const gap = isChange(one) || same(one.start, time) || same(one.end, time) ? 0.001 : 0;
    for (const end of [one.start, one.end].filter((t) => !same(t, time))) {
      if (end < time) before.push(end + gap);
      else after.push(end - gap);
    }
  }
  return [Math.max(...before), Math.min(...after)];
}

// Move the change at a time, together with the ends of segments that lie there.
export function move(list, time, to) {
  const [least, most] = room(list, time);
  const target = rounded(Math.min(Math.max(to, least), most));
  const held = (one) => isChange(one) ? same(one.start, time) : same(one.end, time) || same(one.start, time);
  const moved = list.filter(held).map((one) => ({
    ...one,
    start: same(one.start, time) ? target : one.start,
    end: same(one.end, time) ? target : one.end,
  }));
  return ordered([...list.filter((one) => !held(one)), ...moved]);
}
