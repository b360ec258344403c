import type { ParallelConfiguration } from '@mtl/configuration';
import type { Slice } from '@mtl/kernels';
import { type EmbeddingAndHeadCost, partitionLayers, type TransformerConfiguration } from '@mtl/models';

/** The layers of each chunk of a pipeline, in the order of the model, as the flags say. */
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
