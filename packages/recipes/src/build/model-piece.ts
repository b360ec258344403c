import type { Parameter } from '@mtl/autograd';
import type { Stage } from '@mtl/pipeline';

/** A piece of a model on a rank. */
export interface ModelPiece<Batch> extends Stage<Batch> {
  readonly parameters: readonly Parameter[];
}
