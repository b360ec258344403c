import { parameterCounts } from '../operations/model-size.js';
import type { RankGroup } from '../operations/operation.js';
import { chooseLink, collectiveSeconds, overlappedSeconds } from '../timing/collective-seconds.js';
import { passSeconds } from '../timing/operations-seconds.js';
import type { ChunkPasses } from './chunk-passes.js';
import { dataGroup, type StepOptions } from './layout.js';

/**
 * Returns how long a message from one stage to the next takes, with the activations of a micro-batch or their
 * gradients. With scatter/gather (Narayanan et al. 2021, section 4.1), each tensor-parallel rank sends its
 * part, and the receivers gather the parts. With sequence parallelism, they need only their parts.
 */
export function messageSeconds({ model, layout, profile }: StepOptions): number {
  const { hardware, software } = profile;
  const { tp: t, pp: p, dp: d } = layout;
  if (p === 1) return 0;
  const isSplit = (layout.sequenceParallel ?? false) && t > 1;
  const bytes = 2 * model.sequenceLength * layout.microBatchSize * model.hiddenSize;
  const ownBytes = isSplit || software.scattersMessages ? bytes / t : bytes;
  const isInside = p * t * d <= hardware.gpusPerNode.value;
  const link = chooseLink(hardware, isInside);
  const sending = link.latencySeconds.value + ownBytes / (link.bytesPerSecond.value * link.efficiency.value);
  if (isSplit || !software.scattersMessages) return sending;
  const perNode = Math.min(t, hardware.gpusPerNode.value);
  const group = { axis: 'tp', size: t, perNode } as const;
  return sending + collectiveSeconds({ collective: 'all-gather', bytes, group }, profile);
}

/** Seconds that sharded parameters add to the forward and backward pass of a micro-batch on a chunk. */
interface ShardedPass {
  readonly forward: number;
  readonly backward: number;
}

/** How many matrices a layer has. Each is gathered separately; smaller tensors are replicated. */
const matricesOfLayer = 4;

/**
 * Returns the cost of sharded parameters (ZeRO-3). The forward and the backward pass gather each layer, and
 * the backward pass reduce-scatters its gradients. Together this transfers three times the size of the
 * parameters (Rajbhandari et al. 2020, section 7.2.2). The gather of the next layer overlaps with the
 * computation of the current layer, so that a pass waits only for the part that takes longer, and for the
 * part that the program never overlaps. The cost is zero for programs with replicated parameters.
 */
export function shardedPasses(options: StepOptions, chunks: readonly ChunkPasses[]): ShardedPass[] {
  const { model, layout, profile } = options;
  const { software } = profile;
  const group = dataGroup(options);
  if (software.shardsParameters !== true || group.size === 1) {
    return chunks.map(() => ({ forward: 0, backward: 0 }));
  }
  const { linkFactor = { value: 1 }, overlap = { value: 1 } } = software.shardedParameters ?? {};
  const exposed = (seconds: number, behind: number): number => {
    const all = seconds / linkFactor.value;
    const hidden = overlap.value * all;
    return all - hidden + overlappedSeconds(hidden, { behind, profile });
  };
  const counts = parameterCounts(model, layout.tp);
  const parts = (chunk: number): readonly SentParameters[] => {
    const numLayers = model.numLayers / chunks.length;
    const isEnd = chunk === 0 || chunk === chunks.length - 1;
    return [
      { times: numLayers * matricesOfLayer, parameters: counts.layer / matricesOfLayer },
      ...(isEnd ? [{ times: 1, parameters: counts.table }] : []),
    ];
  };
  return chunks.map((passes, chunk) => {
    const gather = sumSeconds(parts(chunk), { collective: 'all-gather', bytes: 2, group }, profile);
    const scatter = sumSeconds(
      parts(chunk),
      { collective: 'reduce-scatter', bytes: software.gradientBytes, group },
      profile,
    );
    return {
      forward: exposed(gather, passSeconds(passes.forward)),
      backward: exposed(gather + scatter, passSeconds(passes.backward)),
    };
  });
}

interface SentParameters {
  readonly times: number;
  readonly parameters: number;
}

/** Returns the seconds of collectives that transfer `bytes` for each parameter. */
function sumSeconds(
  parts: readonly SentParameters[],
  { bytes, ...collective }: { collective: 'all-gather' | 'reduce-scatter'; bytes: number; group: RankGroup },
  profile: StepOptions['profile'],
): number {
  return parts.reduce(
    (sum, { times, parameters }) =>
      sum + times * collectiveSeconds({ ...collective, bytes: bytes * parameters }, profile),
    0,
  );
}
