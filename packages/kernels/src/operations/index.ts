export {
  type BiasGeluBackwardOptions,
  type BiasGeluForwardOptions,
  biasGeluBackward,
  biasGeluForward,
  type GeluKind,
} from './bias-gelu.js';
export { type MatmulOptions, matmul } from './matmul.js';
