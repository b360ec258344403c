import { ConfigurationError } from '@mtl/errors';
import type { Recomputation } from '@mtl/models';
import type { ModelConfiguration, ParallelConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';

export interface RecomputeConfigurationOptions {
  readonly flags: FlagReader;
  readonly model: Pick<ModelConfiguration, 'numLayers'>;
  readonly parallel: LayersOfChunks;
}

type LayersOfChunks = Pick<
  ParallelConfiguration,
  'layerLayout' | 'pipelineModelParallelSize' | 'numVirtualStages'
>;

/**
 * Which activations are computed again in the backward pass, by the flags of a pretraining or a fine-tuning.
 *
 * @throws ConfigurationError `MTL_RECOMPUTE`, `MTL_FLAG_NEEDS`
 */
export function recomputeConfiguration(options: RecomputeConfigurationOptions): Recomputation {
  const { flags, model, parallel } = options;
  const granularity = flags.get('recompute-granularity');
  const modules = flags.get('recompute-modules');
  const needsChoice = modules?.some((name) => name !== 'core_attn' && name !== 'moe_act') === true;
  if (needsChoice && granularity !== 'selective') {
    flags.needs('recompute-modules', '--recompute-granularity selective', 'names parts of layers');
  }
  const details = (['recompute-method', 'recompute-num-layers'] as const).filter(
    (name) => flags.get(name) !== undefined,
  );
  if (granularity !== 'full') {
    const [detail] = details;
    if (detail !== undefined) {
      flags.needs(detail, '--recompute-granularity full', 'sets how whole layers are recomputed');
    }
    if (granularity !== 'selective') return { granularity: 'none' };
    return { granularity, ...(modules !== undefined && { modules }) };
  }
  const method = flags.get('recompute-method');
  if (method === undefined) {
    return flags.needs(
      'recompute-granularity',
      '--recompute-method uniform or block',
      'does not say which layers',
    );
  }
  const numLayers = flags.get('recompute-num-layers') ?? 1;
  const layersPerChunk = mostLayersOfChunk(model, parallel);
  if (numLayers > layersPerChunk) {
    throw new ConfigurationError(
      'MTL_RECOMPUTE',
      `${flags.written('recompute-num-layers')} is more than the ${layersPerChunk} layers of a chunk`,
      { expected: `1 to ${layersPerChunk}`, remedy: `pass --recompute-num-layers ${layersPerChunk}` },
    );
  }
  return { granularity, method, numLayers };
}

/** The most layers of a chunk: a balanced layout is known only with the vocabulary. */
function mostLayersOfChunk(
  { numLayers }: Pick<ModelConfiguration, 'numLayers'>,
  { layerLayout, pipelineModelParallelSize, numVirtualStages }: LayersOfChunks,
): number {
  if (typeof layerLayout !== 'string') return Math.max(...layerLayout);
  const numChunks = pipelineModelParallelSize * numVirtualStages;
  return layerLayout === 'even' ? numLayers / numChunks : Math.max(1, numLayers - numChunks + 1);
}
