import type { Parameter } from '@mtl/autograd';
import { countElements } from '@mtl/kernels';
import type { BertModelConfiguration, BertTask } from './bert/bert-model.js';
import { BertStage } from './bert/bert-stage.js';
import { BertTaskStage } from './bert/bert-task-stage.js';
import type { LayerFactoryOptions } from './blocks/layer-sharding.js';
import { type MatmulCost, sumOfCosts } from './blocks/matmul-cost.js';
import type { GptModelConfiguration } from './gpt/gpt-model.js';
import { GptStage } from './gpt/gpt-stage.js';

/**
 * Returns all parameters of a GPT, including its adapters. The parameters have no storage, so no memory is
 * allocated.
 */
export const gptParameters = (
  model: GptModelConfiguration,
  layers: LayerFactoryOptions = {},
): readonly Parameter[] =>
  new GptStage({ ...layers, model, device: 'cpu', dtype: 'float32', seed: 0 }).parameters;

/** Returns the logical names of all parameters of a GPT on all ranks, including its adapters. */
export const gptParameterNames = (
  model: GptModelConfiguration,
  layers: LayerFactoryOptions = {},
): readonly string[] => gptParameters(model, layers).map(({ name }) => name);

/** Returns how many trained parameters a GPT has, including padded vocabulary entries. */
export const numParameters = (model: GptModelConfiguration): number =>
  gptParameters(model).reduce(
    (sum, { globalShape, isBuffer }) => sum + (isBuffer ? 0 : countElements(globalShape)),
    0,
  );

/**
 * Returns how many trained parameters of a GPT a token uses. Only k of each layer's routed experts count,
 * because a token uses k experts.
 */
export function numActiveParameters(model: GptModelConfiguration): number {
  const { numExperts, moeRouterTopk: topK = 2 } = model;
  if (numExperts === undefined) return numParameters(model);
  const ofExperts = gptParameters(model)
    .filter(({ placement }) => placement.view === 'expert')
    .reduce((sum, { globalShape }) => sum + countElements(globalShape), 0);
  return numParameters(model) - ofExperts * (1 - topK / numExperts);
}

/**
 * Returns how many matrix elements all layers of a GPT have, including all experts. The complete model is not
 * built, so this is fast for any size.
 */
export function numLayerWeights(model: GptModelConfiguration): number {
  const numWithExperts = numLayersWithExperts(model);
  const { numLayers, numExperts = 0 } = model;
  const countWeights = (layer: Partial<GptModelConfiguration>): number =>
    gptParameters({ ...model, ...layer, numLayers: 1, vocabularySize: 1, maxPositionEmbeddings: 1 })
      .filter(({ name, matrices }) => name.startsWith('decoder.layers.') && matrices.length > 0)
      .reduce((sum, { globalShape }) => sum + countElements(globalShape), 0);
  const dense = (numLayers - numWithExperts) * countWeights({ numExperts: undefined });
  if (numWithExperts === 0) return dense;
  // each expert adds the same number of weights, so two counts suffice for extrapolating linearly
  const [one, two] = [1, 2].map((count) =>
    countWeights({ numExperts: count, moeLayerFreq: 1, moeRouterTopk: 1, moeRouterNumGroups: undefined }),
  ) as [number, number];
  return dense + numWithExperts * (one + (numExperts - 1) * (two - one));
}

function numLayersWithExperts({ numLayers, numExperts, moeLayerFreq = 1 }: GptModelConfiguration): number {
  if (numExperts === undefined) return 0;
  if (typeof moeLayerFreq === 'number') return Math.ceil(numLayers / moeLayerFreq);
  return moeLayerFreq.filter((has) => has === 1).length;
}

/** Results by model. They are cached because a plan requests the same model many times. */
const known = new WeakMap<GptModelConfiguration, readonly MatmulCost[]>();

/** Returns the cost of the matmuls in each layer of a GPT. */
export function gptLayerMatmuls(model: GptModelConfiguration): readonly MatmulCost[] {
  const costs =
    known.get(model) ??
    new GptStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).blocks.map(({ matmuls }) => matmuls);
  known.set(model, costs);
  return costs;
}

/**
 * Returns the cost of the matmuls in all layers of a GPT. Routed experts count only as far as a token uses
 * them.
 */
export const gptMatmuls = (model: GptModelConfiguration): MatmulCost => sumOfCosts(gptLayerMatmuls(model));

/** Returns all parameters of a BERT. The parameters have no storage, so no memory is allocated. */
const bertParameters = (model: BertModelConfiguration): readonly Parameter[] =>
  new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).parameters;

/** Returns the logical names of all parameters of a BERT on all ranks. */
export const bertParameterNames = (model: BertModelConfiguration): readonly string[] =>
  bertParameters(model).map(({ name }) => name);

/**
 * Returns all parameters of a BERT for a fine-tuning task on all ranks, with the names and shapes of the
 * complete model.
 */
export function bertTaskParameters(
  model: BertModelConfiguration,
  task: BertTask,
): readonly Pick<Parameter, 'name' | 'globalShape'>[] {
  return new BertTaskStage({ model, task, device: 'cpu', dtype: 'float32', seed: 0 }).parameters;
}

/** Returns the cost of the matmuls in all layers of a BERT, excluding its heads. */
export const bertMatmuls = (model: BertModelConfiguration): MatmulCost =>
  new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).matmuls;

/**
 * Returns all parameters of a GPT (including its adapters) or of a BERT. The parameters have no storage, so
 * no memory is allocated.
 */
export const modelParameters = ({
  kind,
  model,
  ...layers
}: {
  readonly kind: 'gpt' | 'bert';
  readonly model: GptModelConfiguration | BertModelConfiguration;
} & LayerFactoryOptions): readonly Parameter[] =>
  kind === 'gpt'
    ? gptParameters(model as GptModelConfiguration, layers)
    : bertParameters(model as BertModelConfiguration);
