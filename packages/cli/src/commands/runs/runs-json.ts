import type { RunInformation } from '@mtl/runs';

/** A run as --json prints it. */
export function runJson({ name, directory, state, step, validation, bytes, record }: RunInformation) {
  const starts = record?.starts ?? [];
  return {
    name,
    directory,
    state,
    bytes,
    iteration: step?.iteration ?? 0,
    trainIterations: starts.at(-1)?.trainIterations ?? null,
    loss: step?.lm_loss ?? null,
    validationLoss: validation?.lm_loss ?? null,
    validationIteration: validation?.iteration ?? null,
    starts,
  };
}
