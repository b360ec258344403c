import { CheckpointError } from '@mtl/errors';

/** The error for a checkpoint of Megatron-LM that cannot be used. */
export function megatronError(
  path: string,
  problem: string,
  { expected, remedy }: { readonly expected?: string | undefined; readonly remedy?: string } = {},
): CheckpointError {
  return new CheckpointError('MTL_MEGATRON_CHECKPOINT', `${path}: ${problem}`, {
    ...(expected === undefined ? {} : { expected }),
    remedy: remedy ?? 'pass the directory that Megatron-LM saved to (its --save), complete and unchanged',
    exitCode: 2,
  });
}
