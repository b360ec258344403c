/** File that names the newest checkpoint of a directory, as Megatron-LM writes it. */
export const trackerName = 'latest_checkpointed_iteration.txt';

/**
 * States of a checkpoint directory that are not a checkpoint, by the end of the name: being saved, moved
 * aside while another of the same iteration takes its place, being deleted. A killed program leaves them
 * behind.
 */
export type UnfinishedKind = 'saving' | 'replaced' | 'deleting';

/** `iter_0000123`, as Megatron-LM names it. */
export function checkpointName(iteration: number): string {
  return `iter_${String(iteration).padStart(7, '0')}`;
}

/** `iter_0000123.saving` and so on. */
export function unfinishedName(iteration: number, kind: UnfinishedKind): string {
  return `${checkpointName(iteration)}.${kind}`;
}

/** What the name of a directory entry says, or undefined when it is not one of ours. */
export function parseCheckpointName(
  name: string,
): { readonly iteration: number; readonly kind: 'checkpoint' | UnfinishedKind } | undefined {
  const match = /^iter_(\d{7,15})(?:\.(saving|replaced|deleting))?$/.exec(name);
  if (match === null) return undefined;
  const iteration = Number(match[1]);
  const kind = (match[2] ?? 'checkpoint') as 'checkpoint' | UnfinishedKind;
  // One iteration has one name: iter_00000001 would shadow iter_0000001.
  return name.startsWith(checkpointName(iteration)) &&
    checkpointName(iteration).length === 5 + match[1]!.length
    ? { iteration, kind }
    : undefined;
}
