import type { LinearAdapter, Parameter } from '@mtl/autograd';
import type { LoraTarget } from './lora-specification.js';

/** A low-rank adapter of a linear layer of a block. */
export interface BlockAdapter extends LinearAdapter {
  readonly target: LoraTarget;
  /** The weight of the layer. */
  readonly weight: Parameter;
}
