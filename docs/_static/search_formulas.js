/* Formulas in search results: in plain characters, because their TeX is not drawn there. */

const SYMBOLS = {
  alpha: "α", beta: "β", gamma: "γ", delta: "δ", epsilon: "ε", zeta: "ζ", eta: "η", theta: "θ",
  kappa: "κ", lambda: "λ", mu: "μ", nu: "ν", xi: "ξ", pi: "π", rho: "ρ", sigma: "σ", tau: "τ",
  phi: "φ", varphi: "φ", chi: "χ", psi: "ψ", omega: "ω", ell: "ℓ", Gamma: "Γ", Delta: "Δ",
  Theta: "Θ", Lambda: "Λ", Sigma: "Σ", Phi: "Φ", Psi: "Ψ", Omega: "Ω", infty: "∞", sum: "∑",
  prod: "∏", int: "∫", sqrt: "√", partial: "∂", nabla: "∇", top: "T", cdot: "·", times: "×",
  le: "≤", leq: "≤", ge: "≥", geq: "≥", ne: "≠", approx: "≈", simeq: "≃", sim: "~", to: "→",
  mapsto: "↦", propto: "∝", in: "∈", pm: "±", langle: "⟨", rangle: "⟩", lVert: "‖", rVert: "‖",
  mid: "|", dots: "…", ldots: "…", cdots: "…", E: "E", tr: "tr", df: "df", Var: "Var", d: "d",
  eICL: "e_ICL", eIDG: "e_IDG", log: "log", exp: "exp", min: "min", max: "max", det: "det",
};

/* Each part is a group, a command or a character. */
const FRACTION = /\\[dt]?frac\s*(\{[^{}]*\}|\\[a-zA-Z]+|[^\\{\s])\s*(\{[^{}]*\}|\\[a-zA-Z]+|[^\\{\s])/g;

function plainFormula(tex) {
  return tex
    .replace(/\\(?:begin|end)\{[^}]*\}/g, " ")
    .replace(FRACTION, "$1/$2")
    .replace(/\\([a-zA-Z]+)\s*/g, (_, name) => SYMBOLS[name] ?? "")
    .replace(/\\\\|&/g, " ")
    .replace(/\\[()[\]]|[{}\\]/g, "");
}

const htmlToText = Search.htmlToText;
Search.htmlToText = (html, anchor) => {
  const page = new DOMParser().parseFromString(html, "text/html");
  page.querySelectorAll(".math").forEach(each => {
    each.textContent = plainFormula(each.textContent);
  });
  return htmlToText(page.documentElement.outerHTML, anchor);
};

const { alltitles, titles } = Search._index;
Search._index.titles = titles.map(plainFormula);
Search._index.alltitles = Object.fromEntries(
  Object.entries(alltitles).map(([title, places]) => [plainFormula(title), places]),
);
