// The dialog of files: exports of the open recording or of all, and imports.

import { find, made } from "./elements.js";

const ENDINGS = {
  csv: "csv", txt: "audacity", vtt: "webvtt", textgrid: "textgrid", eaf: "elan", rttm: "rttm", jams: "jams", wav: "wav",
};
const busy = new Set(); // addresses of files that are on their way
let learning = ""; // how far the model is

export function showFiles(recording, formats) {
  const name = encodeURIComponent(recording);
  const link = (address, text) => `<a href="${address}">${text}</a>`;
  const cells = (address) =>
    `<td>${link(address, "as shown")}</td><td>${link(`${address}?what=known`, "only your labels")}</td>`;
  const rows = formats.map(({ kind, title }) =>
    `<tr><th>${title}</th>${cells(`export/${kind}/${name}`)}${cells(`export/${kind}`)}</tr>`);
  rows.unshift("<tr><td></td><th colspan=2>this recording</th><th colspan=2>all recordings</th></tr>");
  const model = link(`export/model/${name}`, "for metriclearn segment");
  rows.push(`<tr><th>Model</th><td colspan="4">${model} <output id="learning">${learning}</output></td></tr>`);
  find("transfer").querySelector("table").innerHTML = rows.join("");
  find("imported").textContent = recording;
  find("transfer").showModal();
}

// The error of a server that was stopped.
export function silence() {
  const port = location.port && ` --port ${location.port}`;
  return new Error(`The server does not answer: start it again by metriclearn label FOLDER${port}.`);
}

// What the server read from a file: annotations by recording, and names of recordings that are not here.
export async function readFile(asked, file, recording) {
  const name = file.name.toLowerCase();
  const kind = name.endsWith(".selections.txt") ? "raven" : ENDINGS[name.split(".").pop()];
  if (!kind) throw new Error("Cannot read this file; choose .csv, .txt (Audacity), .selections.txt (Raven), .vtt, .TextGrid, .eaf, .rttm, .jams or .wav.");
  return asked(`import/${kind}/${encodeURIComponent(recording)}`, "POST", file);
}

// Save what a link leads to; an error of the server is a sentence, and no file. The server first learns a
// model, and meanwhile tells how far it is.
export async function download(link) {
  const { href } = link;
  if (busy.has(href)) return;
  busy.add(href);
  link.ariaBusy = "true";
  try {
    let answer = await ask(href);
    while (answer.status === 202) {
      const { revision, seconds, done } = await answer.json();
      tell(`Learning, ${[done, `${seconds} s`].filter(Boolean).join(", ")}. The file comes when this is done.`);
      answer = await ask(`${href}?revision=${revision}`);
    }
    if (!answer.ok) throw new Error((await answer.json()).error);
    const name = decodeURIComponent(answer.headers.get("Content-Disposition").split("''")[1]);
    made("a", { href: URL.createObjectURL(await answer.blob()), download: name }).click();
  } finally {
    busy.delete(href);
    link.ariaBusy = null;
    if (!busy.size) tell("");
  }
}

const ask = (address) => fetch(address).catch(() => { throw silence(); });

function tell(text) {
  learning = text;
  const place = find("learning");
  if (place) place.textContent = text;
}
