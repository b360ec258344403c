import { UsageError } from '@mtl/errors';
import type { StageLoss } from '@mtl/pipeline';
import type { LossKind } from './loss-kind.js';

/** The losses of micro-batches, of each kind the sum of loss times weight: in double and in order. */
export class LossSums {
  /** Of each kind, in their order, the sums of the micro-batches that were added. */
  readonly ofKinds: ReadonlyArray<readonly number[]>;
  readonly #sums: number[][];
  readonly #names: readonly string[];

  constructor(kinds: ReadonlyArray<Pick<LossKind<never>, 'name'>>) {
    this.#names = kinds.map(({ name }) => name);
    this.#sums = kinds.map(() => []);
    this.ofKinds = this.#sums;
  }

  /** @throws UsageError `MTL_LOSS_KINDS` unless the loss has exactly the kinds that the training knows */
  add(loss: StageLoss): void {
    const [values, factors] = [loss.losses.read<'float32'>(), loss.weights.read<'float32'>()];
    this.#rangesOf(loss).forEach(({ start, end }, kind) => {
      let sum = 0;
      for (let index = start; index < end; index++) sum += values[index]! * factors[index]!;
      this.#sums[kind]!.push(sum);
    });
  }

  #rangesOf({ losses, parts }: StageLoss): ReadonlyArray<{ readonly start: number; readonly end: number }> {
    if (parts === undefined && this.#names.length === 1) return [{ start: 0, end: losses.size }];
    const ranges = this.#names.map((name) => parts?.find((part) => part.name === name));
    const known = ranges.filter((range) => range !== undefined);
    if (known.length === ranges.length && known.length === parts?.length) return known;
    const has = parts === undefined ? 'no parts' : `the parts ${parts.map(({ name }) => name).join(', ')}`;
    throw new UsageError('MTL_LOSS_KINDS', `the loss of a micro-batch has ${has}`, {
      expected: `those of the training's losses: ${this.#names.join(', ')}`,
    });
  }
}
