import type { ProcessGroup } from '@mtl/comm';
import { ConfigurationError, UsageError } from '@mtl/errors';
import { type Device, Tensor } from '@mtl/kernels';
import type { Stage } from '../stage.js';

interface AgreeOnPlacementOptions {
  readonly stages: ReadonlyMap<number, Pick<Stage<never>, 'isFirst' | 'isLast'>>;
  readonly group: ProcessGroup | undefined;
  readonly device: Device;
}

/**
 * Returns the rank of each chunk, in the order of the model, from the chunks that each rank holds. All ranks
 * of the group call it.
 *
 * @throws UsageError `MTL_STAGE` for a chunk that is first or last in the wrong place
 * @throws ConfigurationError `MTL_PIPELINE_STAGES`, on all ranks, unless every chunk is on exactly one
 */
export function agreeOnPlacement({ stages, group, device }: AgreeOnPlacementOptions): readonly number[] {
  const chunks = [...stages.keys()];
  for (const chunk of chunks) {
    if (Number.isSafeInteger(chunk) && chunk >= 0) continue;
    throw new UsageError('MTL_STAGE', `unknown chunk ${chunk}`, { expected: 'chunks counted from 0' });
  }
  const combined = (values: readonly number[], operation: 'sum' | 'max'): number[] => {
    const tensor = Tensor.from(values, { shape: [values.length], dtype: 'int32', device });
    try {
      group?.allReduce(tensor, { operation }).wait();
      return tensor.toArray();
    } finally {
      tensor.dispose();
    }
  };
  const numChunks = combined([Math.max(0, ...chunks.map((chunk) => chunk + 1))], 'max')[0]!;
  const every = Array.from({ length: numChunks }, (_, chunk) => chunk);
  const rank = group?.rank ?? 0;
  const held = combined([...every.map((chunk) => (stages.has(chunk) ? 1 : 0)), 0], 'sum');
  const ranks = combined([...every.map((chunk) => (stages.has(chunk) ? rank : 0)), 0], 'sum');
  const wrong = every.find((chunk) => held[chunk] !== 1);
  if (wrong !== undefined || numChunks === 0) {
    const what = wrong === undefined ? 'no chunk' : `chunk ${wrong} of ${numChunks} on ${held[wrong]} ranks`;
    throw new ConfigurationError('MTL_PIPELINE_STAGES', `a pipeline with ${what}`, {
      expected: 'every chunk of the model on exactly one rank',
      details: { chunk: wrong, numChunks },
    });
  }
  for (const [chunk, { isFirst, isLast }] of stages) {
    if (isFirst === (chunk === 0) && isLast === (chunk === numChunks - 1)) continue;
    const claims = [isFirst ? 'the first' : '', isLast ? 'the last' : ''].filter((claim) => claim !== '');
    throw new UsageError(
      'MTL_STAGE',
      `chunk ${chunk} of ${numChunks} says that it is ${claims.join(' and ') || 'neither first nor last'}`,
      { expected: `chunk 0 to be the first, chunk ${numChunks - 1} the last` },
    );
  }
  return ranks.slice(0, numChunks);
}
