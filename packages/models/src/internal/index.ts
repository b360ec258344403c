export { hasRotaryPositions, type YarnVariants } from '../blocks/position-variants.js';
export { llama3Scaling, rotarySpecification } from '../blocks/rotary-specification.js';
export { headSizeOf } from '../blocks/transformer-configuration.js';
export { yarnConcentration, yarnScaling } from '../blocks/yarn-scaling.js';
export { checkAdapterDropout } from '../experts/check-adapter-dropout.js';
