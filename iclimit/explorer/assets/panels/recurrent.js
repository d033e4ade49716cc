"use strict";
// Panel 10: recurrent layers: the error at each position, what a gate leaves of a context, drift.

{
  // Errors after 1, 2, ... pairs of a layer, with the best readout at each: its two moments, token by
  // token.
  const errors = (s, token) => {
    const setting = { dim: s.dim, rho: s.rho, drift: s.drift };
    let [power, signal] = [0, 0];
    return Float64Array.from({ length: 8 * s.dim }, () => {
      [power, signal] = token({ ...setting, power, signal });
      return s.rho + 1 - (power > 0 ? signal ** 2 / power : 0);
    });
  };

  const position = (s) => {
    const context = 8 * s.dim;
    const x = Array.from({ length: context }, (_, i) => i + 1);
    const gate = Math.exp(-s.forgetting / s.dim);
    const kept = Math.exp(-s.drift / s.dim);
    const fixed = (own, step, write) => (moments) => explorer.value("recurrent_token", { ...moments, gate: own, step_size: step, write });
    const best = (moments) => explorer.value("best_recurrent_token", { ...moments, gate: kept });
    const step = s.step_size;
    const layers = [
      ["linear attention", fixed(1, 0, 1), 'errors("linear")'],
      ["gate: RetNet, Mamba-2", fixed(gate, 0, 1), 'errors("decay", gates=gate)'],
      ["delta rule: DeltaNet", fixed(1, step, step), `errors("delta", step_sizes=${step})`],
      ["gated delta rule", fixed(gate, step, step), `errors("gated-delta", step_sizes=${step}, gates=gate)`],
      ["best gate and steps", best, 'errors("gated-delta", gate_first=False)'],
    ];
    const lines = layers.map(([label, token, python], colour) => ({ label, x, colour, python, y: errors(s, token) }));
    const ends = lines.map(({ y }) => numbers.show(y.at(-1), 3));
    if (s.drift === 0) {
      lines.push({
        label: "regression: Mesa (limit)", x, colour: 6, dash: true, python: `iclimit.bayes_error(alpha=position / ${s.dim}, rho=${s.rho})`,
        y: Float64Array.from(x, (pairs) => explorer.value("bayes_error", { alpha: pairs / s.dim, rho: s.rho })),
      });
    }
    const solved = s.drift === 0 ? ` Regression, with d² numbers instead of d, has ${numbers.show(lines[5].y.at(-1), 3)}.` : "";
    return {
      charts: [{
        title: `Error against the position, d = ${s.dim}`,
        x: { label: "pairs read, ℓ", short: "ℓ", python: "position", min: 0, max: context },
        y: { label: "error on a noisy query label" },
        lines,
        marks: [{ y: s.rho, label: "noise of the label" }],
      }],
      summary: `After ${context} pairs linear attention has the error ${ends[0]}, with the gate ${ends[1]}; the delta rule has ${ends[2]}, with the gate ${ends[3]}. With the best gate and the best step at every token it is ${ends[4]}: no gates and steps do better.${solved}`,
      note: s.drift === 0 ? "" : "Regression (the Mesa layer) has no line where tasks change: iclimit.recurrent.forgetting_error has its error.",
      python: [
        `position = np.arange(1, ${context + 1})`,
        `gate = np.exp(${-s.forgetting} / ${s.dim})`,
        "errors = lambda rule, **layer: iclimit.recurrent.recurrent_errors(",
        `    rule, dim=${s.dim}, context=${context}, rho=${s.rho}, drift=${s.drift}, readout="best", **layer).error[1:]`,
      ].join("\n"),
      formulas: ["recurrent_token"],
    };
  };

  const context = (s) => {
    const setting = { rho: s.rho, drift: s.drift, correlation: s.correlation };
    const forgetting = numbers.geomspace(0.01, 10, 300);
    const alpha = numbers.geomspace(0.1, 100, 300);
    const drifts = [[s.drift, 0], [0, 1], [0.1, 2], [1, 3]].filter(([drift], i) => !i || Math.abs(drift - s.drift) > 0.03 * drift + 1e-9);
    const lines = (axis, x, others) => drifts.map(([drift, colour]) => {
      const values = { ...setting, ...others, drift };
      return { label: `ϑ = ${numbers.show(drift, 3)}`, x, colour, dash: colour > 0, y: explorer.curve("effective_context", values, axis, x), python: explorer.call("effective_context", values, axis) };
    });
    const worth = explorer.value("effective_context", { ...setting, alpha: s.alpha, forgetting: s.forgetting });
    const best = s.drift > 0 ? explorer.value("optimal_forgetting", setting) : 0;
    const most = s.drift > 0 ? explorer.value("optimal_effective_context", setting) : Infinity;
    const endless = s.drift > 0
      ? `However long the prompt, a gate leaves at most ${numbers.show(most, 3)} d pairs, at the rate ω = ${numbers.show(best, 3)}`
      : "Where tasks do not change, every gate costs context";
    return {
      charts: [
        {
          title: `What gates leave of ${numbers.show(s.alpha, 3)} d pairs`,
          x: { label: "rate of forgetting, ω", short: "ω", log: true, python: "forgetting" },
          y: { label: "effective context, α_eff", log: true },
          lines: lines("forgetting", forgetting, { alpha: s.alpha }),
          marks: best > 0.01 && best < 10 ? [{ x: best, label: "best, endless" }] : [],
        },
        {
          title: `What longer prompts are worth with ω = ${numbers.show(s.forgetting, 3)}`,
          x: { ...parameters.axis("alpha"), log: true, python: "alpha" },
          y: { label: "effective context, α_eff", log: true },
          lines: lines("alpha", alpha, { forgetting: s.forgetting }),
        },
      ],
      summary: `${numbers.show(s.alpha, 3)} d pairs are worth ${numbers.show(worth, 3)} d independent pairs of one task to attention without a gate. ${endless}.`,
      python: ["forgetting = np.geomspace(0.01, 10, 300)", "alpha = np.geomspace(0.1, 100, 300)"].join("\n"),
      formulas: ["effective_context", "optimal_forgetting"],
    };
  };

  const drift = (s) => {
    const x = numbers.geomspace(0.01, 10, 300);
    const noise = { rho: s.rho };
    const gated = { ...noise, alpha: Infinity, forgetting: s.forgetting, correlation: 0 };
    const line = (label, colour, name, values, extra = {}) => ({
      label, colour, x, y: explorer.curve(name, values, "drift", x), python: explorer.call(name, values, "drift"), ...extra,
    });
    const at = (name) => numbers.show(explorer.value(name, { ...noise, drift: 0.2 }), 3);
    const across = { label: "drift of the tasks, ϑ", short: "ϑ", log: true, python: "drift" };
    return {
      charts: [
        {
          title: "Error in endless contexts",
          x: across, y: { label: "error on a noisy query label" },
          lines: [
            line(`gate at ω = ${numbers.show(s.forgetting, 3)}`, 1, "gated_error", gated, { dash: true }),
            line("best gate", 1, "optimal_gated_error", noise),
            line("best gated delta rule", 4, "optimal_tracking_error", noise),
          ],
          marks: [{ y: 1 + s.rho, label: "predicting 0" }],
        },
        {
          title: "The best rates",
          x: across, y: { label: "rate", log: true },
          lines: [
            line("forgetting ω of the best gate", 1, "optimal_forgetting", noise),
            line("step β of the best gated delta rule", 4, "optimal_tracking_step", noise),
            { label: "its forgetting: that of the tasks", x, y: x, colour: 4, dash: true, python: "drift" },
          ],
        },
      ],
      summary: `Tasks that last for 5 d tokens (ϑ = 0.2) leave an error of ${at("optimal_gated_error")} with the best gate and ${at("optimal_tracking_error")} with the best gated delta rule, however long the prompt is.`,
      python: "drift = np.geomspace(0.01, 10, 300)",
      formulas: ["optimal_gated_error", "optimal_tracking_error"],
    };
  };

  const VIEWS = { position, context, drift };
  const only = (...views) => ({ when: (s) => views.includes(s.view) });

  explorer.add({
    id: "recurrent",
    name: "Recurrent",
    title: "Recurrent layers: gates and the delta rule",
    intro: "A recurrent layer keeps a memory of what it has read. It may let the memory decay (a gate), and it may write only what the memory would have got wrong (the delta rule).",
    guide: [
      ["One task, no gate: the delta rule learns from fewer pairs than linear attention.", { view: "position", drift: 0, forgetting: 0, step_size: 0.6, rho: 0.25 }],
      ["Let tasks change: now errors stay high, and a gate pays.", { view: "position", drift: 0.2, forgetting: 0.6, step_size: 0.6, rho: 0.25 }],
      ["See what a gate leaves: longer prompts are soon worth nothing.", { view: "context", drift: 0.1, forgetting: 0.41, alpha: 4 }],
    ],
    controls: [
      { name: "view", label: "Look at", long: true, value: "position", options: [["position", "Errors at each position"], ["context", "What a gate leaves of a context"], ["drift", "Tasks that never stop changing"]] },
      parameters.slider("rho", { value: 0.25 }),
      parameters.slider("drift", { label: "drift: tasks last for d/ϑ tokens", max: 3, ...only("position", "context") }),
      parameters.slider("forgetting", { label: "forgetting: the gate is e^(−ω/d)", max: 3, value: 0.3 }),
      parameters.slider("step_size", { label: "step of the delta rule", max: 1.9, value: 0.6, ...only("position") }),
      parameters.slider("alpha", { value: 4, ...only("context") }),
      parameters.slider("correlation", { ...only("context") }),
      parameters.slider("dim", { min: 5, max: 100, value: 40, ...only("position") }),
    ],
    compute: (s) => VIEWS[s.view](s),
  });
}
