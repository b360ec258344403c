import { sizeOf } from '@mtl/kernels';
import type { GptModelConfiguration } from './gpt-model-configuration.js';
import { gptParameters } from './gpt-parameters.js';

/** Trained parameters, the padded vocabulary included. */
export const numParameters = (model: GptModelConfiguration): number =>
  gptParameters(model).reduce(
    (sum, { globalShape, isBuffer }) => sum + (isBuffer ? 0 : sizeOf(globalShape)),
    0,
  );

/**
 * Of the trained parameters those that a token uses: of the routed experts of a layer as many as it is sent
 * to.
 */
export function numActiveParameters(model: GptModelConfiguration): number {
  const { numExperts, moeRouterTopk: topK = 2 } = model;
  if (numExperts === undefined) return numParameters(model);
  const ofExperts = gptParameters(model)
    .filter(({ placement }) => placement.view === 'expert')
    .reduce((sum, { globalShape }) => sum + sizeOf(globalShape), 0);
  return numParameters(model) - ofExperts * (1 - topK / numExperts);
}

/**
 * Elements of the matrices of all layers that a model holds, those of all experts included. Of any sizes: it
 * makes nothing as large as they are.
 */
export function numLayerWeights(model: GptModelConfiguration): number {
  const numWithExperts = numLayersWithExperts(model);
  const { numLayers, numExperts = 0 } = model;
  const weightsOf = (layer: Partial<GptModelConfiguration>): number =>
    gptParameters({ ...model, ...layer, numLayers: 1, vocabularySize: 1, maxPositionEmbeddings: 1 })
      .filter(({ name, matrices }) => name.startsWith('decoder.layers.') && matrices.length > 0)
      .reduce((sum, { globalShape }) => sum + sizeOf(globalShape), 0);
  const dense = (numLayers - numWithExperts) * weightsOf({ numExperts: undefined });
  if (numWithExperts === 0) return dense;
  // what an expert adds is the same for all
  const [one, two] = [1, 2].map((count) =>
    weightsOf({ numExperts: count, moeLayerFreq: 1, moeRouterTopk: 1, moeRouterNumGroups: undefined }),
  ) as [number, number];
  return dense + numWithExperts * (one + (numExperts - 1) * (two - one));
}

function numLayersWithExperts({ numLayers, numExperts, moeLayerFreq = 1 }: GptModelConfiguration): number {
  if (numExperts === undefined) return 0;
  if (typeof moeLayerFreq === 'number') return Math.ceil(numLayers / moeLayerFreq);
  return moeLayerFreq.filter((has) => has === 1).length;
}
