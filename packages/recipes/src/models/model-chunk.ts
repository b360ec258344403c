import type { Parameter } from '@mtl/autograd';
import type { Stage } from '@mtl/pipeline';

/** A chunk of a model on a rank. */
export interface ModelChunk<Batch> extends Stage<Batch> {
  readonly parameters: readonly Parameter[];
  /** Gives back what passes share, between passes; parameters are their owner's. */
  dispose(): void;
}
