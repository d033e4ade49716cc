"use strict";
// Charts as a picture: SVG from the descriptions that the page draws, and PNG from that.  Pictures
// are light, whatever the theme, and hold titles and legends.

const picture = {
  WIDTH: 660,
  HEIGHT: 480,
  SANS: "DejaVu Sans, Helvetica, Arial, sans-serif",

  escape: (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]),

  colour: (index) => explorer.data.series[index % explorer.data.series.length],

  text: (x, y, words, more = "") => `<text x="${x}" y="${y}" ${more}>${picture.escape(words)}</text>`,

  // Path through points; values that are not finite interrupt it.
  path(xs, ys, across, along) {
    let drawing = false;
    const parts = [];
    Array.from(xs).forEach((x, i) => {
      const [px, py] = [across(x), along(ys[i])];
      const isFinite = Number.isFinite(px) && Number.isFinite(py) && ys[i] !== null;
      if (isFinite) parts.push(`${drawing ? "L" : "M"}${px.toFixed(2)} ${Math.min(Math.max(py, -1e4), 1e4).toFixed(2)}`);
      drawing = isFinite;
    });
    return parts.join("");
  },

  stroke: (d, colour, width = 2, more = "") => `<path d="${d}" fill="none" stroke="${colour}" stroke-width="${width}" stroke-linejoin="round" ${more}/>`,

  // Keys of the legend, in rows of the width of the chart.
  legend(spec, left, right) {
    const { heat: map } = spec;
    const keys = map
      ? [...(map.contours ?? []), ...(map.paths ?? [])].filter((each) => each.label).map((each) => [each.label, each.colour === "#ffffff" ? "#888" : each.colour, "line", each.dash?.length])
      : [
        ...(spec.lines ?? []).filter((each) => each.label).map((each) => [each.label, picture.colour(each.colour), "line", each.dash]),
        ...(spec.points ?? []).map((each) => [each.label, picture.colour(each.colour), "dot"]),
        ...(spec.bars ?? []).map((each) => [each.label, picture.colour(each.colour), "bar"]),
      ];
    let [x, y] = [left, 44];
    const parts = [];
    for (const [label, colour, kind, dash] of keys) {
      const width = 34 + 6.6 * label.length;
      if (x > left && x + width > right) [x, y] = [left, y + 18];
      if (kind === "line") parts.push(picture.stroke(`M${x} ${y - 4}h22`, colour, 2.5, dash ? 'stroke-dasharray="6 4"' : ""));
      else if (kind === "dot") parts.push(`<circle cx="${x + 11}" cy="${y - 4}" r="4" fill="${colour}"/>`);
      else parts.push(`<rect x="${x + 4}" y="${y - 9}" width="14" height="10" fill="${colour}" opacity="0.4"/>`);
      parts.push(picture.text(x + 28, y, label));
      x += width + 12;
    }
    if (map) {
      y += keys.length ? 22 : 0;
      parts.push(...picture.colours(map, left, y - 12));
      y += 18;
    }
    return [parts.join(""), y + 14];
  },

  colours(map, left, top) {
    const stops = Array.from({ length: 17 }, (_, i) => {
      const at = 3 * Math.round((255 * i) / 16);
      return `<stop offset="${i / 16}" stop-color="rgb(${explorer.data.colours.slice(at, at + 3).join()})"/>`;
    });
    const ticks = heat.ticks(map).map(({ place, text }) => picture.text(left + 24 + 260 * place, top + 26, text, 'text-anchor="middle"'));
    return [
      `<defs><linearGradient id="colours">${stops.join("")}</linearGradient></defs>`,
      `<rect x="${left + 24}" y="${top}" width="260" height="12" fill="url(#colours)"/>`, ...ticks,
      picture.text(left + 312, top + 11, map.label),
    ];
  },

  // One chart within ranges {x: [low, high], y: [low, high]} of its axes.
  chart(spec, ranges, number) {
    const [left, right] = [76, picture.WIDTH - 20];
    const bottom = picture.HEIGHT - 56;
    const [legend, top] = picture.legend(spec, left, right);
    const scale = (name, from, to) => {
      const [low, high] = ranges[name];
      const unit = spec[name].log ? Math.log : (value) => value;
      return (value) => from + ((to - from) * (unit(value) - unit(low))) / (unit(high) - unit(low));
    };
    const [across, along] = [scale("x", left, right), scale("y", bottom, top)];
    const ticks = (name) => {
      const [low, high] = ranges[name];
      const { log, whole } = spec[name];
      const places = log ? charts.logSplits(null, 0, low, high) : charts.evenSplits(low, high);
      const kept = whole ? places.filter(Number.isInteger) : places;
      const texts = kept.length ? charts.tickLabels(kept, log, name === "x" ? right - left : 0) : [];
      return kept.map((value, i) => [value, texts[i]]);
    };
    const parts = [];
    for (const [value, text] of ticks("x")) {
      parts.push(picture.stroke(`M${across(value)} ${top}V${bottom}`, "#e4e8ee", 1), picture.text(across(value), bottom + 18, text, 'text-anchor="middle"'));
    }
    for (const [value, text] of ticks("y")) {
      parts.push(picture.stroke(`M${left} ${along(value)}H${right}`, "#e4e8ee", 1), picture.text(left - 7, along(value) + 4, text, 'text-anchor="end"'));
    }
    const inside = [];
    const { heat: map } = spec;
    if (map) {
      inside.push(`<image x="${left}" y="${top}" width="${right - left}" height="${bottom - top}" preserveAspectRatio="none" href="${heat.image(map).toDataURL()}"/>`);
      for (const contour of map.contours ?? []) {
        const place = ([x, y]) => [left + (right - left) * x, bottom - (bottom - top) * y];
        for (const line of heat.contour(contour)) {
          const d = line.map((point, i) => `${i ? "L" : "M"}${place(point).map((v) => v.toFixed(2)).join(" ")}`).join("");
          inside.push(picture.stroke(d, "#0009", 4), picture.stroke(d, contour.colour, 2.2, contour.dash?.length ? `stroke-dasharray="${contour.dash.join(" ")}"` : ""));
        }
      }
      for (const line of map.paths ?? []) {
        const d = picture.path(line.x, line.y, across, along);
        inside.push(picture.stroke(d, "#0009", 4), picture.stroke(d, line.colour, 2.2));
      }
    }
    for (const set of spec.bars ?? []) {
      set.heights.forEach((height, i) => {
        const [from, to] = [across(set.edges[i]), across(set.edges[i + 1])];
        inside.push(`<rect x="${from}" y="${along(height)}" width="${Math.max(to - from - 1, 0)}" height="${Math.max(bottom - along(height), 0)}" fill="${picture.colour(set.colour)}" opacity="0.35"/>`);
      });
    }
    (spec.marks ?? []).forEach((mark, i) => {
      const d = mark.x === undefined ? `M${left} ${along(mark.y)}H${right}` : `M${across(mark.x)} ${top}V${bottom}`;
      inside.push(picture.stroke(d, "#4c5a6a", 1.2, 'stroke-dasharray="4 4"'));
      const ends = mark.x !== undefined && across(mark.x) + 8 * mark.label.length > right;
      const [x, y] = mark.x === undefined ? [left + 6, along(mark.y) - 5] : [across(mark.x) + (ends ? -6 : 6), top + 14 + 16 * i];
      const style = `fill="#4c5a6a" paint-order="stroke" stroke="#fff" stroke-width="3" text-anchor="${ends ? "end" : "start"}"`;
      if (mark.label) inside.push(picture.text(x, y, mark.label, style));
    });
    for (const line of spec.lines ?? []) {
      inside.push(picture.stroke(picture.path(line.x, line.y, across, along), picture.colour(line.colour), line.width ?? 2.25, line.faded ? 'opacity="0.55"' : line.dash ? 'stroke-dasharray="7 5"' : ""));
    }
    for (const set of spec.points ?? []) {
      const colour = picture.colour(set.colour);
      Array.from(set.x).forEach((x, i) => {
        if (!Number.isFinite(set.y[i])) return;
        const error = set.error?.[i];
        const low = error > 0 ? along(Math.max(set.y[i] - error, spec.y.log ? ranges.y[0] : -Infinity)) : NaN;
        if (Number.isFinite(low)) inside.push(picture.stroke(`M${across(x)} ${low}V${along(set.y[i] + error)}`, colour, 1.5));
        inside.push(`<circle cx="${across(x)}" cy="${along(set.y[i])}" r="${set.size ?? 4}" ${set.open ? `fill="none" stroke="${colour}" stroke-width="1.5"` : `fill="${colour}"`}/>`);
      });
    }
    const middle = (top + bottom) / 2;
    return [
      picture.text(left, 22, spec.title, 'font-size="15" font-weight="600"'), legend, ...parts,
      `<clipPath id="inside${number}"><rect x="${left}" y="${top}" width="${right - left}" height="${bottom - top}"/></clipPath>`,
      `<g clip-path="url(#inside${number})">${inside.join("")}</g>`,
      `<rect x="${left}" y="${top}" width="${right - left}" height="${bottom - top}" fill="none" stroke="#9aa5b1"/>`,
      picture.text((left + right) / 2, bottom + 42, spec.x.label, 'text-anchor="middle"'),
      picture.text(18, middle, spec.y.label, `text-anchor="middle" transform="rotate(-90 18 ${middle})"`),
    ].join("");
  },

  // All charts beside each other.
  svg(specs, ranges) {
    const { WIDTH, HEIGHT, SANS } = picture;
    const width = WIDTH * specs.length;
    const groups = specs.map((spec, i) => `<g transform="translate(${WIDTH * i} 0)">${picture.chart(spec, ranges[i], i)}</g>`);
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${HEIGHT}" viewBox="0 0 ${width} ${HEIGHT}" font-family="${SANS}" font-size="12.5" fill="#16202c"><rect width="${width}" height="${HEIGHT}" fill="#fff"/>${groups.join("")}</svg>`;
  },

  // The same as PNG, of twice as many pixels.
  async png(svg) {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve));
  },
};
