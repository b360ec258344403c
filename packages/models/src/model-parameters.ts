import type { Parameter } from '@mtl/autograd';
import { countElements } from '@mtl/kernels';
import type { BertModelConfiguration, BertTask } from './bert/bert-model.js';
import { BertStage } from './bert/bert-stage.js';
import { BertTaskStage } from './bert/bert-task-stage.js';
import type { LayerFactoryOptions } from './blocks/layer-sharding.js';
import { type MatmulCost, sumOfCosts } from './blocks/matmul-cost.js';
import type { GptModelConfiguration } from './gpt/gpt-model.js';
import { GptStage } from './gpt/gpt-stage.js';

/** Returns all parameters of a GPT, adapters included. They have no storage, so this takes no memory. */
export const gptParameters = (
  model: GptModelConfiguration,
  layers: LayerFactoryOptions = {},
): readonly Parameter[] =>
  new GptStage({ ...layers, model, device: 'cpu', dtype: 'float32', seed: 0 }).parameters;

/** Returns the logical names of all parameters of a GPT, adapters included, of all ranks together. */
export const gptParameterNames = (
  model: GptModelConfiguration,
  layers: LayerFactoryOptions = {},
): readonly string[] => gptParameters(model, layers).map(({ name }) => name);

/** Returns the number of trained parameters of a GPT, the padded vocabulary included. */
export const numParameters = (model: GptModelConfiguration): number =>
  gptParameters(model).reduce(
    (sum, { globalShape, isBuffer }) => sum + (isBuffer ? 0 : countElements(globalShape)),
    0,
  );

/**
 * Returns the number of trained parameters of a GPT that a token uses: it counts only the routed experts that
 * a token is sent to.
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
 * Returns the number of elements of all layers' matrices in a GPT, all experts included. It allocates nothing
 * of the model's size, so any size works.
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
  // each expert adds the same number
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

/** Results by model: plans ask many times for the same model. */
const known = new WeakMap<GptModelConfiguration, readonly MatmulCost[]>();

/** Returns the cost of the matmuls of each layer of a GPT, which its blocks state. */
export function gptLayerMatmuls(model: GptModelConfiguration): readonly MatmulCost[] {
  const costs =
    known.get(model) ??
    new GptStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).blocks.map(({ matmuls }) => matmuls);
  known.set(model, costs);
  return costs;
}

/** Returns the cost of the matmuls of all layers of a GPT; it counts only the experts that a token uses. */
export const gptMatmuls = (model: GptModelConfiguration): MatmulCost => sumOfCosts(gptLayerMatmuls(model));

/** Returns all parameters of a BERT. They have no storage, so this takes no memory. */
const bertParameters = (model: BertModelConfiguration): readonly Parameter[] =>
  new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).parameters;

/** Returns the logical names of all parameters of a BERT, of all ranks together. */
export const bertParameterNames = (model: BertModelConfiguration): readonly string[] =>
  bertParameters(model).map(({ name }) => name);

/**
 * Returns all parameters of a BERT for a task, of all ranks together: names and shapes of the complete model.
 */
export function bertTaskParameters(
  model: BertModelConfiguration,
  task: BertTask,
): readonly Pick<Parameter, 'name' | 'globalShape'>[] {
  return new BertTaskStage({ model, task, device: 'cpu', dtype: 'float32', seed: 0 }).parameters;
}

/** Returns the cost of the matmuls of all layers of a BERT, without its heads. */
export const bertMatmuls = (model: BertModelConfiguration): MatmulCost =>
  new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 0 }).matmuls;

/**
 * Returns all parameters of a GPT, adapters included, or of a BERT. They have no storage, so this takes no
 * memory.
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
