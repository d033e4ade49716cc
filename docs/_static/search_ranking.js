/* Results of the search: their ranking, how many are shown, and what is quoted from a page.

A page need not have all words, and titles weigh more.

Sphinx lists pages that have every word.  Here each word adds to the score of a page: more if few
pages have it, and by where it stands.  Sphinx's index says whether a page has a word, not how
often; long pages have most words, so that words of their text count less.  */

/* Weight of a word in the title of the page, in a title within the page, and in its text. */
const IN_TITLE = 6;
const IN_HEADING = 3;
const IN_TEXT = 1;
/* Factor for words of which only a part was looked for: "diagram" finds "subdiagrams". */
const PARTLY = 0.4;
/* Weight of kinds of pages, by the beginnings of their names: guides are read first. */
const KINDS = [["api/generated/", 0.6], ["api/", 0.7], ["gallery/", 0.8], ["theory/", 0.9]];
/* Points of a page that has all words in its title. */
const MOST = 100;
/* Share of the points of the best result below which others are left out. */
const LEAST = 0.15;
/* Results that are shown at once; a click shows the others. */
const SHOWN = 20;
/* What is not quoted: what is folded, code, titles of boxes, and downloads. */
const UNQUOTED = "details, .highlight, .admonition-title, .sphx-glr-footer, " +
  ".sphx-glr-download-link-note";
/* Letters that are quoted, and how many of them stand before the word that was looked for. */
const QUOTED = 240;
const BEFORE = 120;

/* Matches of titles and names of functions are on the same scale. */
Object.assign(Scorer, { title: 60, objNameMatch: 100, objPartialMatch: 30 });

const asList = files => files === undefined ? [] : [files].flat();

/* Files with a word in a table of the index, or else with words of which it is a part. */
function filesOf(table, word) {
  if (Object.hasOwn(table, word)) return [asList(table[word]), 1];
  if (word.length < 4) return [[], 1];
  const longer = Object.keys(table).filter(term => term.includes(word));
  return [[...new Set(longer.flatMap(term => asList(table[term])))], PARTLY];
}

/* Stems of the words of each page's title, and how long a page is relative to the mean. */
function pageProperties({ titles, terms }) {
  const stemmer = new Stemmer();
  const stems = titles.map(title =>
    new Set(splitQuery(title.toLowerCase()).map(word => stemmer.stemWord(word))));
  const lengths = titles.map(() => 0);
  Object.values(terms).forEach(files => asList(files).forEach(file => { lengths[file] += 1; }));
  const mean = lengths.reduce((sum, length) => sum + length, 0) / lengths.length;
  return { stems, lengths: lengths.map(length => length / mean) };
}

Search.performTermsSearch = (searchTerms, excludedTerms) => {
  const { terms, titleterms, titles, docnames, filenames } = Search._index;
  Search.properties ??= pageProperties(Search._index);
  const { stems, lengths } = Search.properties;
  const scores = new Map();
  let possible = 0;
  const add = (file, points) => scores.set(file, (scores.get(file) ?? 0) + points);
  searchTerms.forEach(word => {
    const [inText, textShare] = filesOf(terms, word);
    const [inHeadings, headingShare] = filesOf(titleterms, word);
    const known = new Set([...inText, ...inHeadings]).size;
    if (known === 0) return;
    const rarity = Math.log(1 + titles.length / known);
    possible += rarity * IN_TITLE;
    inText.forEach(file =>
      add(file, rarity * IN_TEXT * textShare / (0.5 + 0.5 * lengths[file])));
    inHeadings.forEach(file =>
      add(file, rarity * headingShare * (stems[file].has(word) ? IN_TITLE : IN_HEADING)));
  });
  excludedTerms.forEach(word =>
    [terms, titleterms].forEach(table =>
      asList(table[word]).forEach(file => scores.delete(file))));
  return [...scores].map(([file, points]) => {
    const kind = KINDS.find(([start]) => docnames[file].startsWith(start))?.[1] ?? 1;
    const score = MOST * kind * points / possible;
    return [docnames[file], titles[file], "", null, score, filenames[file], SearchResultKind.text];
  });
};

/* Results, the best one last. */
const allResults = Search._performSearch;
Search._performSearch = (...query) => {
  const results = allResults(...query);
  const best = results.at(-1)?.[4];
  return results.filter(result => result[4] >= LEAST * best);
};

Search.query = query => {
  const parsed = Search._parseQuery(query);
  const [, words, , highlighted] = parsed;
  const results = Search._performSearch(...parsed);
  const number = results.length;
  const others = results.splice(0, number - Math.min(number, SHOWN));
  _displayNextItem(results, number, words, highlighted);
  if (others.length === 0) return;
  const more = document.createElement("button");
  more.className = "btn btn-outline-primary more-results";
  more.textContent = `${others.length} more`;
  Search.output.after(more);
  more.onclick = () => {
    more.remove();
    _displayNextItem(others, number, words, highlighted);
  };
};

/* Part of a text around the first word of the query, in whole words. */
function excerpt(text, words) {
  const lower = text.toLowerCase();
  const found = [...words].map(word => lower.indexOf(word.toLowerCase())).filter(at => at >= 0);
  const from = Math.max(Math.min(...found, text.length) - BEFORE, 0);
  const start = found.length === 0 || from === 0 ? 0 : text.indexOf(" ", from) + 1;
  if (start + QUOTED >= text.length) return (start ? "... " : "") + text.slice(start);
  const end = text.lastIndexOf(" ", start + QUOTED);
  return `${start ? "... " : ""}${text.slice(start, end)} ...`;
}

/* The paragraph of a page or section with the most words of the query is quoted, or else its first
definition. */
Search.makeSearchSummary = (html, words, anchor) => {
  const page = new DOMParser().parseFromString(html, "text/html");
  page.querySelectorAll(UNQUOTED).forEach(each => each.remove());
  const place = (anchor && page.getElementById(anchor.slice(1))) || page;
  const hits = ({ textContent }) =>
    [...words].filter(word => textContent.toLowerCase().includes(word)).length;
  const paragraphs = [...place.querySelectorAll("article p")];
  const [quoted] = paragraphs.sort((first, second) => hits(second) - hits(first));
  const definition = place === page ? "article dd" : `[id="${place.id}"] ~ dd`;
  const shown = quoted ?? page.querySelector(definition);
  const summary = document.createElement("p");
  summary.classList.add("context");
  if (shown === null) return summary;
  const whole = `<div role="main">${shown.outerHTML}</div>`;
  const text = Search.htmlToText(whole, "").replace(/\s+/g, " ").trim();
  summary.textContent = excerpt(text, words);
  return summary;
};
