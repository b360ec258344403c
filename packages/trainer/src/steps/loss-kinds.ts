import { TrainingError, UsageError } from '@mtl/errors';
import type { ValidationLoss } from '../metrics/training-reports.js';

/**
 * A kind of loss. The total loss is a weighted sum over all kinds. Each kind contributes its mean over the
 * counted units of the global batch, so the total does not depend on how the batch is split. Any pipeline
 * stage may compute a kind of loss.
 */
export interface LossKind<Batch> {
  /**
   * The name in metrics.jsonl and in the stages' losses (see `StageLoss`). The language model's loss is
   * called `lm_loss`, and reports show it first.
   */
  readonly name: string;
  /** The unit over which the loss is a mean, in the singular: `token`, `sample`, `sentence`. */
  readonly per: string;
  /** Returns the number of units that count in a micro-batch. Called on a pipeline's last stage. */
  count(batch: Batch): number;
  /** The weight of the mean in the total. Default: 1. Metrics report the mean without the weight. */
  readonly weight?: number | undefined;
  /**
   * True if the loss only adds gradients, as a router's load-balancing loss does. It is reported under its
   * name, but does not count in the reported total. Layers compute an auxiliary loss from whole sequences, so
   * ranks that share a sequence compute the same value. Any other loss is computed by each rank for its own
   * positions. Default: false.
   */
  readonly isAuxiliary?: boolean | undefined;
}

/** The kinds of losses of a training run. */
export interface LossKinds<Batch> {
  readonly losses: readonly LossKind<Batch>[];
  /** The names of losses that only absent ranks compute, in a dry run with a single rank. */
  readonly lossesOfAbsentRanks?: readonly string[] | undefined;
}

/**
 * Checks that the losses can be trained together.
 *
 * @throws UsageError `MTL_LOSS_KINDS` for an empty list, two losses with the same name, or a weight that is 0
 *   or not finite
 */
export function checkLossKinds(losses: ReadonlyArray<LossKind<never>>): void {
  const names = losses.map(({ name }) => name);
  const wrong = losses.find((kind) => !Number.isFinite(chooseWeight(kind)) || chooseWeight(kind) === 0);
  if (wrong !== undefined) {
    throw new UsageError('MTL_LOSS_KINDS', `the loss ${wrong.name} has the weight ${wrong.weight}`, {
      expected: 'a finite number other than 0',
      remedy: 'leave out losses that do not count',
    });
  }
  if (losses.some(isPart) && new Set([...names, 'total_loss']).size === names.length + 1) return;
  throw new UsageError('MTL_LOSS_KINDS', `losses of a training run: ${names.join(', ') || 'none'}`, {
    expected:
      'one or more losses with different names other than total_loss, and at least one that is not auxiliary',
  });
}

/** Returns the weight of a kind of loss in the gradient. */
export const chooseWeight = ({ weight = 1 }: Pick<LossKind<never>, 'weight'>): number => weight;

/**
 * Checks the number of counted units for each kind of loss in a global batch, and returns these counts.
 *
 * @throws TrainingError `MTL_NO_DATA` if a kind has no counted unit
 */
export function checkedCounts<Batch>(
  counts: readonly number[],
  { losses, lossesOfAbsentRanks = [], who }: LossKinds<Batch> & { readonly who: string },
): readonly number[] {
  return losses.map(({ name, per }, kind) => {
    const count = counts[kind]!;
    if (count > 0) return count;
    if (lossesOfAbsentRanks.includes(name)) return 1;
    throw new TrainingError('MTL_NO_DATA', `${who} no ${per} that counts in ${name}`, {
      remedy: 'train or evaluate on data that is not all padding or masked out of the loss',
    });
  });
}

/**
 * Returns the loss from which gradients are computed: the weighted sum of the means of all losses except
 * auxiliary losses.
 */
export function totalLoss(losses: ReadonlyArray<LossKind<never>>, means: readonly number[]): number {
  return losses.reduce(
    (sum, kind, index) => sum + (isPart(kind) ? chooseWeight(kind) * means[index]! : 0),
    0,
  );
}

/**
 * Returns the losses under their reported names. `loss` is the loss called `lm_loss`, or the total if
 * `lm_loss` is the only loss or does not exist. All other losses keep their names. If `loss` is not the
 * total, the total is reported as `total_loss`.
 *
 * @param means the mean of each kind of loss over the global batch
 */
export function reportedLosses(
  losses: ReadonlyArray<LossKind<never>>,
  means: readonly number[],
): Pick<ValidationLoss, 'loss' | 'otherLosses'> {
  const lmLoss = nameOfTotal(losses) === 'lm_loss' ? undefined : losses.findIndex(isLmLoss);
  const isSum = losses.filter(isPart).length > 1;
  const named = losses.flatMap((kind, index) =>
    index !== lmLoss && (isSum || !isPart(kind)) ? [[kind.name, means[index]!] as const] : [],
  );
  const total = totalLoss(losses, means);
  const all = lmLoss === undefined ? named : [...named, ['total_loss', total] as const];
  return {
    loss: lmLoss === undefined ? total : means[lmLoss]!,
    ...(all.length === 0 ? {} : { otherLosses: Object.fromEntries(all) }),
  };
}

/**
 * Returns the names of the losses in an evaluation that have a perplexity. Returns an empty object if the
 * only loss has a perplexity, because this is the default.
 */
export function tokenLosses(losses: ReadonlyArray<LossKind<never>>): Pick<ValidationLoss, 'tokenLosses'> {
  const parts = losses.filter(isPart);
  const ofTokens = parts.filter(({ per }) => per === 'token');
  if (parts.length > 1) return { tokenLosses: ofTokens.map(({ name }) => name) };
  if (losses.length === 1 && ofTokens.length === 1) return {};
  return { tokenLosses: ofTokens.length === 1 ? ['lm_loss'] : [] };
}

/**
 * The name of the total loss in reports: `total_loss` if there is also a loss called `lm_loss`, otherwise
 * `lm_loss`.
 */
export type NameOfTotal = 'lm_loss' | 'total_loss';

export function nameOfTotal(losses: ReadonlyArray<LossKind<never>>): NameOfTotal {
  const parts = losses.filter(isPart);
  return parts.length > 1 && parts.some(isLmLoss) ? 'total_loss' : 'lm_loss';
}

/** Returns true if a loss is part of the total. */
const isPart = ({ isAuxiliary }: Pick<LossKind<never>, 'isAuxiliary'>): boolean => isAuxiliary !== true;
const isLmLoss = (kind: Pick<LossKind<never>, 'name' | 'isAuxiliary'>): boolean =>
  isPart(kind) && kind.name === 'lm_loss';
