"use strict";
// Charts on uPlot from plain descriptions: lines, points with error bars, histograms, marks.
//
// A description holds x and y ({label, log, min, max}), lines ({label, x, y, colour, dash}),
// points ({label, x, y, error, colour}), bars ({label, edges, heights, colour}), marks ({x, label})
// and, for a map, heat (see heat.js).  Infinite values are gaps.

const charts = {
  HINT: matchMedia("(pointer: coarse)").matches
    ? "Touch the chart to read values."
    : "Point at the chart, or focus it and press the arrow keys, to read values; drag to zoom.",

  css: (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim(),

  colour: (index) => charts.css(`--series-${index % 7}`),

  finite: (values) => Array.from(values, (v) => (Number.isFinite(v) ? v : null)),

  // Range of an axis that shows all values, unless its ends are given.
  range(axis, values) {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) {
      if (value === null || !Number.isFinite(value) || (axis.log && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    if (!(low <= high)) [low, high] = axis.log ? [0.1, 10] : [0, 1];
    const fromLog = (v) => (axis.log ? Math.exp(v) : v);
    const toLog = (v) => (axis.log ? Math.log(v) : v);
    const margin = axis.tight ? 0 : 0.06 * (toLog(high) - toLog(low)) || (axis.tight ? 0 : 0.1);
    return [
      axis.min ?? fromLog(toLog(low) - margin),
      axis.max ?? fromLog(toLog(high) + margin),
    ];
  },

  // Data in uPlot's columns, aligned over all x.
  columns(spec) {
    const tables = [];
    for (const line of spec.lines ?? []) tables.push([Array.from(line.x), charts.finite(line.y)]);
    for (const set of spec.points ?? []) {
      const order = Array.from(set.x, (_, i) => i).sort((a, b) => set.x[a] - set.x[b]);
      tables.push([order.map((i) => set.x[i]), charts.finite(order.map((i) => set.y[i]))]);
    }
    for (const set of spec.bars ?? []) {
      const centres = Array.from(set.heights, (_, i) => (set.edges[i] + set.edges[i + 1]) / 2);
      tables.push([centres, Array.from(set.heights)]);
    }
    if (!tables.length) return [[spec.x.min, spec.x.max], [null, null]];
    if (tables.length === 1) return tables[0];
    const expanded = 2; // gaps reach over the points of other sets
    return uPlot.join(tables, tables.map((table) => table.map(() => expanded)));
  },

  series(spec) {
    const found = [{ label: spec.x.label }];
    for (const line of spec.lines ?? []) {
      found.push({
        label: line.label,
        stroke: () => `${charts.colour(line.colour)}${line.faded ? "88" : ""}`,
        width: line.width ?? 2.25,
        dash: line.dash ? [7, 5] : undefined,
        // Values that stand for whole numbers are marked.
        points: { show: Boolean(spec.x.whole), size: 6, fill: () => charts.colour(line.colour) },
      });
    }
    for (const set of spec.points ?? []) {
      const stroke = () => charts.colour(set.colour);
      found.push({ label: set.label, stroke, paths: () => null, points: { show: false } });
    }
    for (const set of spec.bars ?? []) {
      const stroke = () => charts.colour(set.colour);
      found.push({ label: set.label, stroke, paths: () => null, points: { show: false } });
    }
    if (found.length === 1) found.push({ show: false });
    return found;
  },

  // The label of an axis, or its short form where there is no room.
  axisLabel(description, room) {
    const { label, short } = description;
    return 7.2 * label.length <= room || !short ? label : short;
  },

  axis(description, isX, room) {
    const font = `13px ${charts.css("--sans")}`;
    return {
      label: charts.axisLabel(description, room),
      labelFont: font,
      labelSize: isX ? 26 : 24,
      labelGap: 4,
      font,
      stroke: () => charts.css("--muted"),
      grid: { stroke: () => charts.css("--grid"), width: 1 },
      ticks: { stroke: () => charts.css("--grid"), width: 1, size: 5 },
      size: isX ? 36 : 62,
      gap: 5,
      space: isX ? 56 : 34,
      ...charts.splits(description),
      values: (u, splits) => charts.tickLabels(splits, description.log, isX ? u.width - 80 : 0),
    };
  },

  // Where ticks are: at whole numbers only if the axis counts something.
  splits({ log, whole }) {
    if (!log) return whole ? { incrs: [1, 2, 5, 10, 20, 50, 100] } : {};
    const integers = (splits) => (whole ? splits.filter(Number.isInteger) : splits);
    return { splits: (...given) => integers(charts.logSplits(...given)), filter: (_, splits) => splits };
  },

  // Ticks of a logarithmic axis at 1 to 9 times the powers of 10.
  logSplits(u, index, low, high) {
    if (!(low > 0 && high < Infinity)) return [];
    const decades = Math.log10(high / low);
    if (decades < 0.4) return charts.evenSplits(low, high);
    const splits = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (let digit = 1; digit < 10; digit++) splits.push(Number(`${digit}e${power}`));
    }
    const each = Math.ceil(decades / 12); // powers that are shown
    const isShown = (v) => {
      const [digit, power] = v.toExponential().split("e");
      return decades < 5 || (digit === "1" && Number(power) % each === 0);
    };
    return splits.filter((v) => v >= low * 0.999999 && v <= high * 1.000001 && isShown(v));
  },

  // About four round numbers between two others.
  evenSplits(low, high) {
    const power = 10 ** Math.floor(Math.log10((high - low) / 4));
    const step = power * [1, 2, 5, 10].find((factor) => 4 * factor * power >= high - low);
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(6)));
  },

  // Labels at 1, 2 and 5 over short ranges, else at powers of 10; fewer where an axis across has
  // no room.
  tickLabels(splits, log, across) {
    const decades = log ? Math.log10(splits.at(-1) / splits[0]) : 0;
    const longest = Math.max(...splits.map((v) => numbers.show(v, 3).length));
    const crowded = across && (across * Math.log10(1.95)) / decades < 7.5 * longest + 8;
    const digits = decades > 2.2 || (crowded && decades > 1) ? [1] : decades > 0.9 || crowded ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 8];
    const shown = (v) => !log || decades < 0.4 || digits.includes(Number(v.toExponential()[0]));
    return splits.map((v) => (v !== null && shown(v) ? numbers.show(v, 3) : ""));
  },

  // Whether a description needs a new chart, or the old one can take its data.
  shape: (spec) =>
    JSON.stringify([
      Boolean(spec.x.log), Boolean(spec.x.whole), Boolean(spec.y.log), Boolean(spec.heat),
      (spec.lines ?? []).map((l) => [l.colour, l.width, Boolean(l.dash), Boolean(l.faded)]),
      (spec.points ?? []).map((l) => l.colour),
      (spec.bars ?? []).map((l) => l.colour),
    ]),

  underlay(u, spec) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    if (spec.heat) heat.paint(u, spec.heat);
    for (const set of spec.bars ?? []) {
      ctx.fillStyle = charts.colour(set.colour);
      ctx.globalAlpha = 0.35;
      set.heights.forEach((height, i) => {
        const left = u.valToPos(set.edges[i], "x", true);
        const right = u.valToPos(set.edges[i + 1], "x", true);
        const top = u.valToPos(height, "y", true);
        const bottom = u.valToPos(u.scales.y.min, "y", true);
        ctx.fillRect(left, top, Math.max(right - left - devicePixelRatio, 1), bottom - top);
      });
      ctx.globalAlpha = 1;
    }
    ctx.restore();
  },

  overlay(u, spec) {
    const { ctx, bbox } = u;
    const scale = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const set of spec.points ?? []) charts.drawPoints(u, set, scale);
    ctx.font = `${12 * scale}px ${charts.css("--sans")}`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    const isFree = charts.freePlaces(u, spec, scale);
    // Those across come first: their labels have fewer places.
    const across = (spec.marks ?? []).filter((mark) => mark.x === undefined);
    for (const mark of [...across, ...(spec.marks ?? []).filter((each) => each.x !== undefined)]) {
      const { min, max } = u.scales[mark.x === undefined ? "y" : "x"];
      if (!((mark.x ?? mark.y) >= min && (mark.x ?? mark.y) <= max)) continue;
      ctx.strokeStyle = ctx.fillStyle = charts.css(spec.heat ? "--on-heat" : "--muted");
      ctx.lineWidth = 1.25 * scale;
      ctx.setLineDash([4 * scale, 4 * scale]);
      ctx.beginPath();
      const along = u.valToPos(mark.x ?? mark.y, mark.x === undefined ? "y" : "x", true);
      if (mark.x === undefined) {
        ctx.moveTo(bbox.left, along);
        ctx.lineTo(bbox.left + bbox.width, along);
      } else {
        ctx.moveTo(along, bbox.top);
        ctx.lineTo(along, bbox.top + bbox.height);
      }
      ctx.stroke();
      ctx.setLineDash([]);
      if (!mark.label) continue;
      const gap = 6 * scale;
      // In a narrow chart without what follows the colon.
      const whole = ctx.measureText(mark.label).width < bbox.width / 2;
      const label = whole ? mark.label : mark.label.split(":")[0];
      const width = ctx.measureText(label).width;
      const [least, most] = [bbox.left + gap, bbox.left + bbox.width - gap - width];
      // Beside the line; over it where there is room on neither side.
      const sides = [along + gap, along - gap - width].filter((x) => x >= least && x <= most);
      const beside = sides.length ? sides : [most, least];
      const places = mark.x === undefined
        ? [-16, 5].flatMap((shift) => [0, 1, 0.5, 0.25, 0.75].map((share) => [least + share * (most - least), along + shift * scale]))
        : [0, 1, 2, 3, 4, 5, 10, 15].flatMap((row) => beside.map((x) => [x, bbox.top + gap + row * 17 * scale]));
      const place = places.find((each) => isFree(each, width)) ?? places.find((each) => isFree(each, width, true)) ?? places[0];
      if (!spec.heat) {
        ctx.strokeStyle = charts.css("--card");
        ctx.lineWidth = 4 * scale;
        ctx.lineJoin = "round";
        ctx.strokeText(label, ...place);
      }
      ctx.fillText(label, ...place);
    }
    if (spec.heat) heat.overlay(u, spec.heat);
    ctx.restore();
  },

  // Whether a label of some width at a place covers no earlier label, and neither curves nor points
  // unless there is no place without.
  freePlaces(u, spec, scale) {
    const { bbox } = u;
    const drawn = spec.marks?.some(({ label }) => label) ? [...(spec.lines ?? []), ...(spec.points ?? [])].flatMap(({ x, y }) =>
      Array.from(x, (each, i) => [u.valToPos(each, "x", true), u.valToPos(y[i], "y", true)])) : [];
    const taken = [];
    const height = 15 * scale;
    return ([left, top], width, overCurves = false) => {
      const covers = ([x, y]) => x > left - 3 && x < left + width + 3 && y > top - 3 && y < top + height;
      const meets = (box) => left < box[2] && box[0] < left + width && top < box[3] && box[1] < top + height;
      const inside = top >= bbox.top && top + height <= bbox.top + bbox.height;
      if (!inside || taken.some(meets) || (!overCurves && drawn.some(covers))) return false;
      taken.push([left, top, left + width, top + height]);
      return true;
    };
  },

  drawPoints(u, set, scale) {
    const { ctx } = u;
    ctx.strokeStyle = ctx.fillStyle = charts.colour(set.colour);
    ctx.lineWidth = 1.5 * scale;
    set.x.forEach((x, i) => {
      if (!Number.isFinite(set.y[i])) return;
      const across = u.valToPos(x, "x", true);
      const error = set.error?.[i];
      if (error > 0) {
        const lowest = u.scales.y.distr === 3 ? u.scales.y.min : -Infinity;
        const low = u.valToPos(Math.max(set.y[i] - error, lowest), "y", true);
        const high = u.valToPos(set.y[i] + error, "y", true);
        ctx.beginPath();
        ctx.moveTo(across, low);
        ctx.lineTo(across, high);
        for (const end of [low, high]) {
          ctx.moveTo(across - 3.5 * scale, end);
          ctx.lineTo(across + 3.5 * scale, end);
        }
        ctx.stroke();
      }
      ctx.beginPath();
      ctx.arc(across, u.valToPos(set.y[i], "y", true), (set.size ?? 4) * scale, 0, 2 * Math.PI);
      if (set.open) ctx.stroke();
      else ctx.fill();
    });
  },

  // Value of a line, also between its points.
  at({ x, y }, place) {
    const i = x.findIndex((each) => each >= place);
    if (i < 0) return undefined;
    if (x[i] === place) return y[i];
    const value = y[i - 1] + ((y[i] - y[i - 1]) * (place - x[i - 1])) / (x[i] - x[i - 1]);
    return Number.isFinite(value) ? value : undefined;
  },

  // The values at the cursor, in words.
  read(u, spec, element) {
    const readout = element.parentElement.querySelector(".readout");
    if (!(u.cursor.left >= 0)) {
      readout.textContent = charts.HINT;
      return;
    }
    if (spec.heat) {
      readout.textContent = heat.read(u, spec);
      return;
    }
    const { idx } = u.cursor;
    if (idx === null || idx === undefined) return;
    const values = [];
    u.series.forEach((series, i) => {
      const line = spec.lines?.[i - 1];
      const value = i && series.label ? (line ? charts.at(line, u.data[0][idx]) : u.data[i][idx]) : undefined;
      if (value !== null && value !== undefined) values.push(`${series.label} ${numbers.show(value)}`);
    });
    const x = `${spec.x.symbol ?? spec.x.short} = ${numbers.show(u.data[0][idx], 3)}`;
    readout.textContent = [x, ...values].join(" · ");
  },

  // A drag over a chart sets its axes to the frame.
  zoom(u, zoom) {
    const { left, top, width, height } = u.select;
    if (width < 8 || height < 8) return;
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    zoom({ x: [u.posToVal(left, "x"), u.posToVal(left + width, "x")], y: [u.posToVal(top + height, "y"), u.posToVal(top, "y")] });
  },

  // Names of what is drawn, with the stroke or the mark it is drawn with.
  legend(spec) {
    if (spec.heat) return heat.legend(spec.heat);
    const key = (kind) => (set) =>
      `<li><span class="${kind}${set.dash ? " dashed" : ""}" style="--c:var(--series-${set.colour % 7})${set.faded ? ";opacity:.55" : ""}"></span>${set.label}</li>`;
    const keys = [
      ...(spec.lines ?? []).filter((set) => set.label).map(key("stroke")),
      ...(spec.points ?? []).map(key("dot")),
      ...(spec.bars ?? []).map(key("bar")),
    ];
    return `<ul class="keys">${keys.join("")}</ul>`;
  },

  // One chart in an element; `update` takes a description.
  create(element, zoom) {
    const chart = { spec: null, plot: null, shape: "" };
    const width = () => Math.max(element.clientWidth, 200);
    const height = () => (innerWidth < 700 ? 280 : 400);
    const all = (spec, axis) => {
      const { lines = [], points = [], bars = [] } = spec;
      const values = [...lines, ...points].flatMap((set) => Array.from(set[axis]));
      for (const set of bars) values.push(...(axis === "x" ? set.edges : [0, ...set.heights]));
      return charts.range({ tight: axis === "x", ...spec[axis] }, values);
    };
    const build = () => {
      chart.plot?.destroy();
      const { spec } = chart;
      // A chart that has given way to another one still draws once, what it was made for.
      const current = (u) => (chart.plot === u ? chart.spec : spec);
      chart.room = { x: width() - 80, y: height() - 70 };
      chart.plot = new uPlot(
        {
          width: width(),
          height: height(),
          padding: [14, 22, 0, 0],
          scales: {
            x: { time: false, distr: spec.x.log ? 3 : 1, range: (u) => all(current(u), "x") },
            y: { distr: spec.y.log ? 3 : 1, range: (u) => all(current(u), "y") },
          },
          series: charts.series(spec),
          axes: ["x", "y"].map((axis) => charts.axis(spec[axis], axis === "x", chart.room[axis])),
          legend: { show: false },
          cursor: {
            drag: axes.isFree(spec) ? { x: true, y: true, setScale: false, dist: 8 } : { x: false, y: false },
            points: { size: 8 },
            bind: { dblclick: () => () => zoom(null) },
          },
          hooks: {
            drawAxes: [(u) => charts.underlay(u, current(u))],
            draw: [(u) => charts.overlay(u, current(u))],
            setSelect: [(u) => charts.zoom(u, zoom)],
            setCursor: [(u) => charts.read(u, current(u), element)],
          },
        },
        charts.columns(spec),
        element,
      );
      const canvas = element.querySelector("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", spec.title);
    };
    chart.update = (spec) => {
      chart.spec = spec;
      const shape = charts.shape(spec);
      if (shape !== chart.shape) {
        chart.shape = shape;
        build();
      } else {
        ["x", "y"].forEach((axis, i) => { chart.plot.axes[i].label = charts.axisLabel(spec[axis], chart.room[axis]); });
        charts.series(spec).forEach(({ label }, i) => { chart.plot.series[i].label = label; });
        element.querySelector("canvas").setAttribute("aria-label", spec.title);
        chart.plot.setData(charts.columns(spec));
        if (spec.heat) chart.plot.redraw(false, true);
      }
    };
    chart.redraw = () => chart.spec && build();
    chart.destroy = () => chart.plot?.destroy();
    // Arrow keys move the cursor of a chart that has the focus.
    element.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      if (!step[event.key] || !chart.plot) return;
      event.preventDefault();
      const size = event.shiftKey ? 40 : 8;
      const { over, cursor } = chart.plot;
      const place = (now, by, most) => Math.min(Math.max((now < 0 ? most / 2 : now) + by * size, 0), most);
      const [dx, dy] = step[event.key];
      chart.plot.setCursor({
        left: place(cursor.left, dx, over.clientWidth),
        top: place(cursor.top, dy, over.clientHeight),
      });
    });
    return chart;
  },
};
