import type { DryRunRank } from '../../src/dry-run/dry-run-rank.js';

/**
 * Returns the bytes of a dry run by the groups of a run. A group serves several scopes if these have the same
 * members: `dp+ep`. Scopes without a group in the run are left out.
 */
export function ofGroups(
  sent: DryRunRank['sentBytes'],
  groups: Readonly<Record<string, number>>,
): Record<string, number> {
  const bytesByGroup = new Map<string, number>(Object.entries(sent));
  return Object.fromEntries(
    Object.keys(groups).map((scopes) => [
      scopes,
      scopes.split('+').reduce((sum, scope) => sum + (bytesByGroup.get(scope) ?? 0), 0),
    ]),
  );
}
