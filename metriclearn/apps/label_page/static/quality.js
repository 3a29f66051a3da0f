// How good the model is: boundaries and names in labeled stretches that it has not learned from.

/* global uPlot */

import { find } from "./elements.js";
import { clock } from "./timeline.js";

const SETTLED = 10; // stretches from which on the share moves little
const percent = (share) => `${Math.round(100 * share)} %`;
const atMost = (share) => (share > 0.985 ? "nearly all" : percent(share));
const many = (count, one, more) => `${count} ${count === 1 ? one : more}`;
const boundaries = (point) => point.agreed + point.missed + point.extra;
const share = (point) => point.agreed / boundaries(point);

// Why the share has moved since the last check: chance, more labels, or harder stretches.
export function reason(last, before) {
  if (!before || before.stretches === last.stretches) return "";
  const [was, is] = [share(before), share(last)];
  const isChance = (was >= last.low && was <= last.high) || (is >= before.low && is <= before.high);
  if (percent(was) === percent(is)) return "";
  if (isChance) return `The change from ${percent(was)} is within chance.`;
  if (is > was) return `Up from ${percent(was)}: the model has learned from more stretches.`;
  return `Down from ${percent(was)}: the stretches that you labeled since are harder than those before. The model `
    + "has not become worse; it is now tested on more of what can happen.";
}

export function verdict(curve, isHidden = false) {
  const checks = curve.filter((point) => point.stretches > 0);
  const last = checks.at(-1);
  if (!last) {
    return ["Not measured yet", "The page tests the model on stretches that you have labeled. "
      + "It needs three boundaries or more, with all that lies between them labeled."];
  }
  const { stretches, agreed, missed, extra, low, high, named, expected } = last;
  const sentences = [
    `Measured on ${many(stretches, "stretch", "stretches")} of yours, hidden from the model in turn: it finds `
      + `${agreed} of your ${many(agreed + missed, "boundary", "boundaries")}, and sets ${extra || "none"} that you have not.`,
    isHidden ? "That is no better than no boundary at all, so the page does not show the model's yet." : "",
    named === null || named === undefined ? "" : `Its names are right ${percent(named)} of the time.`,
    reason(last, checks.at(-2)),
    stretches < SETTLED ? "With so few stretches the number is rough, and still jumps up and down." : "",
    expected === null || expected === undefined ? "" : `Where you have labeled nothing, the model expects ${atMost(1 - expected)} of its boundaries to be right.`,
  ];
  const title = `${percent(share(last))} of boundaries agree (likely ${percent(low)} to ${percent(high)})`;
  return [title, sentences.filter(Boolean).join(" ")];
}

// The verdict and the curve of all checks; `color` gives the colors of the page.
export class Quality {
  constructor(color) {
    this.color = color;
  }

  show(curve, isHidden) {
    const [title, text] = verdict(curve, isHidden);
    find("share").textContent = title;
    find("verdict").textContent = text;
    const checks = curve.filter((point) => point.stretches > 0);
    find("curve").hidden = checks.length < 2;
    if (checks.length < 2) return;
    const columns = [(p) => p.seconds, (p) => p.low, (p) => p.high, share];
    const rising = [...checks].sort((a, b) => a.seconds - b.seconds); // labels may have been removed
    const data = columns.map((of) => rising.map(of));
    const size = { width: find("curve").clientWidth, height: 136 };
    if (this.plot) {
      this.plot.setSize(size);
      this.plot.setData(data);
    } else this.plot = new uPlot({ ...this.options(), ...size }, data, find("curve"));
  }

  options() {
    const color = this.color();
    const axis = { stroke: color("soft"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false } };
    const edge = { stroke: "transparent", points: { show: false } };
    return {
      legend: { show: false }, cursor: { show: false },
      scales: { x: { time: false }, y: { range: [0, 1] } },
      axes: [
        { ...axis, size: 24, label: "labeled", labelSize: 16, labelFont: "12px system-ui, sans-serif", values: (_, ticks) => ticks.map((t) => clock(t)) },
        { ...axis, size: 44, splits: [0, 0.5, 1], values: (_, ticks) => ticks.map(percent) },
      ],
      series: [{}, edge, edge, { stroke: color("accent"), width: 2, points: { show: true, size: 5 } }],
      bands: [{ series: [2, 1], fill: `${color("accent")}33` }],
    };
  }

  recolor() {
    this.plot?.destroy();
    this.plot = null;
  }
}
