const phrase = ' has no effect';

/** The longest line that still gives the reason for every flag, in characters. */
const mostColumns = 240;

/**
 * Returns notices for the start of a run. All notices about flags without effect become one line with the
 * flags and the reasons. If this line would be too long, it does not contain the reasons, but the name of the
 * flag that prints them. Other notices do not change.
 *
 * @param toldBy the flag that prints each reason on its own line; undefined if the program has no such flag
 */
export function foldNotices(notices: readonly string[], toldBy?: string): readonly string[] {
  const idle = notices.filter((notice) => notice.includes(phrase));
  if (idle.length < 2) return notices;
  const flagsByReason = new Map<string, string[]>();
  for (const notice of idle) {
    const at = notice.indexOf(phrase);
    const flag = notice.slice(0, at).replace(/ on the command line$/, '');
    const reason = notice.slice(at + phrase.length).replace(/^[: ]+/, '');
    flagsByReason.set(reason, [...(flagsByReason.get(reason) ?? []), flag]);
  }
  const groups = [...flagsByReason].map(([reason, flags]) => `${flags.join(', ')} (${reason})`);
  const line = `${idle.length} flags have no effect: ${groups.join('; ')}`;
  const names = [...flagsByReason.values()].flat().join(', ');
  const short = `${idle.length} flags have no effect (${toldBy} prints why): ${names}`;
  const folded = toldBy === undefined || line.length <= mostColumns ? line : short;
  return [folded, ...notices.filter((notice) => !notice.includes(phrase))];
}
