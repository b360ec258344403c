import type { ParallelConfiguration, TrainingConfiguration } from '@mtl/configuration';
import type { Slice } from '@mtl/layout';
import { type EmbeddingAndHeadCost, partitionLayers, type TransformerConfiguration } from '@mtl/models';
import { type PipelineSchedule, simulateSchedule } from '@mtl/pipeline/schedules';

/**
 * The smallest gain to report, as a fraction of the step time. Smaller gains are within the error of the
 * predictions.
 */
const notable = 0.05;

interface BalanceAdviceOptions {
  readonly model: Pick<TransformerConfiguration, 'numLayers'>;
  /** The costs of embedding and head, in multiples of a layer's cost. */
  readonly work: EmbeddingAndHeadCost;
  readonly schedule: PipelineSchedule;
}

/**
 * Returns a message if, according to the simulator, balanced layers would make a step notably faster than
 * evenly split layers.
 */
export function balanceAdvice(
  configuration: {
    readonly parallel: Pick<ParallelConfiguration, 'layerLayout'>;
    readonly training: Pick<TrainingConfiguration, 'recompute'>;
  },
  { model, work, schedule }: BalanceAdviceOptions,
): string | undefined {
  const numChunks = schedule.placement.length;
  if (numChunks === 1 || configuration.parallel.layerLayout !== 'even') return undefined;
  const even = layersOfChunks(configuration, { model, work, numChunks });
  const balanced = partitionLayers({ numLayers: model.numLayers, numChunks, work, layout: 'balanced' });
  const recomputes = configuration.training.recompute.granularity === 'full';
  const [now, then] = [even, balanced].map((layers) =>
    stepTime(
      layers.map((slice) => computeCost(slice, work)),
      { schedule, work, recomputes },
    ),
  ) as [number, number];
  const gain = now / then - 1;
  if (gain < notable) return undefined;
  const counts = balanced.map(({ start, end }) => end - start).join(', ');
  const { layers = [] } = work;
  const differing =
    layers.length === 0
      ? ''
      : `, and layers are ${Math.min(...layers).toFixed(1)} to ${Math.max(...layers).toFixed(1)} times their mean`;
  return (
    `the head is as much work as ${work.head.toFixed(1)} layers${differing}: with --pipeline-model-parallel-layout balanced ` +
    `(${counts}) a step would be about ${Math.round(100 * gain)} % faster`
  );
}

interface StepOptions {
  readonly schedule: PipelineSchedule;
  readonly work: EmbeddingAndHeadCost;
  readonly recomputes: boolean;
}

/** Returns the cost of a chunk in multiples of a mean layer's cost. */
const computeCost = ({ start, end }: Slice, { layers }: EmbeddingAndHeadCost): number =>
  layers === undefined ? end - start : layers.slice(start, end).reduce((sum, cost) => sum + cost, 0);

/**
 * Returns the time of a step in which the chunks have the given costs, in multiples of a layer's forward
 * pass.
 */
function stepTime(costs: readonly number[], { schedule, work, recomputes }: StepOptions): number {
  const last = costs.length - 1;
  const layers = costs.map((cost, chunk) => cost + (chunk === 0 ? work.embedding : 0));
  // in the forward pass, the head computes no matmul; its logits are computed in the backward pass. In a
  // combined backward pass, the head has 3 matmuls. If the passes for input and weight gradients are
  // separate, each has 2 matmuls of the head, because each computes the logits
  const head = (matmuls: number) => (chunk: number) => (chunk === last ? matmuls * work.head : 0);
  const again = recomputes ? 1 : 0;
  const { makespan } = simulateSchedule({
    schedule,
    times: {
      forward: layers,
      backwardInput: layers.map((count, chunk) => (1 + again) * count + head(2)(chunk)),
      backwardWeight: layers.map((count, chunk) => count + head(2)(chunk)),
      backward: layers.map((count, chunk) => (2 + again) * count + head(3)(chunk)),
    },
  });
  return makespan;
}

/** Returns each chunk's range of layers, in the order of the model, as requested by the flags. */
export function layersOfChunks(
  { parallel }: { readonly parallel: Pick<ParallelConfiguration, 'layerLayout'> },
  options: {
    readonly model: Pick<TransformerConfiguration, 'numLayers'>;
    readonly work: EmbeddingAndHeadCost;
    readonly numChunks: number;
  },
): readonly Slice[] {
  const { model, work, numChunks } = options;
  return partitionLayers({ numLayers: model.numLayers, numChunks, layout: parallel.layerLayout, work });
}
