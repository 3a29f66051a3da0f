// Sound or video of the open recording: play, loop and slow down.

import { find } from "./elements.js";

const SPEEDS = [1, 0.5, 0.25];

export class Player {
  // actions: moved(time) while it plays, range() -> [start, end] to loop over, and failed()
  constructor(place, actions) {
    Object.assign(this, { place, actions, media: null, isLooping: false, speed: 1 });
    find("play").onclick = () => this.toggle();
    find("loop").onclick = () => this.loop();
    find("speed").onclick = () => this.slow();
  }

  open(recording) {
    this.media?.remove();
    this.media = recording.kind === "table" ? null : document.createElement(recording.kind);
    for (const id of ["play", "loop", "speed"]) find(id).hidden = !this.media;
    if (!this.media) return;
    this.media.src = `media/${encodeURIComponent(recording.name)}`;
    this.media.ontimeupdate = () => this.follow();
    this.media.onplay = this.media.onpause = this.media.onratechange = () => this.show();
    this.media.onended = () => this.isLooping && this.toggle();
    this.media.defaultPlaybackRate = this.media.playbackRate = this.speed;
    this.place.append(this.media);
    this.show();
  }

  get isPlaying() {
    return Boolean(this.media && !this.media.paused);
  }

  toggle() {
    if (!this.media) return;
    if (this.isPlaying) return this.media.pause();
    const [start, end] = this.actions.range();
    const time = this.media.currentTime;
    if (this.isLooping && (time < start || time >= end - 0.02)) this.media.currentTime = start;
    this.media.play().catch(() => this.media?.error && this.actions.failed());
  }

  loop() {
    this.isLooping = !this.isLooping;
    this.show();
  }

  slow() {
    this.speed = SPEEDS[(SPEEDS.indexOf(this.speed) + 1) % SPEEDS.length];
    if (this.media) this.media.playbackRate = this.speed;
    this.show();
  }

  seek(time) {
    if (this.media) this.media.currentTime = time;
  }

  show() {
    find("play").textContent = this.isPlaying ? "❚❚" : "▶";
    find("loop").setAttribute("aria-pressed", this.isLooping);
    find("speed").textContent = { 1: "1×", 0.5: "½×", 0.25: "¼×" }[this.speed];
  }

  // While it plays, the cursor goes with the sound, in every frame; at the end of a loop it goes back. A
  // paused player moves nothing: it answers a seek late, when a person may look elsewhere already.
  follow() {
    if (!this.isPlaying) return;
    const { media } = this;
    const [start, end] = this.actions.range();
    if (this.isLooping && media.currentTime >= end) media.currentTime = start;
    this.actions.moved(media.currentTime);
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.follow());
  }
}
