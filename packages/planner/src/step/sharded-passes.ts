import type { RankGroup } from '../operations/operation.js';
import { parameterCounts } from '../operations/parameter-counts.js';
import { collectiveSeconds } from '../timing/collective-seconds.js';
import { passSeconds } from '../timing/operations-seconds.js';
import { overlappedSeconds } from '../timing/overlapped-seconds.js';
import type { ChunkPasses } from './chunk-passes.js';
import { dataGroup } from './data-group.js';
import type { StepOptions } from './step-options.js';

/** Seconds by which the passes of a micro-batch on a chunk become longer. */
export interface ShardedPass {
  readonly forward: number;
  readonly backward: number;
}

/** Matrices of a layer, each of which is gathered by itself; what is smaller stays on all ranks. */
const matricesOfLayer = 4;

/**
 * What sharded parameters cost (ZeRO-3): forward and backward gather each layer, and backward scatters the
 * sum of its gradients, three times the parameters in all (Rajbhandari et al. 2020, section 7.2.2). The next
 * layer is gathered behind the computation of this one, so that a pass waits for what its computation does
 * not cover. Zero for programs whose ranks have all parameters.
 */
export function shardedPasses(options: StepOptions, chunks: readonly ChunkPasses[]): ShardedPass[] {
  const { model, layout, profile } = options;
  const { software } = profile;
  const group = dataGroup(options);
  if (software.shardsParameters !== true || group.size === 1) {
    return chunks.map(() => ({ forward: 0, backward: 0 }));
  }
  const counts = parameterCounts(model, layout.tensorParallelSize);
  const parts = (chunk: number): readonly SentPart[] => {
    const numLayers = model.numLayers / chunks.length;
    const isEnd = chunk === 0 || chunk === chunks.length - 1;
    return [
      { times: numLayers * matricesOfLayer, parameters: counts.layer / matricesOfLayer },
      ...(isEnd ? [{ times: 1, parameters: counts.table }] : []),
    ];
  };
  return chunks.map((passes, chunk) => {
    const gather = secondsOf(parts(chunk), { collective: 'all-gather', bytes: 2, group }, profile);
    const scatter = secondsOf(
      parts(chunk),
      { collective: 'reduce-scatter', bytes: software.gradientBytes, group },
      profile,
    );
    return {
      forward: overlappedSeconds(gather, { behind: passSeconds(passes.forward), profile }),
      backward: overlappedSeconds(gather + scatter, { behind: passSeconds(passes.backward), profile }),
    };
  });
}

interface SentPart {
  readonly times: number;
  readonly parameters: number;
}

/** Of collectives with so many `bytes` for each parameter. */
function secondsOf(
  parts: readonly SentPart[],
  { bytes, ...collective }: { collective: 'all-gather' | 'reduce-scatter'; bytes: number; group: RankGroup },
  profile: StepOptions['profile'],
): number {
  return parts.reduce(
    (sum, { times, parameters }) =>
      sum + times * collectiveSeconds({ ...collective, bytes: bytes * parameters }, profile),
    0,
  );
}
