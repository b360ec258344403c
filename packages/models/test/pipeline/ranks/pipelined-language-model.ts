import { allocateParameters, initializeParameter } from '@mtl/autograd';
import type { World } from '@mtl/comm';
import { setNumThreads } from '@mtl/kernels';
import { setPoison } from '@mtl/kernels/internal';
import { ProcessMesh } from '@mtl/layout';
import { buildGptStages, type GptModelConfiguration, partitionLayers } from '../../../src/index.js';
import { type LanguageModelResult, useLanguageModel } from '../../tensor-parallel/language-model.js';
import { smallGpt } from '../../tensor-parallel/small-gpt.js';

export interface PipelinedLanguageModel {
  readonly numLayers: number;
  /** The pipeline rank of each chunk. */
  readonly placement: readonly number[];
  readonly tp: number;
  readonly seed: number;
  /** The properties in which the model differs from `smallGpt`. */
  readonly variants: Partial<GptModelConfiguration>;
}

/** Generates and scores with a model whose stages are on the ranks of a pipeline. */
export default function pipelinedLanguageModel(
  world: World,
  { numLayers, placement, tp, seed, variants }: PipelinedLanguageModel,
): LanguageModelResult {
  setNumThreads(1);
  setPoison(true);
  const mesh = new ProcessMesh({ tp, pp: world.size / tp });
  const group = world.createGroup({ name: 'pp', ranks: mesh.groupOf(world.rank, ['pp']) });
  const tensorGroup = world.createGroup({ name: 'tp', ranks: mesh.groupOf(world.rank, ['tp']) });
  const model = { ...smallGpt, numLayers, ...variants };
  const layers = partitionLayers({
    numLayers,
    numChunks: placement.length,
    layout: 'balanced',
    work: { embedding: 0, head: 1 },
  });
  const { stages, parameters } = buildGptStages({
    model,
    device: 'cpu',
    dtype: 'float32',
    seed,
    layers,
    placement,
    rank: group.rank,
    tensorParallel: { group: tensorGroup, sequenceParallel: false },
  });
  const storage = allocateParameters(parameters, { device: 'cpu', dtype: 'float32' });
  for (const parameter of parameters) initializeParameter(parameter, parameter.data, seed);
  const result = useLanguageModel({ stages, placement, group });
  storage.dispose();
  return result;
}
