import { collectiveSeconds } from '../timing/collective-seconds.js';
import { linkOf } from '../timing/link-of.js';
import type { StepOptions } from './step-options.js';

/**
 * Time of the activations, or their gradients, of a micro-batch from one stage to the next. With
 * scatter/gather (Narayanan et al. 2021, section 4.1) each tensor-parallel rank sends its part, and the
 * receivers gather them; with sequence parallelism the parts are what they work on.
 */
export function messageSeconds({ model, layout, profile }: StepOptions): number {
  const { hardware, software } = profile;
  const { tensorParallelSize: t, pipelineParallelSize: p, dataParallelSize: d } = layout;
  if (p === 1) return 0;
  const isSplit = (layout.sequenceParallel ?? false) && t > 1;
  const bytes = 2 * model.sequenceLength * layout.microBatchSize * model.hiddenSize;
  const ownBytes = isSplit || software.scattersMessages ? bytes / t : bytes;
  const isInside = p * t * d <= hardware.gpusPerNode.value;
  const link = linkOf(hardware, isInside);
  const sending = link.latencySeconds.value + ownBytes / (link.bytesPerSecond.value * link.efficiency.value);
  if (isSplit || !software.scattersMessages) return sending;
  const perNode = Math.min(t, hardware.gpusPerNode.value);
  const group = { axis: 'tensor', size: t, perNode } as const;
  return sending + collectiveSeconds({ collective: 'all-gather', bytes, group }, profile);
}
