export { checkAdapterDropout } from '../blocks/lora.js';
export {
  llama3Scaling,
  rotarySpecification,
  yarnConcentration,
  yarnScaling,
} from '../blocks/rotary-positions.js';
export { hasRotaryPositions, headSizeOf, type YarnVariants } from '../blocks/transformer-configuration.js';
