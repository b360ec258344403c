import type { Parameter } from '@mtl/autograd';
import type { ExpertLoad } from '@mtl/models';
import type { Stage } from '@mtl/pipeline';

/** A chunk of a model on a rank. */
export interface ModelChunk<Batch> extends Stage<Batch> {
  readonly parameters: readonly Parameter[];
  /** The rows that the experts of its layers get; absent: it has no experts. */
  readonly expertLoads?: readonly ExpertLoad[];
  /** Gives back what passes share, between passes; parameters are their owner's. */
  dispose(): void;
}
