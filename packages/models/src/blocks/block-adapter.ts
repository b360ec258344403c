import type { LinearAdapter, Parameter } from '@mtl/autograd';
import type { LoraTarget } from './lora-specification.js';

/**
 * A low-rank adapter of a linear layer of a block. That of routed experts has factors for each of them: A
 * [E, r, I], B [E, ..., r].
 */
export interface BlockAdapter extends LinearAdapter {
  readonly target: LoraTarget;
  /** The weight of the layer. */
  readonly weight: Parameter;
}
