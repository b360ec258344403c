import { UsageError } from '@mtl/errors';

/** Predicted and true classes, as indices into the labels. */
export interface ClassificationResults {
  readonly predictions: ArrayLike<number>;
  readonly labels: ArrayLike<number>;
}

/** The share of right predictions, 0 to 1. */
export function accuracy({ predictions, labels }: ClassificationResults): number {
  checkLengths({ predictions, labels });
  let right = 0;
  for (let i = 0; i < labels.length; i++) if (predictions[i] === labels[i]) right++;
  return right / labels.length;
}

/**
 * F1 of class 1 (QQP's duplicates): the harmonic mean of precision and recall, 0 where nothing was found
 * rightly.
 */
export function binaryF1({ predictions, labels }: ClassificationResults): number {
  checkLengths({ predictions, labels });
  let found = 0;
  let predicted = 0;
  let positive = 0;
  for (let i = 0; i < labels.length; i++) {
    if (predictions[i] === 1) predicted++;
    if (labels[i] === 1) positive++;
    if (predictions[i] === 1 && labels[i] === 1) found++;
  }
  return found === 0 ? 0 : (2 * found) / (predicted + positive);
}

function checkLengths({ predictions, labels }: ClassificationResults): void {
  if (predictions.length === labels.length && labels.length > 0) return;
  throw new UsageError(
    'MTL_DATA_PREDICTIONS',
    `${predictions.length} predictions do not fit ${labels.length} labels`,
    { expected: 'one prediction for each label, and at least one' },
  );
}
