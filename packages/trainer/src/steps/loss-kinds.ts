import { TrainingError, UsageError } from '@mtl/errors';
import type { ValidationLoss } from '../metrics/training-reports.js';

/**
 * A kind of loss. The total is the sum of all kinds: each adds its weight times its mean over the counted
 * units of the global batch, however the batch is split. One or more stages of a pipeline may make a kind of
 * loss.
 */
export interface LossKind<Batch> {
  /**
   * The name in metrics.jsonl and in the losses of stages (`StageLoss`). The kind called `lm_loss` is the
   * loss of the language model, which reports show first.
   */
  readonly name: string;
  /** The unit of the mean, in the singular: `token`, `sample`, `sentence`. */
  readonly per: string;
  /** Returns the number of units that count in a micro-batch; called for the last stage of a pipeline. */
  count(batch: Batch): number;
  /** The weight in the sum. Default 1. Metrics report the mean without it. */
  readonly weight?: number | undefined;
  /**
   * True if the loss only adds gradients, such as a router's balance loss: it is reported by its name, and is
   * not part of the reported total. Layers compute an auxiliary loss from whole sequences, so ranks that
   * share a sequence compute the same loss. For other losses, each rank has the part of its positions.
   * Default: false.
   */
  readonly isAuxiliary?: boolean | undefined;
}

/** The kinds of losses of a training run. */
export interface LossKinds<Batch> {
  readonly losses: readonly LossKind<Batch>[];
  /** Names of losses that only stages of absent ranks make. */
  readonly lossesOfAbsentRanks?: readonly string[] | undefined;
}

/**
 * Checks that losses can be trained together.
 *
 * @throws UsageError `MTL_LOSS_KINDS` for no losses, several of one name, or a weight that is 0 or not finite
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
      'one or more losses with different names other than total_loss, of which at least one is not auxiliary',
  });
}

/** Returns the weight of a kind of loss in the gradient. */
export const chooseWeight = ({ weight = 1 }: Pick<LossKind<never>, 'weight'>): number => weight;

/**
 * Returns the number of counted units of each kind of loss in a global batch, checked.
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
 * Returns the loss whose gradients are computed: the weighted sum of the means of all non-auxiliary losses.
 */
export function totalLoss(losses: ReadonlyArray<LossKind<never>>, means: readonly number[]): number {
  return losses.reduce(
    (sum, kind, index) => sum + (isPart(kind) ? chooseWeight(kind) * means[index]! : 0),
    0,
  );
}

/**
 * Returns losses as they are reported. `loss` is the loss called `lm_loss`; it is the total if `lm_loss` is
 * the only loss or there is no `lm_loss`. Other losses keep their names. The total is also reported by name
 * if it is not `loss`.
 *
 * @param means of each kind over the global batch
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

/** Names the losses of an evaluation that have a perplexity, unless the only loss has one. */
export function tokenLosses(losses: ReadonlyArray<LossKind<never>>): Pick<ValidationLoss, 'tokenLosses'> {
  const parts = losses.filter(isPart);
  const ofTokens = parts.filter(({ per }) => per === 'token');
  if (parts.length > 1) return { tokenLosses: ofTokens.map(({ name }) => name) };
  if (losses.length === 1 && ofTokens.length === 1) return {};
  return { tokenLosses: ofTokens.length === 1 ? ['lm_loss'] : [] };
}

/** The name of the total loss in reports. Next to a loss called `lm_loss`, the total has its own name. */
export type NameOfTotal = 'lm_loss' | 'total_loss';

/** Returns the name of the total loss in reports: see `NameOfTotal`. */
export function nameOfTotal(losses: ReadonlyArray<LossKind<never>>): NameOfTotal {
  const parts = losses.filter(isPart);
  return parts.length > 1 && parts.some(isLmLoss) ? 'total_loss' : 'lm_loss';
}

/** Tells whether a loss is part of the total. */
const isPart = ({ isAuxiliary }: Pick<LossKind<never>, 'isAuxiliary'>): boolean => isAuxiliary !== true;
const isLmLoss = (kind: Pick<LossKind<never>, 'name' | 'isAuxiliary'>): boolean =>
  isPart(kind) && kind.name === 'lm_loss';
