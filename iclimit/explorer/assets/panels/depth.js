"use strict";
// Panel 9: depth, and steps at test time after finite pretraining.

{
  const testTime = (s) => {
    const setting = { alpha: s.alpha, noise_variance: s.noise_variance, dampening: s.dampening };
    const most = theory.meta.test_time_error.ranges.steps[1];
    const steps = Array.from({ length: most }, (_, i) => i + 1);
    const threshold = explorer.value("overthinking_threshold", setting);
    const at = (tau) => [1, ...steps.map((count) => explorer.value("test_time_error", { ...setting, tau, steps: count }))];
    const own = at(s.tau);
    const others = [[1.5, 1], [4, 2], [100, 3]].filter(([tau]) => Math.abs(tau / s.tau - 1) > 0.05);
    const end = (tau) => explorer.value("final_test_time_error", { ...setting, tau });
    const tau = numbers.geomspace(1.05, 1000, 240);
    const final = explorer.curve("final_test_time_error", setting, "tau", tau);
    const ones = [1, 2, 4, 8].filter((count) => count <= most);
    const best = own.indexOf(Math.min(...own));
    return {
      charts: [
        {
          title: "Error against the steps at test time",
          x: { label: "steps at test time, k", short: "k", python: "steps", min: -0.1, max: most + 0.1, whole: true },
          y: { label: "error of the task, |w − w_k|²/d", log: true },
          lines: [
            { label: `pretraining τ = ${numbers.show(s.tau, 3)}`, x: [0, ...steps], y: own, colour: 0, python: `errors(${s.tau})` },
            ...others.map(([each, colour]) => ({ label: `τ = ${each}`, x: [0, ...steps], y: at(each), colour, dash: true, python: `errors(${each})` })),
          ],
          marks: Number.isFinite(end(s.tau)) && end(s.tau) > 0 ? [{ y: end(s.tau), label: "after infinitely many steps" }] : [],
        },
        {
          title: "Error against pretraining",
          x: { label: "pretraining contexts over dimension, τ", short: "τ", log: true, python: "tau" },
          y: { label: "error of the task", log: true, max: 3 },
          lines: [
            ...ones.map((count, colour) => ({ label: numbers.count(count, "step"), x: tau, colour, y: explorer.curve("test_time_error", { ...setting, steps: count }, "tau", tau), python: explorer.call("test_time_error", { ...setting, steps: count }, "tau") })),
            { label: "infinitely many", x: tau, colour: 4, y: final, python: explorer.call("final_test_time_error", setting, "tau") },
          ],
          marks: threshold > 1 && threshold < 1000 ? [{ x: threshold, label: "overthinking below" }] : [],
        },
      ],
      summary: `With τ = ${numbers.show(s.tau, 3)} ${best === most ? `each of ${numbers.count(most, "step")} lowers the error, down to ${numbers.show(own[best])}` : `the error is least after ${numbers.count(best, "step")}, ${numbers.show(own[best])}, and ${numbers.show(own.at(-1))} after ${numbers.count(most, "step")}`}. Below τ = ${numbers.show(threshold, 3)} more and more steps do harm: overthinking.`,
      note: final.some((value) => value > 0 && value < Infinity) ? "" : "Infinitely many steps have no line here: above the threshold they leave no error.",
      python: [
        `steps = range(${most + 1})`,
        `errors = lambda tau: iclimit.depth.test_time_errors(tau=tau, steps=${most}, ${numbers.keywords(setting)})`,
        "tau = np.geomspace(1.05, 1000, 240)",
        `threshold = iclimit.depth.overthinking_threshold(${numbers.keywords(setting)})`,
      ].join("\n"),
      formulas: ["test_time_error", "overthinking_threshold"],
    };
  };

  const layers = (s) => {
    const most = theory.meta.tied_depth_loss.ranges.depth[1];
    const depths = Array.from({ length: most }, (_, i) => i + 1);
    const setting = { alpha: s.alpha, noise_variance: s.noise_variance };
    const tied = (alpha) => depths.map((depth) => explorer.value("tied_depth_loss", { ...setting, alpha, depth }));
    const others = [[0.5, 1], [1, 2], [4, 3]].filter(([alpha]) => Math.abs(alpha / s.alpha - 1) > 0.03);
    const many = [1, 2, 3, 4, 6, 8, 12, 16];
    const own = tied(s.alpha);
    return {
      charts: [
        {
          title: "Loss against depth, layers with equal weights",
          x: { label: "layers L", short: "L", python: "depth", min: 0.8, max: most + 0.2, whole: true },
          y: { label: "loss relative to predicting 0", log: true },
          lines: [
            { label: `α = ${numbers.show(s.alpha, 3)}`, x: depths, y: own, colour: 0, python: `losses(${s.alpha})` },
            ...others.map(([alpha, colour]) => ({ label: `α = ${alpha}`, x: depths, y: tied(alpha), colour, dash: true, python: `losses(${alpha})` })),
          ],
        },
        {
          title: "Power-law inputs, layers with their own weights",
          x: { label: "layers L", short: "L", log: true, python: "some", min: 0.95, max: 17, whole: true },
          y: { label: "least loss relative to predicting 0", log: true },
          lines: [[s.beta, 0], [0.5, 1], [1, 2], [3, 3]].filter(([beta], i) => !i || Math.abs(beta / s.beta - 1) > 0.03).map(([beta, colour]) => ({
            label: `β = ${numbers.show(beta, 3)}`, x: many, colour, dash: colour > 0,
            y: many.map((depth) => explorer.value("untied_power_law_loss", { beta, depth })),
            python: `[iclimit.depth.untied_power_law_loss(beta=${beta}, depth=each) for each in some]`,
          })),
        },
      ],
      summary: `At α = ${numbers.show(s.alpha, 3)} one layer leaves ${numbers.show(own[0])}, ${most} leave ${numbers.show(own.at(-1))}. Where contexts are shorter than the dimension (α < 1), no depth sees what they do not show.`,
      python: [
        `depth = range(1, ${most + 1})`,
        `losses = lambda alpha: iclimit.depth.depth_loss(depth=depth, alpha=alpha, noise_variance=${s.noise_variance}, setting="iso").loss`,
        `some = ${JSON.stringify(many)}`,
      ].join("\n"),
      formulas: ["tied_depth_loss", "untied_power_law_loss"],
    };
  };

  const VIEWS = { steps: testTime, layers };
  const only = (...views) => ({ when: (s) => views.includes(s.view) });

  explorer.add({
    id: "depth",
    name: "Depth",
    title: "Depth and test-time steps",
    intro: "A layer of linear attention can be repeated at test time. After little pretraining its weights are noisy, and more steps make the answer worse instead of better.",
    guide: [
      ["Pretrain little, τ = 1.2: after some steps the error grows. That is overthinking.", { view: "steps", alpha: 2, tau: 1.2, noise_variance: 0, dampening: 1 }],
      ["Pretrain more, τ = 100: each step lowers the error.", { view: "steps", alpha: 2, tau: 100, noise_variance: 0, dampening: 1 }],
      ["Now train layers with contexts shorter than the dimension: no depth sees what they do not show.", { view: "layers", alpha: 0.5 }],
    ],
    controls: [
      { name: "view", label: "Look at", value: "steps", options: [["steps", "Test-time steps"], ["layers", "Layers"]] },
      parameters.slider("alpha", { min: 0.2, max: 20, value: 2 }),
      parameters.slider("tau", { label: "pretraining contexts over dimension", min: 1.1, max: 1000, value: 8, ...only("steps") }),
      parameters.slider("noise_variance", { max: 1 }),
      parameters.slider("dampening", { label: "dampening of the steps", max: 1, ...only("steps") }),
      { name: "beta", symbol: "β", label: "exponent of the power law", min: 0.1, max: 5, value: 2, log: true, ...only("layers") },
    ],
    compute: (s) => VIEWS[s.view](s),
  });
}
