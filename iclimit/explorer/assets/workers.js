"use strict";
// Maps computed beside the page, so that it never waits for them: workers fill the rows of grids in
// parts.  Where a page may not start workers, the parts are computed between its events.

const workers = {
  ROWS: 25,
  queue: [],
  idle: null,
  ticket: 0,

  answer: ({ name, values, x, xs, y, ys, ...part }) => ({ ...part, found: theory.grid(name, values, x, xs, y, ys) }),

  start() {
    const text = `${document.getElementById("theory").textContent}
      const answer = ${workers.answer};
      onmessage = ({ data }) => postMessage(answer(data));`;
    const count = Math.max(1, Math.min(8, (navigator.hardwareConcurrency ?? 2) - 1));
    try {
      const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      workers.idle = Array.from({ length: count }, () => {
        const worker = new Worker(url);
        worker.onmessage = ({ data }) => workers.receive(worker, data);
        worker.onerror = () => workers.stayHere();
        return worker;
      });
    } catch {
      workers.stayHere();
    }
  },

  stayHere() {
    const here = { postMessage: (part) => setTimeout(() => workers.receive(here, workers.answer(part))) };
    workers.idle = [here];
    const { wanted } = workers;
    if (wanted) workers.fill(wanted.grids, wanted.done);
  },

  // Values of grids {name, values, x, xs, y, ys}, handed to `done`.  An earlier request is dropped.
  fill(grids, done) {
    workers.drop();
    const found = grids.map(({ xs, ys }) => new Float64Array(xs.length * ys.length));
    workers.wanted = { grids, found, done, left: 0 };
    grids.forEach((grid, place) => {
      for (let first = 0; first < grid.ys.length; first += workers.ROWS) {
        const ys = grid.ys.slice(first, first + workers.ROWS);
        workers.queue.push({ ...grid, ys, first, place, ticket: workers.ticket });
      }
    });
    workers.wanted.left = workers.queue.length;
    if (!workers.idle) workers.start();
    workers.send();
  },

  drop() {
    workers.ticket++;
    workers.queue = [];
    workers.wanted = null;
  },

  send() {
    while (workers.idle.length && workers.queue.length) workers.idle.pop().postMessage(workers.queue.shift());
  },

  receive(worker, { ticket, place, first, found }) {
    workers.idle.push(worker);
    workers.send();
    const { wanted } = workers;
    if (ticket !== workers.ticket || !wanted) return;
    wanted.found[place].set(found, first * wanted.grids[place].xs.length);
    if (--wanted.left > 0) return;
    workers.wanted = null;
    wanted.done(wanted.found);
  },
};
