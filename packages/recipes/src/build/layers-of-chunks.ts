import type { Slice } from '@mtl/autograd';
import { cutLayers, type GptModelConfiguration, gptEndsWork } from '@mtl/models';
import type { GptConfiguration } from '../gpt-configuration.js';

/** The layers of each chunk of a pipeline, in the order of the model, as the flags say. */
export function layersOfChunks(
  { parallel, model: { sequenceLength } }: Pick<GptConfiguration, 'parallel' | 'model'>,
  { model, numChunks }: { readonly model: GptModelConfiguration; readonly numChunks: number },
): readonly Slice[] {
  return cutLayers({
    ...{ numLayers: model.numLayers, numChunks },
    layout: parallel.layerLayout,
    work: gptEndsWork(model, sequenceLength),
  });
}
