export {
  type AttentionBackwardOptions,
  type AttentionCachedForwardOptions,
  type AttentionDropout,
  type AttentionForwardOptions,
  type AttentionOptions,
  attentionBackward,
  attentionCachedForward,
  attentionForward,
} from './attention.js';
export {
  type BiasGeluBackwardOptions,
  type BiasGeluForwardOptions,
  biasGeluBackward,
  biasGeluForward,
  type GeluKind,
} from './bias-gelu.js';
export { type MatmulOptions, matmul } from './matmul.js';
