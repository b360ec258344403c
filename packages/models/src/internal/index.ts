export { numBertParameters } from '../bert/bert-model.js';
export { checkAdapterDropout } from '../blocks/lora.js';
export { rotarySpecification } from '../blocks/rotary-positions.js';
export { windowOfAllLayers } from '../blocks/transformer-configuration.js';
export { balancingLossNames } from '../experts/balancing-losses.js';
export { specifyExperts } from '../experts/experts-specification.js';
export { bertParameterNames, gptParameterNames, numLayerWeights } from '../model-parameters.js';
