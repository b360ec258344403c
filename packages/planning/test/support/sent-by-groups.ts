import type { DryRunRank } from '../../src/dry-run/dry-run-rank.js';

/**
 * The bytes of a dry run by the groups of a run, which serve several scopes where these have the same
 * members: `dp+ep`. What the run has no group for is left out.
 */
export function ofGroups(
  sent: DryRunRank['sentBytes'],
  groups: Readonly<Record<string, number>>,
): Record<string, number> {
  const bytesOf = new Map<string, number>(Object.entries(sent));
  return Object.fromEntries(
    Object.keys(groups).map((scopes) => [
      scopes,
      scopes.split('+').reduce((sum, scope) => sum + (bytesOf.get(scope) ?? 0), 0),
    ]),
  );
}
