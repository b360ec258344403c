/**
 * Reads the list of reasons for which tests may be skipped. A reason has its own line. The indented lines
 * after it list the tests that may be skipped for this reason, by the beginnings of their names (`path:
 * name`). Lines that begin with # are comments.
 * @throws Error for a name that comes before the first reason
 */
export function readSkipReasons(text) {
  const reasons = [];
  for (const line of text.split('\n').filter((each) => each.trim() !== '' && !each.startsWith('#'))) {
    if (!line.startsWith(' ')) reasons.push({ reason: line.trim(), beginnings: [] });
    else if (reasons.length > 0) reasons.at(-1).beginnings.push(line.trim());
    else throw new Error(`reasons of skips: "${line.trim()}" stands below no reason`);
  }
  return reasons;
}

/** Returns the skipped tests by reason, and the skipped tests without a listed reason. */
export function skipsByReason(skipped, reasons) {
  const findReason = (name) =>
    reasons.find(({ beginnings }) => beginnings.some((beginning) => name.startsWith(beginning)))?.reason;
  const byReason = new Map();
  const others = [];
  for (const name of skipped) {
    const reason = findReason(name);
    if (reason === undefined) others.push(name);
    else byReason.set(reason, [...(byReason.get(reason) ?? []), name]);
  }
  return { byReason, others };
}

/**
 * Returns the text about skipped tests that `npm test` prints. It has a line for each reason, and a line for
 * each test without a listed reason. `list`: the path of the file with all skipped tests.
 */
export function textOfSkips({ byReason, others }, list) {
  const counts = [...byReason].map(([reason, names]) => [names.length, reason]);
  const total = counts.reduce((sum, [count]) => sum + count, others.length);
  if (total === 0) return 'nothing was skipped';
  const width = Math.max(...counts.map(([count]) => count.toLocaleString('en').length), 1);
  const lines = [
    ...counts.map(([count, reason]) => `${count.toLocaleString('en').padStart(width)} ${reason}`),
    ...others.map((name) => `${'1'.padStart(width)} ${name}`),
  ];
  return [`skipped: ${total.toLocaleString('en')} (${list})`, ...lines].join('\n  ');
}
