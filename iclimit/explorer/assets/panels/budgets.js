"use strict";
// Panel 3: the best split of a budget of label pairs between prompts and their length.

{
  const ENDS = { budget: [0.1, 1000], rho: [0.001, 5] };
  const FUNCTIONS = { error: ["budget_icl_error", "ridgeless_budget_icl_error"], tau: ["budget_tau", "ridgeless_budget_tau"] };
  const RIDGES = ["best ridge", "without a ridge"];
  const settingOf = (s) => ({ budget: s.budget, rho: s.rho });
  const at = (name, s) => explorer.value(name, settingOf(s));

  const summary = (s) => {
    const [error, plain] = FUNCTIONS.error.map((name) => at(name, s));
    const [tau, own] = FUNCTIONS.tau.map((name) => at(name, s));
    const jump = theory.critical_budget(s.rho);
    const found = `With B = ${numbers.show(s.budget, 3)} and ρ = ${numbers.show(s.rho, 3)} the least error on new tasks is ${numbers.show(error)}, at τ = ${numbers.show(tau, 3)} and α = ${numbers.show(at("budget_alpha", s), 3)}, with the ridge ${numbers.show(at("budget_ridge", s), 3)}.`;
    const without = own > 0
      ? `Without a ridge it is ${numbers.show(plain)}, at τ = ${numbers.show(own, 3)}`
      : "Without a ridge no pretraining is better than predicting 0";
    const moves = s.rho < 1
      ? `the best τ jumps across the interpolation threshold at B = ${numbers.show(jump, 4)}`
      : `this is so up to B = (1 + ρ)² = ${numbers.show(jump, 4)}, as ρ ≥ 1`;
    return `${found} ${without}; ${moves}.`;
  };

  // Least errors and the prompts that reach them, against the budget or the noise.
  const along = (axis) => (s) => {
    const values = settingOf(s);
    delete values[axis];
    const ends = axes.chosen(s, "0x", theory.meta.budget_icl_error.ranges[axis]) ?? ENDS[axis];
    const x = numbers.geomspace(...ends, 500);
    const lines = (kind) => FUNCTIONS[kind].map((name, colour) => ({
      label: RIDGES[colour], x, colour, python: `${["best", "ridgeless"][colour]}.${kind}`, y: explorer.curve(name, values, axis, x),
    }));
    const jump = theory.critical_budget(s.rho);
    const here = { x: s[axis], label: `${parameters.symbol(axis)} = ${numbers.show(s[axis], 3)}` };
    const marks = [...(s[axis] > 0 ? [here] : []), ...(axis === "budget" ? [{ x: jump, label: "the best τ jumps without a ridge" }] : [])];
    const across = { ...parameters.axis(axis), log: true, python: axis };
    const best = explorer.call("budget_icl_error", values, axis).replace(/\.error$/, "");
    const ridgeless = best.replace(/\)$/, ", ridge=0)");
    return {
      charts: [
        {
          title: "Least error of the budget",
          x: across, y: { label: "error on new tasks", log: true }, lines: lines("error"),
          marks: [...marks, ...(axis === "budget" ? [{ y: 1 + s.rho, label: "predicting 0" }] : [])],
        },
        {
          title: "The prompts that reach it",
          x: across, y: { ...parameters.axis("tau"), min: 0.05, max: 100 }, lines: lines("tau"),
          marks: [...marks, { y: 1, label: "τ = 1: interpolation threshold" }],
        },
      ],
      summary: summary(s),
      python: [`${axis} = np.geomspace(${ends.join(", ")}, 500)`, `best = ${best}`, `ridgeless = ${ridgeless}`].join("\n"),
      formulas: ["budget_icl_error", "ridgeless_budget_tau"],
    };
  };

  // All splits of one budget.
  const splits = (s) => {
    const ends = axes.chosen(s, "0x", [1e-3, 1e3]) ?? [0.05, 50];
    const tau = numbers.geomspace(...ends, 500);
    const own = { kappa: Infinity, rho: s.rho };
    const error = (name, more) => tau.map((each) => explorer.value(name, { ...own, ...more, tau: each, alpha: s.budget / each }));
    const lines = [
      { label: RIDGES[0], x: tau, y: error("optimal_icl_error", {}), colour: 0, python: "best" },
      { label: RIDGES[1], x: tau, y: error("icl_error", { ridge: 0 }), colour: 1, python: "ridgeless" },
    ];
    const places = FUNCTIONS.tau.map((name) => at(name, s));
    const points = FUNCTIONS.error.map((name, colour) => ({
      label: `best split, ${RIDGES[colour]}`, x: [places[colour]], y: [at(name, s)], colour,
    })).filter(({ x: [place] }) => place > 0);
    return {
      charts: [{
        title: `All splits of B = ${numbers.show(s.budget, 3)}`,
        x: { ...parameters.axis("tau"), python: "tau" },
        y: { label: "error on new tasks", min: 0, max: 2 * (1 + s.rho) },
        lines, points,
        marks: [{ y: 1 + s.rho, label: "predicting 0" }, { x: 1, label: "τ = 1: interpolation threshold" }],
      }],
      summary: summary(s),
      python: [
        `tau = np.geomspace(${ends.join(", ")}, 500)`,
        `alpha = ${s.budget} / tau`,
        `best = ${explorer.call("optimal_icl_error", own, "tau", "alpha")}`,
        `ridgeless = ${explorer.call("icl_error", { ...own, ridge: 0 }, "tau", "alpha")}`,
      ].join("\n"),
      formulas: ["budget_icl_error", "ridgeless_budget_icl_error", "icl_error"],
    };
  };

  const VIEWS = { budget: along("budget"), rho: along("rho"), splits };

  explorer.add({
    id: "budgets",
    name: "Budgets",
    title: "How to spend a budget of label pairs",
    intro: "Pretraining on n prompts of ℓ pairs shows n ℓ = B d³ labels: more prompts of shorter contexts, or fewer of longer ones. Every prompt has a task of its own.",
    guide: [
      ["Look at all splits of B = 3.3 without a ridge: there is a minimum on either side of τ = 1.", { view: "splits", budget: 3.3, rho: 0.1 }],
      ["Raise the budget to 4: the other minimum is the lower one, and the best τ has jumped.", { view: "splits", budget: 4, rho: 0.1 }],
      ["Now see all budgets: with noise the excess error falls as one over their root.", { view: "budget", budget: 100, rho: 0.1 }],
    ],
    controls: [
      { name: "view", label: "Look at", long: true, value: "budget", options: [["budget", "Errors against the budget"], ["rho", "Errors against the noise"], ["splits", "All splits of one budget"]] },
      parameters.slider("budget", { min: 0.1, max: 1000, value: 10 }),
      parameters.slider("rho", { value: 0.1 }),
    ],
    compute: (s) => VIEWS[s.view](s),
  });
}
