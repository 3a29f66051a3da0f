// One recording as a timeline: signals from tiles, labels, and the segments of the model.
// One uPlot draws all of it; `marks` lists what goes over the signals.

/* global uPlot */

const BANDS = 64;
const FRAMES = 50; // columns of the spectrogram per second
const HEIGHTS = { thumbnails: 54, spectrogram: 110, lanes: 360, strip: 28, gap: 6, axis: 34 };
const SOUND = 0.6; // the part of a spectrogram, where there is a waveform below it
const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];
const NEAR = 7; // pixels within which a click selects a boundary
const SNAP = 3; // pixels by which a click or an end of a selection moves at most to one of the model

// Black or white, whichever is easier to read on a color.
const ink = (color) => {
  const parts = [1, 3, 5].map((i) => (parseInt(color.slice(i, i + 2), 16) / 255) ** 2.2);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] > 0.18 ? "#000" : "#fff";
};

// Fill a rectangle (left, top, width, height). Whatever is drawn next is opaque again.
const fill = (ctx, color, opacity, ...box) => {
  ctx.fillStyle = color;
  ctx.globalAlpha = opacity;
  ctx.fillRect(...box);
  ctx.globalAlpha = 1;
};

export const clock = (seconds, digits = 0) => {
  const sign = seconds < 0 ? "-" : "";
  const total = Math.abs(seconds).toFixed(digits);
  const [hours, minutes] = [Math.floor(total / 3600), Math.floor((total % 3600) / 60)];
  const rest = (total % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return `${sign}${hours ? `${hours}:${String(minutes).padStart(2, "0")}` : minutes}:${rest}`;
};

const digits = (span) => (span < 0.3 ? 3 : span < 3 ? 2 : span < 8 ? 1 : 0);

// Tiles of one kind, each fetched once; a coarser tile is shown until it arrives.
class Tiles {
  constructor(address, rate, bins, seconds, read, arrived) {
    Object.assign(this, { address, rate, bins, seconds, read, arrived, loaded: new Map() });
    this.coarsest = Math.max(0, Math.ceil(Math.log2((seconds * rate) / bins)));
  }

  level(span, pixels) {
    const wanted = Math.floor(Math.log2((span * this.rate) / Math.max(pixels, 1)));
    return Math.min(Math.max(wanted, 0), this.coarsest);
  }

  // [tile, seconds of a bin, second of its first bin, first and last second to draw] in order
  within(from, to, level) {
    const parts = [];
    const seconds = (this.bins * 2 ** level) / this.rate;
    const last = Math.floor((Math.min(to, this.seconds) - 1e-9) / seconds);
    for (let index = Math.max(0, Math.floor(from / seconds)); index <= last; index++) {
      const [start, end] = [index * seconds, (index + 1) * seconds];
      if (!this.loaded.has(`${level}/${index}`)) this.fetch(level, index);
      for (let up = 0; level + up <= this.coarsest; up++) {
        const place = Math.floor(index / 2 ** up);
        const tile = this.loaded.get(`${level + up}/${place}`);
        if (tile) {
          const bin = 2 ** (level + up) / this.rate;
          parts.push([tile, bin, place * this.bins * bin, start, end]);
          break;
        }
      }
    }
    return parts;
  }

  async fetch(level, index) {
    const key = `${level}/${index}`;
    this.loaded.set(key, null);
    try {
      const answer = await fetch(this.address(level, index));
      if (!answer.ok) throw new Error(String(answer.status));
      this.loaded.set(key, this.read(await answer.arrayBuffer()));
      this.arrived();
    } catch {
      setTimeout(() => this.loaded.delete(key), 2000); // and fetch it again
    }
  }
}

export class Timeline {
  // actions: click(time, row, boundary, place), drag(boundary, time, done), select(start, end), marks(),
  // cursor() and view();
  // tiers: names of the other tiers, each of which has a row
  constructor(place, actions, tiers) {
    Object.assign(this, { place, actions, tiers, from: 0, to: 1, waiting: false, touches: new Map(), snaps: [], inset: 56, pointed: null });
    new ResizeObserver(() => this.recording && this.resize()).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolor());
    place.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.recolor();
  }

  recolor() {
    const style = getComputedStyle(document.documentElement);
    const colors = new Map(); // cached, as styles are slow to read and every frame has many colors
    this.color = (name) => {
      if (!colors.has(name)) colors.set(name, style.getPropertyValue(`--${name}`).trim());
      return colors.get(name);
    };
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    this.shades = Array.from({ length: 256 }, (_, i) => {
      const share = dark ? i / 255 : 1 - i / 255;
      return [20 + 225 * share ** 1.4, 24 + 222 * share, 40 + 210 * share ** 0.7];
    });
    if (this.recording) {
      this.open(this.recording, this.channels, true);
      this.actions.recolored();
    }
  }

  open(recording, channels, keep = false) {
    const draw = () => this.draw();
    const address = (kind) => `api/${kind}/${encodeURIComponent(recording.name)}`;
    const tiles = (kind, query, rate, read) => new Tiles(
      (level, index) => `${address(kind)}/${level}/${index}${query}`, rate, recording.bins, recording.seconds, read, draw);
    Object.assign(this, { recording, channels, lines: null, sound: null, thumbnails: null });
    if (channels.length) {
      this.lines = tiles("tiles", `?channels=${channels}`, recording.signal_rate, (buffer) => new Float32Array(buffer));
    }
    if (recording.spectrogram) this.sound = tiles("spectrogram", "", FRAMES, (buffer) => this.picture(buffer));
    if (recording.thumbnail_step) {
      this.thumbnails = Object.assign(new Image(), { onload: draw, src: address("thumbnails") });
    }
    if (!keep) [this.from, this.to] = [0, recording.seconds];
    this.layout();
    this.build();
    this.actions.view();
  }

  // Rows from the top, in CSS pixels; sound and signals share the room that the page leaves.
  layout() {
    const { gap, strip, thumbnails, axis } = HEIGHTS;
    const count = this.channels.length;
    const least = {
      sound: this.sound ? HEIGHTS.spectrogram : 0,
      lanes: count * Math.min(Math.max(HEIGHTS.lanes / Math.max(count, 1), 44), 130),
    };
    const strips = ["yours", "model", ...this.tiers];
    const fixed = axis + gap * (1 + count + strips.length) + strip * strips.length
      + (this.sound ? gap : 0) + (this.recording.thumbnail_step ? thumbnails + gap : 0);
    this.place.style.minHeight = `${fixed + least.sound + least.lanes}px`;
    this.place.style.flexGrow = Number(least.sound + least.lanes > 0);
    const room = Math.max(this.place.clientHeight - fixed, least.sound + least.lanes);
    const tall = this.sound ? (count ? Math.round(SOUND * room) : room) : 0;
    let top = gap;
    const row = (height) => {
      const place = { top, height };
      top += height + gap;
      return place;
    };
    this.rows = {
      thumbnails: this.recording.thumbnail_step ? row(thumbnails) : null,
      spectrogram: this.sound ? row(tall) : null,
      lanes: this.channels.map(() => row((room - tall) / count)),
      yours: row(strip),
      model: row(strip),
      tiers: this.tiers.map(() => row(strip)),
    };
    this.height = top;
  }

  build() {
    this.plot?.destroy();
    const wave = this.color("wave");
    const soft = this.color("soft");
    const line = { stroke: wave, width: 1, points: { show: false }, spanGaps: false };
    const series = [{}];
    const bands = [];
    for (const k of this.channels.keys()) {
      series.push({ ...line }, { ...line });
      bands.push({ series: [2 * k + 2, 2 * k + 1], fill: wave });
    }
    if (series.length === 1) series.push({ show: false });
    const options = {
      width: this.place.clientWidth || 300,
      height: this.height + HEIGHTS.axis,
      padding: [0, 26, 0, 26],
      series,
      bands,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { x: { time: false, auto: false }, y: { auto: false, range: () => [0, this.height] } },
      axes: [
        {
          size: 30, stroke: soft, incrs: STEPS, space: 60, grid: { stroke: this.color("line"), width: 1 },
          ticks: { stroke: this.color("line") },
          values: (_, ticks) => ticks.map((t) => clock(t, digits(this.to - this.from))),
        },
        { show: false },
      ],
      hooks: { drawClear: [() => this.under()], draw: [() => this.over()] },
    };
    this.marks = this.actions.marks();
    this.plot = new uPlot(options, this.collect(), this.place);
    this.pointers(this.plot.over);
    this.paint();
  }

  resize() {
    this.layout();
    this.plot.setSize({ width: this.place.clientWidth, height: this.height + HEIGHTS.axis });
    this.draw();
  }

  show(from, to) {
    const { seconds, signal_rate: rate } = this.recording;
    const span = Math.min(Math.max(to - from, 8 / rate), seconds);
    this.from = Math.min(Math.max(from, 0), seconds - span);
    this.to = this.from + span;
    this.actions.view();
    this.draw();
  }

  // About the pointer, or else the cursor, or else the end of the view that is next to it.
  zoom(factor, about = this.pointed ?? Math.min(Math.max(this.actions.cursor(), this.from), this.to)) {
    this.show(about - (about - this.from) * factor, about + (this.to - about) * factor);
  }

  // Draw at the next frame, only once for any number of calls before it.
  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }

  paint() {
    this.marks = this.actions.marks();
    this.plot.batch(() => {
      this.plot.setData(this.collect(), false);
      this.plot.setScale("x", { min: this.from, max: this.to });
      this.plot.setScale("y", { min: 0, max: this.height });
    });
  }

  // Minima and maxima in view, scaled into their lanes, in the columns of uPlot.
  collect() {
    const n = this.channels.length;
    const columns = Array.from({ length: n ? 2 * n + 1 : 2 }, () => []);
    if (!this.lines) return columns;
    const level = this.lines.level(this.to - this.from, this.place.clientWidth);
    const scaled = this.rows.lanes.map(({ top, height }) => {
      const bottom = this.height - top - height;
      return (share) => bottom + share * height;
    });
    for (const [tile, bin, first, start, end] of this.lines.within(this.from, this.to, level)) {
      const stop = Math.min(Math.round((end - first) / bin), tile.length / (2 * n));
      for (let i = Math.max(0, Math.round((start - first) / bin)); i < stop; i++) {
        columns[0].push(first + (i + 0.5) * bin);
        for (let k = 0; k < n; k++) {
          columns[2 * k + 1].push(scaled[k](tile[(i * n + k) * 2]));
          columns[2 * k + 2].push(scaled[k](tile[(i * n + k) * 2 + 1]));
        }
      }
    }
    return columns;
  }

  picture(buffer) {
    const bytes = new Uint8Array(buffer);
    const width = bytes.length / BANDS;
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(width, 1);
    canvas.height = BANDS;
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, BANDS);
    for (let i = 0; i < bytes.length; i++) {
      const at = 4 * ((BANDS - 1 - (i % BANDS)) * width + Math.floor(i / BANDS));
      image.data.set(this.shades[bytes[i]], at);
      image.data[at + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    return { canvas, length: width };
  }

  // A context in CSS pixels of the plot's area, and seconds -> pixels.
  pen(draw) {
    const { ctx, bbox } = this.plot;
    const ratio = devicePixelRatio;
    const width = bbox.width / ratio;
    const x = (t) => ((t - this.from) / (this.to - this.from)) * width;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.translate(bbox.left, bbox.top);
    ctx.scale(ratio, ratio);
    ctx.font = "12px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    draw(ctx, x, width);
    ctx.restore();
  }

  under() {
    const { marks } = this;
    this.pen((ctx, x, width) => {
      const shade = ({ start, end }, color, opacity, height) =>
        fill(ctx, color, opacity, x(start), 0, x(end) - x(start), height);
      for (const one of marks.suggestions) {
        shade(one, this.color("ask"), 0.1, this.height);
        shade(one, this.color("ask"), 1, 5);
      }
      for (const one of marks.stretches) shade(one, one.color, 0.1, this.height);
      if (this.sound) this.drawSound(ctx, x, width);
      if (this.thumbnails?.naturalWidth) this.drawThumbnails(ctx, x);
    });
  }

  drawSound(ctx, x, width) {
    const { top, height } = this.rows.spectrogram;
    const level = this.sound.level(this.to - this.from, width);
    for (const [tile, bin, first, start, end] of this.sound.within(this.from, this.to, level)) {
      const begin = Math.max(0, (start - first) / bin);
      const count = Math.min((end - first) / bin, tile.length) - begin;
      if (count <= 0) continue;
      const left = x(first + begin * bin);
      ctx.drawImage(tile.canvas, begin, 0, count, BANDS, left, top, x(first + (begin + count) * bin) - left, height);
    }
  }

  // Frequencies beside the spectrogram, whose scale is mel.
  drawPitches(ctx) {
    const { top, height } = this.rows.spectrogram;
    for (const [hertz, share] of this.recording.pitches) {
      const [text, y] = [hertz < 1000 ? `${hertz} Hz` : `${hertz / 1000} kHz`, top + (1 - share) * height];
      fill(ctx, this.color("card"), 0.75, 0, y - 8, ctx.measureText(text).width + 18, 16);
      fill(ctx, this.color("ink"), 1, 0, y - 0.5, 8, 1);
      ctx.fillText(text, 12, y);
    }
  }

  drawThumbnails(ctx, x) {
    const { top, height } = this.rows.thumbnails;
    const { thumbnail_step: step, seconds } = this.recording;
    const wide = 96; // of one thumbnail in the picture
    const every = Math.max(1, Math.ceil(((wide / x(this.from + 1)) || 1) / step));
    const last = Math.min(this.thumbnails.naturalWidth / wide, Math.ceil(seconds / step));
    for (let i = 0; i < last; i += every) {
      const left = x(i * step);
      if (left < -wide || i * step > this.to) continue;
      ctx.drawImage(this.thumbnails, i * wide, 0, wide, height, left, top, wide, height);
    }
  }

  over() {
    const { marks } = this;
    this.pen((ctx, x, width) => {
      ctx.fillStyle = this.color("soft");
      this.rows.lanes.forEach(({ top }, k) => {
        if (this.channels.length > 1) {
          ctx.fillText(this.recording.channels[this.channels[k]].name, 6, top + 8);
        }
      });
      if (this.sound) this.drawPitches(ctx);
      marks.tiers.forEach(({ stretches, changes }, i) => {
        const row = this.rows.tiers[i];
        for (const one of stretches) this.block(ctx, x, one, row, 0.5);
        for (const time of changes) fill(ctx, this.color("ink"), 1, x(time) - 0.75, row.top, 1.5, row.height);
      });
      for (const one of marks.predicted) this.block(ctx, x, one, this.rows.model, 0.5);
      ctx.fillStyle = this.color("soft");
      ctx.fillText(marks.note, this.inset + 6, this.rows.model.top + HEIGHTS.strip / 2);
      for (const one of marks.suggestions) this.block(ctx, x, { ...one, text: "label next" }, this.rows.yours, 0);
      for (const one of marks.stretches) this.block(ctx, x, one, this.rows.yours, 1);
      for (const one of marks.boundaries) {
        const [left, right] = one.reach ?? [one.time, one.time];
        if (Math.max(right, one.time) < this.from || Math.min(left, one.time) > this.to) continue;
        const opacity = one.yours ? 1 : 0.25 + 0.75 * one.confidence;
        ctx.globalAlpha = opacity;
        ctx.strokeStyle = this.color(one.yours ? "yours" : "model");
        ctx.lineWidth = one.chosen ? 4 : 2;
        ctx.setLineDash(one.yours ? [] : [5, 4]);
        ctx.beginPath();
        ctx.moveTo(x(one.time), 0);
        ctx.lineTo(x(one.time), this.rows.model.top + HEIGHTS.strip);
        ctx.stroke();
        ctx.globalAlpha = 1;
        if (one.reach) { // how far it may move for a small loss
          fill(ctx, this.color("model"), 0.3 * opacity, x(left), this.rows.model.top, Math.max(x(right) - x(left), 1), HEIGHTS.strip);
        }
      }
      ctx.setLineDash([]);
      this.captions(ctx);
      if (marks.selection) {
        const [start, end] = marks.selection;
        ctx.strokeStyle = this.color("accent");
        ctx.lineWidth = 2;
        ctx.strokeRect(x(start), 1, x(end) - x(start), this.height - 2);
        fill(ctx, this.color("accent"), 0.12, x(start), 0, x(end) - x(start), this.height);
      }
      for (const { time, text } of this.snaps) {
        const words = `${text} ${clock(time, 3)}`;
        const wide = ctx.measureText(words).width + 12;
        const left = Math.max(Math.min(x(time), width - wide), 0);
        fill(ctx, this.color("accent"), 1, x(time) - 2, 0, 4, this.height);
        fill(ctx, this.color("accent"), 1, left, 4, wide, 20);
        ctx.fillStyle = this.color("on-accent");
        ctx.fillText(words, left + 6, 14);
      }
      fill(ctx, this.color("error"), 1, x(marks.cursor) - 0.75, 0, 1.5, this.height);
    });
  }

  block(ctx, x, one, { top, height }, opacity) {
    const [left, right] = [Math.max(x(one.start), -2), Math.min(x(one.end), this.place.clientWidth + 2)];
    if (right < 0 || left > this.place.clientWidth) return;
    fill(ctx, one.color, opacity, left, top, right - left, height);
    const inset = Math.max(left, this.inset);
    if (one.text && right - inset > 20) {
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, top, right - left, height);
      ctx.clip();
      ctx.fillStyle = opacity === 1 ? ink(one.color) : this.color("ink");
      ctx.fillText(one.text, inset + 6, top + height / 2);
      ctx.restore();
    }
  }

  captions(ctx) {
    const names = ["You", "Model", ...this.tiers];
    this.inset = Math.max(...names.map((text) => ctx.measureText(text).width)) + 14;
    [this.rows.yours, this.rows.model, ...this.rows.tiers].forEach(({ top, height }, i) => {
      fill(ctx, this.color("card"), 0.85, 0, top, this.inset - 4, height);
      ctx.fillStyle = this.color("soft");
      ctx.fillText(names[i], 6, top + height / 2);
    });
  }

  wheel(event) {
    if (!this.recording) return;
    event.preventDefault();
    const unit = event.deltaMode ? 30 : 1;
    const across = event.shiftKey ? event.deltaY : event.deltaX;
    if (Math.abs(across) > Math.abs(event.deltaY) || event.shiftKey) {
      const step = ((this.to - this.from) * across * unit) / this.place.clientWidth;
      this.show(this.from + step, this.to + step);
    } else {
      this.zoom(Math.exp(event.deltaY * unit * 0.002), this.time(event));
    }
  }

  time(event) {
    const box = this.plot.over.getBoundingClientRect();
    const t = this.from + ((event.clientX - box.left) / box.width) * (this.to - this.from);
    return Math.min(Math.max(t, 0), this.recording.seconds);
  }

  get second() {
    return this.plot.over.clientWidth / (this.to - this.from); // in pixels
  }

  nearest(times, time, reach = NEAR) {
    const gap = (t) => Math.abs(t - time) * this.second;
    return times.filter((t) => gap(t) <= reach).sort((a, b) => gap(a) - gap(b))[0];
  }

  // The boundary that a click selects: in the row Model one of the model, and above the rows one of yours.
  hit(event) {
    const strip = this.strip(event);
    if (strip !== "" && strip !== "model") return undefined;
    const all = this.actions.marks().boundaries.filter((one) => Boolean(one.yours) === (strip === ""));
    const near = this.nearest(all.map((one) => one.time), this.time(event));
    return all.find((one) => one.time === near);
  }

  // Where a click or the end of a selection goes: to your boundary or an end of your stretches within `reach`
  // pixels, only then to the model's boundary, and otherwise to the time itself; `text` says where. With the
  // key Alt it is always the time itself.
  snap(time, event, reach = SNAP, limits = []) {
    if (event.altKey) return { time, text: "" };
    const { boundaries, edges } = this.actions.marks();
    const times = (yours) => boundaries.filter((one) => Boolean(one.yours) === yours).map((one) => one.time);
    const mine = this.nearest([...times(true), ...edges], time, reach);
    if (mine !== undefined) return { time: mine, text: "your boundary" };
    const limit = this.nearest(limits, time, reach);
    if (limit !== undefined) return { time: limit, text: limit ? "the end" : "the start" };
    const theirs = this.nearest(times(false), time, SNAP);
    return theirs === undefined ? { time, text: "" } : { time: theirs, text: "the model's boundary" };
  }

  // Show what a click would do: select a boundary, set one, or begin a selection.
  hover(event, area) {
    const hit = this.hit(event);
    const isTaken = hit && !(event.altKey && hit.yours);
    area.classList.toggle("grab", Boolean(hit?.yours));
    area.classList.toggle("pick", Boolean(hit && !hit.yours));
    const [reach, limits] = this.strip(event) === "" ? [SNAP, []] : [NEAR, [0, this.recording.seconds]];
    this.point([isTaken ? { time: hit.time, text: hit.yours ? "your boundary" : "the model's boundary" }
      : this.snap(this.time(event), event, reach, limits)]);
  }

  // Show where ends go until the next call.
  point(snaps) {
    const shown = snaps.filter((one) => one.text);
    if (JSON.stringify(shown) === JSON.stringify(this.snaps)) return;
    this.snaps = shown;
    this.place.dataset.snaps = shown.map((one) => `${one.text} ${clock(one.time, 3)}`).join(", ");
    this.draw();
  }

  pointers(area) {
    let begun = null;
    const stop = () => { // a second finger, or the system, ends a drag: the boundary goes back
      if (begun?.moved && begun.hit?.yours) this.actions.drag(begun.hit.time, begun.hit.time, true);
      begun = null;
    };
    area.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      area.setPointerCapture(event.pointerId);
      this.touches.set(event.pointerId, event.clientX);
      const hit = this.hit(event);
      stop();
      begun = this.touches.size > 1 ? null : { x: event.clientX, time: this.time(event), hit, moved: false };
    });
    area.addEventListener("pointermove", (event) => {
      const time = this.time(event);
      this.pointed = time;
      this.latest = event;
      if (this.touches.size === 2 && this.touches.has(event.pointerId)) return this.pinch(event);
      if (!begun) return this.hover(event, area);
      begun.moved ||= Math.abs(event.clientX - begun.x) > 5;
      if (!begun.moved) return;
      if (begun.hit?.yours) this.actions.drag(begun.hit.time, time, false);
      else {
        const limits = [0, this.recording.seconds];
        const ends = [begun.time, time].map((t) => this.snap(t, event, NEAR, limits)).sort((a, b) => a.time - b.time);
        this.point(ends);
        this.actions.select(ends[0].time, ends[1].time);
      }
    });
    const end = (event) => {
      this.touches.delete(event.pointerId);
      if (!begun) return;
      this.point([]);
      if (event.type === "pointerup") {
        const { time, hit, moved } = begun;
        const taken = event.altKey && hit?.yours ? undefined : hit;
        if (!moved) this.actions.click(time, this.strip(event), taken, this.snap(time, event).time);
        else if (hit?.yours) this.actions.drag(hit.time, this.time(event), true);
        begun = null;
      }
      stop();
    };
    area.addEventListener("pointerup", end);
    area.addEventListener("pointercancel", end);
    area.addEventListener("pointerleave", () => {
      this.pointed = null;
      begun ?? this.point([]);
    });
    this.alter = (isHeld) => { // the key Alt
      if (this.pointed === null || begun) return false;
      const { clientX, clientY } = this.latest;
      this.hover({ clientX, clientY, altKey: isHeld }, area);
      return true;
    };
  }

  pinch(event) {
    const other = [...this.touches].find(([id]) => id !== event.pointerId)[1];
    const before = this.touches.get(event.pointerId);
    this.touches.set(event.pointerId, event.clientX);
    const [was, is] = [Math.abs(before - other), Math.abs(event.clientX - other)];
    if (was > 10 && is > 10) this.zoom(was / is, this.time({ clientX: other }));
  }

  // The row below the signals, where the pointer selects segments and moves no boundary: "yours", "model",
  // the number of another tier, or none.
  strip(event) {
    const down = event.clientY - this.plot.over.getBoundingClientRect().top;
    const tier = this.rows.tiers.findLastIndex((row) => down >= row.top);
    if (tier >= 0) return tier;
    return down >= this.rows.model.top ? "model" : down >= this.rows.yours.top ? "yours" : "";
  }
}
