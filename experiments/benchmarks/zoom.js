// Turn the mouse wheel over the timeline in every frame, and give the times of 400 frames.
const done = arguments[0], place = document.getElementById('timeline'), times = [];
const box = place.getBoundingClientRect();
const at = {clientX: box.left + box.width / 2, clientY: box.top + 50};
(function step(time) {
  times.push(time);
  const deltaY = times.length % 160 < 80 ? -60 : 60;
  place.dispatchEvent(new WheelEvent('wheel', {deltaY, ...at, cancelable: true}));
  times.length < 400 ? requestAnimationFrame(step) : done(times.slice(1));
})(performance.now());
