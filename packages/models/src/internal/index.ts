export { numBertParameters } from '../bert/bert-model.js';
export { checkAdapterDropout } from '../blocks/lora.js';
export { recomputableModules } from '../blocks/recomputation.js';
export {
  llama3Scaling,
  rotarySpecification,
  yarnConcentration,
  yarnScaling,
} from '../blocks/rotary-positions.js';
export {
  computeHeadSize,
  hasNormBiases,
  hasRotaryPositions,
  isRotatedLayer,
  numLearnedPositions,
  windowOfAllLayers,
  windowOfLayer,
  type YarnVariants,
} from '../blocks/transformer-configuration.js';
export { balancingLossNames } from '../experts/balancing-losses.js';
export { hasExperts, specifyExperts } from '../experts/experts-specification.js';
export {
  findDenseName,
  makeDenseModel,
  pickExpertVariants,
  upcycledTensors,
} from '../gpt/upcycled-tensors.js';
export {
  bertMatmuls,
  bertParameterNames,
  bertTaskParameters,
  gptMatmuls,
  gptParameterNames,
  gptParameters,
  modelParameters,
  numActiveParameters,
  numLayerWeights,
} from '../model-parameters.js';
export {
  bertEmbeddingAndHeadCost,
  bertTaskEmbeddingAndHeadCost,
} from '../partition/embedding-and-head-costs.js';
