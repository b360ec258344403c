import { UsageError } from '@mtl/errors';
import { weightedSum } from '@mtl/kernels';
import type { StageLoss } from '@mtl/pipeline';
import type { DeviceNumbers } from './device-numbers.js';
import type { LossKind } from './loss-kind.js';

/**
 * The losses of micro-batches, of each kind the sum of loss times weight, in double: left on the device until
 * the caller reads.
 */
export class LossSums {
  readonly #names: readonly string[];
  readonly #numbers: DeviceNumbers;

  /** Takes a place in `numbers` for each kind of each micro-batch. */
  constructor(kinds: ReadonlyArray<Pick<LossKind<never>, 'name'>>, numbers: DeviceNumbers) {
    this.#names = kinds.map(({ name }) => name);
    this.#numbers = numbers;
  }

  /** @throws UsageError `MTL_LOSS_KINDS` unless the loss has exactly the kinds of the training run */
  add(loss: StageLoss): void {
    for (const { start, end } of this.#rangesOf(loss)) {
      using values = loss.losses.view({ offset: start, shape: [end - start] });
      using weights = loss.weights.view({ offset: start, shape: [end - start] });
      weightedSum({ output: this.#numbers.next(), values, weights });
    }
  }

  /**
   * Of each kind, in their order, the sums of the micro-batches that were added, out of the numbers that were
   * read.
   */
  ofKinds(read: readonly number[]): ReadonlyArray<readonly number[]> {
    return this.#names.map((_, kind) => read.filter((_, index) => index % this.#names.length === kind));
  }

  #rangesOf({ losses, parts }: StageLoss): ReadonlyArray<{ readonly start: number; readonly end: number }> {
    if (parts === undefined && this.#names.length === 1) return [{ start: 0, end: losses.size }];
    const ranges = this.#names.map((name) => parts?.find((part) => part.name === name));
    const known = ranges.filter((range) => range !== undefined);
    if (known.length === ranges.length && known.length === parts?.length) return known;
    const has = parts === undefined ? 'no parts' : `the parts ${parts.map(({ name }) => name).join(', ')}`;
    throw new UsageError('MTL_LOSS_KINDS', `the loss of a micro-batch has ${has}`, {
      expected: `the losses of the training run: ${this.#names.join(', ')}`,
    });
  }
}
