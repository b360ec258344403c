/**
 * The skips of a test run that a list does not allow. A line of the list is the beginning of a test's file
 * and full name (`path: name`), then ` # ` and the reason; other lines are empty or comments.
 */
export function disallowedSkips(skipped, list) {
  const lines = list.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'));
  const allowed = lines.map((line) => {
    const [name, reason] = line.split(' # ');
    if (!reason?.trim()) throw new Error(`allowed skips: "${line}" gives no reason`);
    return name.trim();
  });
  return skipped.filter((name) => !allowed.some((beginning) => name.startsWith(beginning)));
}
