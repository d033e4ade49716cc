"use strict";
// Sliders of the parameters of the notation: ranges and first values.  Symbols and meanings are
// those of the library's table of notation.

const parameters = {
  ranges: {
    tau: [0.1, 10, 2], alpha: [0.1, 100, 1], kappa: [0.05, 20, 0.5], rho: [0.001, 2, 0.01, "zero"],
    ridge: [1e-4, 10, 0, "zero"], theta: [0, 3, 0.5, "linear"], q: [1e-3, 100, 0.1],
    rate: [0, 3, 1, "linear"], context: [1, 400, 20, "integer"], dim: [1, 200, 10, "integer"],
    noise_variance: [0.001, 10, 0, "zero"], task_variance: [0.1, 10, 1], ratio: [0.02, 5, 0.5],
    noise_ratio: [0.001, 2, 0, "zero"], steps: [1, 16, 4, "integer"], layers: [1, 4, 2, "integer"],
    dampening: [0.05, 1.5, 1, "linear"], condition_number: [1.1, 1000, 20],
    t: [0.1, 100, 5], init_scale: [1e-8, 0.1, 1e-3], input_variance: [0.1, 10, 1],
    drop_fraction: [0.1, 0.9, 0.5, "linear"], mean_noise_variance: [0.001, 10, 0.1, "zero"],
    efficiency: [0.01, 1, 0.5], heads: [1, 2, 1, "integer"], width_ratio: [0.1, 10, 10],
    depth: [1, 16, 4, "integer"], penalty: [1e-3, 1000, 1], eigenvalue: [0.01, 6, 1],
    initial_value: [1e-6, 0.1, 1e-3], value: [0.01, 3, 0.1], trace: [2, 10, 3],
    inverse_temperature: [0.01, 3, 1], tol: [1e-8, 0.5, 0.01],
    budget: [0.01, 100, 2], forgetting: [0.01, 10, 0, "zero"], drift: [0.01, 10, 0, "zero"], step_size: [0.01, 2, 0.5],
    correlation: [0, 0.9, 0, "linear"], first: [1, 100, 1, "integer"], time: [0.01, 1000, 1], start_variance: [0.01, 2, 0, "zero"],
  },

  // Description of a slider; `changes` replaces parts of it.
  slider(name, changes = {}) {
    const [min, max, value, kind] = parameters.ranges[name];
    const { symbol, meaning } = explorer.data.notation[name];
    return {
      name, symbol, label: meaning, min, max, value,
      log: kind !== "linear", integer: kind === "integer", zero: kind === "zero", ...changes,
    };
  },

  // Label of an axis: meaning and symbol, with its definition where there is one.
  axis(name, changes = {}) {
    const { symbol, meaning, definition } = explorer.data.notation[name];
    const [, , , kind] = parameters.ranges[name];
    return {
      label: symbol ? `${meaning}, ${symbol}${definition ? ` = ${definition}` : ""}` : meaning,
      short: definition ? `${symbol} = ${definition}` : parameters.symbol(name),
      symbol: parameters.symbol(name), log: kind !== "linear", ...changes,
    };
  },

  // Symbol, or name in words.
  symbol: (name) => explorer.data.notation[name].symbol || name.replaceAll("_", " "),
};
