import { TrainingError, UsageError } from '@mtl/errors';
import { weightedSum } from '@mtl/kernels';
import type { StageLoss } from '@mtl/pipeline';
import type { ValidationLoss } from '../metrics/training-reports.js';
import type { DeviceNumbers } from './device-numbers.js';
import type { Ranks } from './ranks.js';

/**
 * A kind of loss. The total is the sum of all kinds, each its weight times a mean over what counts of it in
 * the global batch, however that is split. Any stage of a pipeline may make it, and several may.
 */
export interface LossKind<Batch> {
  /**
   * Its name in metrics.jsonl, and that of the losses of stages (`StageLoss`). The one called `lm_loss` is
   * the loss of the language model, which reports lead with.
   */
  readonly name: string;
  /** The unit that it is a mean over, in the singular: `token`, `sample`, `sentence`. */
  readonly per: string;
  /** Returns the number of units that count in a micro-batch; the last stage of a pipeline is asked. */
  count(batch: Batch): number;
  /** Its weight in the sum. Default 1. Metrics report the mean without it. */
  readonly weight?: number | undefined;
  /**
   * True if it only adds gradients, such as the balance of a router: it is reported by its name, and is not
   * part of the reported total. Layers make it of whole sequences, so that ranks that share a sequence have
   * the same; of another loss each has the part of its positions. Default: false.
   */
  readonly isAuxiliary?: boolean | undefined;
}

/**
 * The losses that the stages of this rank make of micro-batches, of each the sum of loss times weight, in
 * double: left on the device until the caller reads.
 */
export class LossSums {
  readonly #names: readonly string[];
  readonly #numbers: DeviceNumbers;
  /** The kind and the micro-batch that each number is a part of. */
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
   * Returns the sums of the micro-batches, in their order, for each kind, in theirs, out of the numbers that
   * were read; none for a kind that no stage of this rank makes.
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

interface LossTotalsOptions<Batch> {
  readonly losses: readonly LossKind<Batch>[];
  /** Losses that are made by stages of ranks that do not take part. */
  readonly lossesOfAbsentRanks?: readonly string[] | undefined;
  readonly ranks: Pick<Ranks, 'shareOfBatch' | 'isFirstOfStage' | 'isFirstOfSequence'>;
  /** True if this rank has the last stage of the pipeline, which knows what counts in losses. */
  readonly isLastStage: boolean;
}

/** The sum in the order given, so that it does not depend on how micro-batches were shared out. */
const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

/**
 * The losses of a training run over all ranks, and what is reported of them. Of counts and sums each rank
 * says its own part in numbers, as many on all ranks; what is made of them reads the sums of these numbers
 * over all ranks.
 */
export class LossTotals<Batch> {
  readonly #options: LossTotalsOptions<Batch>;

  /**
   * @throws UsageError `MTL_LOSS_KINDS` for no losses, several of one name, or a weight that is 0 or not
   *   finite
   */
  constructor(options: LossTotalsOptions<Batch>) {
    checkLosses(options.losses);
    this.#options = options;
  }

  /** Returns what counts of each kind of loss in micro-batches: this rank's part of `checkedCounts`. */
  countsOf(batches: readonly Batch[]): readonly number[] {
    const { losses, ranks, isLastStage } = this.#options;
    // batches on the host are of whole sequences
    const isTold = ranks.isFirstOfStage && ranks.isFirstOfSequence && isLastStage;
    return losses.map(({ count }) => (isTold ? batches.reduce((sum, batch) => sum + count(batch), 0) : 0));
  }

  /**
   * Returns what counts of each kind of loss over all ranks.
   *
   * @param summed the sums of `countsOf` over all ranks
   * @throws TrainingError `MTL_NO_DATA` where nothing counts in a kind
   */
  checkedCounts(summed: readonly number[], who: string): readonly number[] {
    const { losses, lossesOfAbsentRanks = [] } = this.#options;
    return losses.map(({ name, per }, kind) => {
      const count = summed[kind]!;
      if (count > 0) return count;
      if (lossesOfAbsentRanks.includes(name)) return 1;
      throw new TrainingError('MTL_NO_DATA', `${who} no ${per} that counts in ${name}`, {
        remedy: 'train or evaluate on data that is not all padding or masked out of the loss',
      });
    });
  }

  /**
   * This rank's part of `sums`: of each kind whether it makes it, and a place for every micro-batch of the
   * global batch, in the order of their samples, in which one process would have them. (Chunks of one
   * micro-batch a rank follow each other, see the samplers of @mtl/data.)
   *
   * @param own of each kind the sums of this rank's micro-batches; none of a kind that it does not make
   */
  partsOf(own: ReadonlyArray<readonly number[]>, numMicroBatches: number): readonly number[] {
    const { losses, ranks } = this.#options;
    const { isFirstOfStage, isFirstOfSequence } = ranks;
    const { index, count } = ranks.shareOfBatch;
    const places = own.flatMap((sums, kind) => {
      const ofKind = new Array<number>(numMicroBatches * count).fill(0);
      const isTold = isFirstOfSequence || losses[kind]!.isAuxiliary !== true;
      if (!isFirstOfStage || !isTold) return ofKind;
      sums.forEach((sum, microBatch) => {
        ofKind[microBatch * count + index] = sum;
      });
      return ofKind;
    });
    return [...own.map(({ length }) => (length > 0 ? 1 : 0)), ...places];
  }

  /**
   * The sum of each kind of loss over the micro-batches of all ranks and the stages that make it.
   *
   * @param summed the sums of `partsOf` over all ranks
   * @throws UsageError `MTL_LOSS_KINDS` for a kind that no stage makes
   */
  sums(summed: readonly number[]): readonly number[] {
    const { losses, lossesOfAbsentRanks = [] } = this.#options;
    const missing = losses.filter(
      ({ name }, kind) => summed[kind] === 0 && !lossesOfAbsentRanks.includes(name),
    );
    if (missing.length > 0) {
      throw new UsageError('MTL_LOSS_KINDS', `no stage makes ${missing.map(({ name }) => name).join(', ')}`, {
        expected: 'the losses that the stages of the model make',
      });
    }
    const numPlaces = summed.length / losses.length - 1;
    return losses.map((_, kind) => {
      const start = losses.length + kind * numPlaces;
      return total(summed.slice(start, start + numPlaces));
    });
  }

  /** Returns the weight of a kind of loss in the gradient. */
  weightOf(kind: number): number {
    return weightOf(this.#options.losses[kind]!);
  }

  /**
   * Returns the loss that the gradients are of: the weighted sum of the means of all but auxiliary losses.
   */
  total(means: readonly number[]): number {
    const parts = this.#options.losses.flatMap((kind, index) =>
      kind.isAuxiliary === true ? [] : [weightOf(kind) * means[index]!],
    );
    return total(parts);
  }

  /**
   * Returns the value reported as `lm_loss`: the loss of that name, or the total if it is the only one or
   * there is none.
   */
  main(means: readonly number[]): number {
    return this.#ownLmLoss === undefined ? this.total(means) : means[this.#ownLmLoss]!;
  }

  /** The other losses by their names, and the total where it is not `lm_loss`. */
  byName(means: readonly number[]): Pick<ValidationLoss, 'otherLosses'> {
    const { losses } = this.#options;
    const isSum = this.#parts.length > 1;
    const named = losses.flatMap((kind, index) =>
      index !== this.#ownLmLoss && (isSum || kind.isAuxiliary === true)
        ? [[kind.name, means[index]!] as const]
        : [],
    );
    const totals = this.#ownLmLoss === undefined ? [] : [['total_loss', this.total(means)] as const];
    const all = [...named, ...totals];
    return all.length === 0 ? {} : { otherLosses: Object.fromEntries(all) };
  }

  /** Names the losses of an evaluation that have a perplexity, unless the only one does. */
  tokenLosses(): Pick<ValidationLoss, 'tokenLosses'> {
    const ofTokens = this.#parts.filter(({ per }) => per === 'token');
    if (this.#parts.length > 1) return { tokenLosses: ofTokens.map(({ name }) => name) };
    if (this.#options.losses.length === 1 && ofTokens.length === 1) return {};
    return { tokenLosses: ofTokens.length === 1 ? ['lm_loss'] : [] };
  }

  /** The place of the loss called `lm_loss` among several, if there is one. */
  get #ownLmLoss(): number | undefined {
    const { losses } = this.#options;
    return nameOfTotal(losses) === 'lm_loss' ? undefined : losses.findIndex(isLmLoss);
  }

  /** The losses that the total is a sum of. */
  get #parts(): readonly LossKind<Batch>[] {
    return this.#options.losses.filter(isPart);
  }
}

/**
 * The name by which reports have the total of losses: next to a loss called `lm_loss` it has one of its own.
 */
export type NameOfTotal = 'lm_loss' | 'total_loss';

/** See `NameOfTotal`. */
export function nameOfTotal(losses: ReadonlyArray<LossKind<never>>): NameOfTotal {
  const parts = losses.filter(isPart);
  return parts.length > 1 && parts.some(isLmLoss) ? 'total_loss' : 'lm_loss';
}

const isPart = ({ isAuxiliary }: Pick<LossKind<never>, 'isAuxiliary'>): boolean => isAuxiliary !== true;
const isLmLoss = (kind: Pick<LossKind<never>, 'name' | 'isAuxiliary'>): boolean =>
  isPart(kind) && kind.name === 'lm_loss';

const weightOf = ({ weight = 1 }: Pick<LossKind<never>, 'weight'>): number => weight;

function checkLosses(losses: ReadonlyArray<LossKind<never>>): void {
  const names = losses.map(({ name }) => name);
  const wrong = losses.find((kind) => !Number.isFinite(weightOf(kind)) || weightOf(kind) === 0);
  if (wrong !== undefined) {
    throw new UsageError('MTL_LOSS_KINDS', `the loss ${wrong.name} has the weight ${wrong.weight}`, {
      expected: 'a finite number other than 0',
      remedy: 'leave out losses that do not count',
    });
  }
  if (losses.some(isPart) && new Set([...names, 'total_loss']).size === names.length + 1) return;
  throw new UsageError('MTL_LOSS_KINDS', `losses of a training run: ${names.join(', ') || 'none'}`, {
    expected:
      'one or more losses with different names other than total_loss, of which at least one is not auxiliary',
  });
}
