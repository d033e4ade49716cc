"use strict";
// Maps of a function of two parameters, with level lines by d3-contour and paths over them.
//
// A description holds values (row by row from the lower end of y), columns, rows, low, high, log,
// label, contours ({values, columns, rows, label, colour}) and paths ({x, y, label, colour}).

const heat = {
  // Place of a value on the colour scale, 0 to 1.
  place({ low, high, log }, value) {
    if (value === Infinity) return 1;
    const place = log
      ? Math.log(value / low) / Math.log(high / low)
      : (value - low) / (high - low);
    return Math.min(Math.max(place, 0), 1);
  },

  // A map as a picture, a pixel for each value.
  image(map) {
    const { columns, rows, values } = map;
    const image = new ImageData(columns, rows);
    const colours = explorer.data.colours;
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const value = values[row * columns + column];
        const at = 4 * ((rows - 1 - row) * columns + column);
        if (Number.isNaN(value)) continue;
        const index = 3 * Math.round(255 * heat.place(map, value));
        for (let i = 0; i < 3; i++) image.data[at + i] = colours[index + i];
        image.data[at + 3] = 255;
      }
    }
    const canvas = (heat.canvas ??= document.createElement("canvas"));
    canvas.width = columns;
    canvas.height = rows;
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  },

  paint(u, map) {
    u.ctx.imageSmoothingEnabled = true;
    u.ctx.drawImage(heat.image(map), u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  },

  // Lines on which a margin vanishes, as shares of the width and of the height.
  contour({ values, columns, rows }) {
    const bounded = values.map((v) => (Number.isFinite(v) ? v : 1e300 * (v > 0 ? 1 : -1)));
    const [shape] = d3.contours().size([columns, rows]).thresholds([0])(bounded);
    // Polygons end along the frame, which is no part of the line.
    const inside = ([x, y]) => x > 0.4 && y > 0.4 && x < columns - 0.4 && y < rows - 0.4;
    const lines = [];
    for (const ring of shape.coordinates.flat()) {
      let line = null;
      for (const point of ring) {
        if (inside(point) && !line) lines.push((line = []));
        if (inside(point)) line.push([(point[0] - 0.5) / (columns - 1), (point[1] - 0.5) / (rows - 1)]);
        else line = null;
      }
    }
    return lines;
  },

  overlay(u, map) {
    const { ctx, bbox } = u;
    const scale = devicePixelRatio;
    for (const contour of map.contours ?? []) {
      ctx.beginPath();
      for (const line of heat.contour(contour)) {
        line.forEach(([x, y], i) => {
          const place = [bbox.left + bbox.width * x, bbox.top + bbox.height * (1 - y)];
          if (i) ctx.lineTo(...place);
          else ctx.moveTo(...place);
        });
      }
      heat.stroke(ctx, contour, scale);
    }
    for (const path of map.paths ?? []) {
      ctx.beginPath();
      path.x.forEach((x, i) => {
        ctx.lineTo(u.valToPos(x, "x", true), u.valToPos(path.y[i], "y", true));
      });
      heat.stroke(ctx, path, scale);
      const last = path.x.length - 1;
      ctx.fillStyle = path.colour;
      for (const i of [0, last]) {
        ctx.beginPath();
        const centre = [u.valToPos(path.x[i], "x", true), u.valToPos(path.y[i], "y", true)];
        ctx.arc(...centre, (i ? 5 : 3.5) * scale, 0, 2 * Math.PI);
        ctx.fill();
      }
    }
  },

  // A coloured line with a dark edge, visible on every colour of the map.
  stroke(ctx, line, scale) {
    ctx.setLineDash((line.dash ?? []).map((v) => v * scale));
    ctx.lineJoin = ctx.lineCap = "round";
    ctx.strokeStyle = "rgba(0,0,0,.55)";
    ctx.lineWidth = 4 * scale;
    ctx.stroke();
    ctx.strokeStyle = line.colour;
    ctx.lineWidth = 2.2 * scale;
    ctx.stroke();
    ctx.setLineDash([]);
  },

  // The value under the cursor, in words.
  read(u, spec) {
    const map = spec.heat;
    const part = (place, size) => Math.min(Math.max(place / size, 0), 1);
    const column = Math.round(part(u.cursor.left, u.over.clientWidth) * (map.columns - 1));
    const row = Math.round((1 - part(u.cursor.top, u.over.clientHeight)) * (map.rows - 1));
    const value = numbers.show(map.values[row * map.columns + column]);
    const [x, y] = [u.posToVal(u.cursor.left, "x"), u.posToVal(u.cursor.top, "y")];
    return `${spec.x.symbol ?? spec.x.short} = ${numbers.show(x, 3)}, ${spec.y.symbol ?? spec.y.short} = ${numbers.show(y, 3)}: ${map.label} = ${value}`;
  },

  // Ticks of the colour scale: its ends, with a sign where values go beyond them, and round numbers.
  ticks(map) {
    const { low, high, log, values } = map;
    const [below, above] = [values.some((v) => v < low), values.some((v) => v > high)];
    const inner = (log ? charts.logSplits(null, 0, low, high) : charts.evenSplits(low, high)).map((value) => ({ value, place: heat.place(map, value), text: numbers.show(value, 2) }));
    const ends = [
      { value: low, place: 0, text: `${below ? "≤ " : ""}${numbers.show(low, 2)}` },
      { value: high, place: 1, text: `${above ? "≥ " : ""}${numbers.show(high, 2)}` },
    ];
    // Round numbers that leave room for the labels beside them.
    const shown = [];
    const round = (value) => [1, 2, 5].indexOf(Number(value.toExponential()[0]));
    const order = log ? inner.sort((a, b) => round(a.value) < 0 ? 1 : round(b.value) < 0 ? -1 : round(a.value) - round(b.value)) : inner;
    for (const tick of [...ends, ...order]) {
      if (shown.every(({ place }) => Math.abs(place - tick.place) > 0.17)) shown.push(tick);
    }
    return shown.sort((a, b) => a.place - b.place);
  },

  // Colour scale and names of the lines, as text beside a map.
  legend(map) {
    const stops = [];
    for (let i = 0; i <= 16; i++) {
      const at = 3 * Math.round((255 * i) / 16);
      stops.push(`rgb(${explorer.data.colours.slice(at, at + 3).join()})`);
    }
    const lines = [...(map.contours ?? []), ...(map.paths ?? []), ...(map.keys ?? [])].filter((l) => l.label);
    const key = (line) =>
      `<li><span class="stroke over${line.dash?.length ? " dashed" : ""}" style="--c:${line.colour}"></span>${line.label}</li>`;
    const tick = ({ place, text }) => `<span class="tick" style="left:${(100 * place).toFixed(2)}%">${text}</span>`;
    return `<div class="scale"><span class="what">${map.label}${map.log ? ", logarithmic" : ""}</span>
      <span class="bar-and-ticks"><span class="ramp" style="background:linear-gradient(90deg,${stops.join()})"></span>${heat.ticks(map).map(tick).join("")}</span>
      <span class="points">${map.columns} × ${map.rows} points${map.rough ? ", refining …" : ""}</span></div>
      <ul class="keys">${lines.map(key).join("")}</ul>`;
  },
};
