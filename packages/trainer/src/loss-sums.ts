import { UsageError } from '@mtl/errors';
import { weightedSum } from '@mtl/kernels';
import type { StageLoss } from '@mtl/pipeline';
import type { DeviceNumbers } from './device-numbers.js';
import type { LossKind } from './loss-kind.js';

/**
 * The losses that the stages of this rank make of micro-batches, of each the sum of loss times weight, in
 * double: left on the device until the caller reads.
 */
export class LossSums {
  readonly #names: readonly string[];
  readonly #numbers: DeviceNumbers;
  /** Which kind of which micro-batch each number is a part of. */
  readonly #places: { readonly kind: number; readonly microBatch: number }[] = [];

  /** @param numbers has these alone until the last `add` */
  constructor(kinds: ReadonlyArray<Pick<LossKind<never>, 'name'>>, numbers: DeviceNumbers) {
    this.#names = kinds.map(({ name }) => name);
    this.#numbers = numbers;
  }

  /** @throws UsageError `MTL_LOSS_KINDS` for a loss that is none of the training run's */
  add({ name, losses: values, weights }: StageLoss, microBatch: number): void {
    const kind = this.#names.indexOf(name);
    if (kind < 0) {
      throw new UsageError('MTL_LOSS_KINDS', `a stage makes the loss ${name}`, {
        expected: `the losses of the training run: ${this.#names.join(', ')}`,
        remedy: 'add it to the losses of the trainer',
      });
    }
    weightedSum({ output: this.#numbers.next(), values, weights });
    this.#places.push({ kind, microBatch });
  }

  /**
   * Of each kind, in their order, the sums of the micro-batches, in theirs, out of the numbers that were
   * read; none of a kind that no stage of this rank makes.
   */
  ofKinds(read: readonly number[], numMicroBatches: number): ReadonlyArray<readonly number[]> {
    return this.#names.map((_, kind) => {
      const own = this.#places.flatMap((place, index) => (place.kind === kind ? [{ ...place, index }] : []));
      if (own.length === 0) return [];
      const sums = new Array<number>(numMicroBatches).fill(0);
      for (const { microBatch, index } of own) sums[microBatch]! += read[index]!;
      return sums;
    });
  }
}
