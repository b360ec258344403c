/** The loss of an evaluation; NaN where it was not finite. */
interface Evaluation {
  readonly iteration: number;
  readonly loss: number;
}

/** Evaluations after the best one without which nothing is said. */
const fewest = 5;
/** Of all steps so far, the share after the best one without which nothing is said. */
const leastShare = 0.1;
/** How far above the best loss the last one is, as a share of it: below it the loss is level. */
const leastRise = 0.01;

/**
 * In words, that the validation loss of a run has been rising for long; undefined where it has not.
 *
 * It has been where at least five evaluations and a tenth of all steps follow the best one, the last loss is
 * more than 1 % above it, and the later half of those that follow is above the earlier one.
 *
 * @param all evaluations of a run, oldest first
 */
export function risingValidation(all: readonly Evaluation[]): string | undefined {
  const evaluations = all.filter(({ loss }) => Number.isFinite(loss));
  const last = evaluations.at(-1);
  if (last === undefined) return undefined;
  const best = evaluations.reduce((least, next) => (next.loss < least.loss ? next : least));
  const after = evaluations.filter(({ iteration }) => iteration > best.iteration);
  if (after.length < fewest || last.iteration - best.iteration < leastShare * last.iteration)
    return undefined;
  const half = Math.floor(after.length / 2);
  const isRising = mean(after.slice(-half)) > mean(after.slice(0, half));
  if (!isRising || last.loss <= best.loss * (1 + leastRise)) return undefined;
  return (
    `the validation loss has been rising since step ${best.iteration}, from ${best.loss.toFixed(4)} to ` +
    `${last.loss.toFixed(4)} at step ${last.iteration}: the model overfits its training data; train on more data, ` +
    'for fewer steps, or with a lower learning rate'
  );
}

const mean = (evaluations: readonly Evaluation[]): number =>
  evaluations.reduce((sum, { loss }) => sum + loss, 0) / evaluations.length;
