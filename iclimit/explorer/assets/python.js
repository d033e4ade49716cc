"use strict";
// The view as a Python script: a panel's lines that compute its curves, and lines that draw them.
//
// A line of a chart holds in `python` an expression of its values, and in `across` one of what they
// are drawn against, by default that of the axis x.  What has none is written as numbers.

const python = {
  list(values) {
    const literal = (v) => (Number.isFinite(v) ? String(Number(v.toPrecision(7))) : v > 0 ? "np.inf" : "np.nan");
    return `[${Array.from(values, (v) => literal(v ?? NaN)).join(", ")}]`;
  },

  // Text as Python reads it: JavaScript's escapes are Python's.
  text: (value) => JSON.stringify(value),

  style({ colour, dash, width }) {
    return `color="C${colour % 10}"${dash ? ', linestyle="--"' : ""}${width ? `, linewidth=${width}` : ""}`;
  },

  chart(spec) {
    const { x, y, heat: map } = spec;
    const label = (set) => (set.label ? `, label=${python.text(set.label)}` : "");
    const lines = [`ax.set_title(${python.text(spec.title)})`];
    for (const line of spec.lines ?? []) {
      const across = line.across ?? (line.python && x.python) ?? python.list(line.x);
      lines.push(`ax.plot(${across}, ${line.python ?? python.list(line.y)}, ${python.style(line)}${label(line)})`);
    }
    for (const set of spec.points ?? []) {
      const error = set.error ? `, ${python.list(set.error)}` : "";
      lines.push(`ax.errorbar(${python.list(set.x)}, ${python.list(set.y)}${error}, fmt="o", color="C${set.colour}"${label(set)})`);
    }
    for (const set of spec.bars ?? []) {
      lines.push(`ax.stairs(${python.list(set.heights)}, ${python.list(set.edges)}, fill=True, alpha=0.35, color="C${set.colour}"${label(set)})`);
    }
    if (map) lines.push(...python.map(spec, map));
    for (const mark of spec.marks ?? []) {
      const [draw, at] = mark.x === undefined ? ["axhline", mark.y] : ["axvline", mark.x];
      lines.push(`ax.${draw}(${at}, color="0.5", linestyle=":"${label(mark)})`);
    }
    const settings = [];
    for (const [name, axis] of [["x", x], ["y", y]]) {
      settings.push(`${name}label=${python.text(axis.label)}`);
      if (axis.log) settings.push(`${name}scale="log"`);
      const ends = [axis.min, axis.max].map((end) => end ?? "None");
      if (ends.some((end) => end !== "None")) settings.push(`${name}lim=(${ends.join(", ")})`);
    }
    lines.push(`ax.set(${settings.join(", ")})`, "ax.legend()");
    return lines;
  },

  map({ x, y }, map) {
    const norm = map.log ? ', norm="log"' : "";
    const ends = map.log ? "" : `, vmin=${map.low}, vmax=${map.high}`;
    const lines = [
      `mesh = ax.pcolormesh(${x.python}, ${y.python}, ${map.python}${norm}${ends})`,
      ...(map.log ? [`mesh.set_clim(${map.low}, ${map.high})`] : []),
      `figure.colorbar(mesh, label=${python.text(map.label)})`,
    ];
    for (const contour of map.contours ?? []) {
      lines.push(`ax.contour(${x.python}, ${y.python}, ${contour.python}, levels=[0], colors="white")`);
    }
    for (const path of map.paths ?? []) {
      lines.push(`ax.plot(${python.list(path.x)}, ${python.list(path.y)}, "o-", color="C1", label=${python.text(path.label)})`);
    }
    return lines;
  },

  // The whole script of a result of a panel.
  script({ charts, python: setup }) {
    const parts = charts.flatMap((spec, i) => {
      const drawn = spec.plot ? [spec.plot] : python.chart(spec);
      return ["", `ax = axes[0, ${i}]`, ...drawn];
    });
    const width = charts.length > 1 ? 12 : 8;
    return [
      "import iclimit, numpy as np",
      "import matplotlib.pyplot as plt",
      "",
      setup,
      "",
      `figure, axes = plt.subplots(1, ${charts.length}, figsize=(${width}, 5), squeeze=False, layout="constrained")`,
      ...parts,
      "",
      "plt.show()",
    ].join("\n").replaceAll("\n\n\n", "\n\n");
  },
};
