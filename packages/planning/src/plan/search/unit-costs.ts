import { type CollectiveOperation, collectiveSeconds, type Profile, type RankGroup } from '@mtl/cost-model';
import { overlappedSeconds } from '@mtl/cost-model/internal';
import type { TrainingState } from '@mtl/optimizer';
import type { PartCost } from './recorded-parts.js';

/** The groups over which a layout shards states, for the parameters of dense layers and of experts. */
export interface ReplicaGroups {
  readonly dense: RankGroup;
  readonly expert: RankGroup;
}

interface UnitCostsOptions {
  /** The states that the store divides. */
  readonly divides: readonly TrainingState[];
  readonly groups: ReplicaGroups;
  readonly profile: Profile;
}

/**
 * The costs of a store that communicates units in every micro-batch, for parts whose recordings keep all
 * states. Each layer is a unit. The parameters before and after the layers form a further unit, the root,
 * whose values stay present during a step (see `UnitValues` and `UnitGradients` in @mtl/optimizer).
 */
export class UnitCosts {
  readonly #gathers: boolean;
  readonly #reduces: boolean;
  readonly #options: UnitCostsOptions;

  constructor(options: UnitCostsOptions) {
    this.#options = options;
    this.#gathers = options.divides.includes('parameters');
    this.#reduces = options.divides.includes('gradients');
  }

  /**
   * Returns the cost of `layer` with the communication of one micro-batch added to its passes, as far as it
   * does not overlap with computation.
   */
  withLayer(layer: PartCost): PartCost {
    const gather = this.#gathers ? this.#gatherSeconds(layer) : 0;
    return this.#withCommunication(layer, { gather, reduce: this.#reduceSeconds(layer) });
  }

  /** Returns the cost of embedding or head with the reduction of one micro-batch added to its passes. */
  withRoot(root: PartCost): PartCost {
    return this.#withCommunication(root, { gather: 0, reduce: this.#reduceSeconds(root) });
  }

  /**
   * Adds the gathers for passes that begin with a different chunk than the previous pass, as happens with
   * several chunks on a rank. The gather of the first layer overlaps with nothing, and the layer that was
   * gathered in advance at the end of the previous pass is the wrong layer.
   */
  withChange(chunk: PartCost, layer: PartCost): PartCost {
    const gather = this.#gathers ? this.#gatherSeconds(layer) : 0;
    const more = gather + overlappedSeconds(gather, { behind: gather, profile: this.#options.profile });
    return {
      ...chunk,
      forward: chunk.forward + more,
      backward: chunk.backward + more,
      backwardInput: chunk.backwardInput + more,
      backwardWeight: chunk.backwardWeight + more,
    };
  }

  /**
   * Returns the seconds of communication at the beginning and end of a step that overlap with no computation:
   * the gathers of the first micro-batch, whose values an update has just changed, and the reduction that the
   * last pass starts.
   */
  endSeconds({ layer, root, last }: { layer: PartCost; root: PartCost; last: PartCost }): number {
    const gathers = this.#gathers ? this.#gatherSeconds(root) + 2 * this.#gatherSeconds(layer) : 0;
    return gathers + this.#reduceSeconds(last);
  }

  /**
   * Returns the bytes of gathered values and of gradients before their reduction. The values of two layers
   * and of the root are present. In the backward pass of a layer, the gradients of this layer and of the
   * layer before it are present, and `tied` bytes for an embedding that the head also uses. The activations
   * of one layer are then already freed. The reduction of the root may end only after the head's pass of the
   * next micro-batch.
   */
  temporaryBytes({
    layer,
    root,
    tied,
    hasPrevious,
  }: {
    readonly layer: PartCost;
    readonly root: PartCost;
    readonly tied: number;
    readonly hasPrevious: boolean;
  }): number {
    const values = this.#gathers ? root.parameters + 2 * layer.parameters : 0;
    if (!this.#reduces) return values;
    const inLayer = tied + 2 * layer.gradients - Math.min(layer.gradients, layer.kept);
    return values + Math.max(inLayer, root.gradients + (hasPrevious ? tied : 0));
  }

  #withCommunication(part: PartCost, { gather, reduce }: { gather: number; reduce: number }): PartCost {
    const { profile } = this.#options;
    const hidden = (seconds: number, behind: number): number =>
      behind + overlappedSeconds(seconds, { behind, profile });
    return {
      ...part,
      forward: hidden(gather, part.forward),
      backward: hidden(gather + reduce, part.backward),
      // each half of a split backward pass gathers, and the weight half completes the gradients
      backwardInput: hidden(gather, part.backwardInput),
      backwardWeight: hidden(gather + reduce, part.backwardWeight),
    };
  }

  #gatherSeconds(part: PartCost): number {
    return this.#seconds('all-gather', part, part.parameters);
  }

  #reduceSeconds(part: PartCost): number {
    return this.#reduces ? this.#seconds('reduce-scatter', part, part.gradients) : 0;
  }

  #seconds(
    collective: CollectiveOperation['collective'],
    { expertGradients, gradients }: PartCost,
    bytes: number,
  ): number {
    const { groups, profile } = this.#options;
    const ofExperts = gradients === 0 ? 0 : expertGradients / gradients;
    const seconds = (share: number, group: RankGroup): number =>
      share === 0 ? 0 : collectiveSeconds({ collective, bytes: share * bytes, group }, profile);
    return seconds(1 - ofExperts, groups.dense) + seconds(ofExperts, groups.expert);
  }
}
