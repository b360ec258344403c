/**
 * The allowed relative difference between a printed number and a number in a guide, by the mark in front of
 * the guide's number.
 */
const tolerances = {
  // instruction sets round differently
  '≈': 0.02,
  // libraries arrange operands differently on different CPUs: oneDNN uses 4 % less memory on a CPU without
  // AVX-512
  '≃': 0.1,
};

const numberPattern = String.raw`[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?`;
const isMarked = (part, mark) => new RegExp(`^${mark}${numberPattern}$`).test(part);
const asNumber = (text) => Number(text.replaceAll(',', ''));

/** Returns a predicate: true if a printed line matches the guide's line `shown`. */
function lineMatcher(shown) {
  const approximate = [];
  const source = shown
    .split(new RegExp(`(…|[≈≃~]${numberPattern})`))
    .map((part) => {
      if (part === '…') return '.*';
      if (isMarked(part, '~')) return numberPattern;
      const mark = Object.keys(tolerances).find((one) => isMarked(part, one));
      if (mark === undefined) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
      approximate.push({ expected: asNumber(part.slice(1)), tolerance: tolerances[mark] });
      return `(${numberPattern})`;
    })
    .join('');
  const pattern = new RegExp(`^${source}$`);
  return (printed) => {
    const found = pattern.exec(printed);
    if (found === null) return false;
    return approximate.every(
      ({ expected, tolerance }, index) =>
        Math.abs(asNumber(found[index + 1]) - expected) <= tolerance * Math.abs(expected),
    );
  };
}

const splitLines = (text) =>
  text
    .replace(/\n+$/, '')
    .split('\n')
    .map((line) => line.trimEnd());

/**
 * Returns the first index, at least `from`, at which `matchers` match consecutive lines; -1 if there is none.
 */
function findRun({ matchers, lines, from }) {
  for (let start = from; start + matchers.length <= lines.length; start++) {
    if (matchers.every((matches, index) => matches(lines[start + index]))) return start;
  }
  return -1;
}

/**
 * Returns the difference between printed output and the output in a guide, as a message; undefined if there
 * is none. In a guide, a line that consists only of … matches any lines; … within a line matches any
 * characters; ~5 matches any number; ≈5 matches a number within 2 %; and ≃5 matches a number within 10 %.
 * White space at the end of lines and empty lines at the end are ignored.
 */
export function outputDifference({ shown, printed }) {
  const lines = splitLines(printed);
  const runs = [[]]; // groups of shown lines, separated by lines that are only …
  for (const line of splitLines(shown)) {
    if (line === '…') runs.push([]);
    else runs.at(-1).push(line);
  }
  let from = 0;
  for (const [index, run] of runs.entries()) {
    if (run.length === 0) continue;
    const matchers = run.map(lineMatcher);
    const isLast = index === runs.length - 1;
    const earliest = isLast && index > 0 ? Math.max(from, lines.length - run.length) : from;
    const start = findRun({ matchers, lines, from: earliest });
    if (start < 0 || (index === 0 && start > 0)) return describe({ run, matchers, lines, from: earliest });
    from = start + run.length;
  }
  const isOpen = runs.at(-1).length === 0;
  if (!isOpen && from < lines.length) return `the output goes on with:\n  ${lines[from]}`;
  return undefined;
}

/** Describes the first shown line that does not match the output at the expected position. */
function describe({ run, matchers, lines, from }) {
  const start = Math.max(
    from,
    lines.findIndex((line, index) => index >= from && matchers[0](line)),
  );
  const wrong = matchers.findIndex((matches, index) => !matches(lines[start + index] ?? '\0'));
  const found = lines[start + wrong];
  return `the guide shows\n  ${run[Math.max(0, wrong)]}\nthe output has\n  ${found ?? '(nothing more)'}`;
}
