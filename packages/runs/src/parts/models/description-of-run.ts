import type { PretrainingConfiguration } from '@mtl/configuration';
import type { Tokenizer } from '@mtl/tokenizers';

export interface DescriptionOfRunOptions {
  /** The number of finished iterations. */
  readonly iteration: number;
  readonly numParameters: number;
  /** The number of parameters used for each token; absent if all are used. */
  readonly numActive?: number | undefined;
  /** The number of adapter parameters, if only adapters are trained. */
  readonly numAdapted: number | undefined;
  readonly tokenizer: Pick<Tokenizer, 'vocabularySize'>;
  readonly train: { readonly length: number };
}

/**
 * Returns the lines to print at the start of a run: a description of the training, and a note if no
 * iterations or samples remain.
 */
export function descriptionOfRun(
  { kind, training }: PretrainingConfiguration,
  { iteration, numParameters, numActive, numAdapted, tokenizer, train }: DescriptionOfRunOptions,
): readonly string[] {
  const counted = (count: number): string => count.toLocaleString('en-US');
  return [
    ...noteOfNothingLeft(training, iteration),
    `${kind.toUpperCase()} of ${counted(numParameters)} parameters${activeText(numActive, counted)} in ${training.precision}, ` +
      `vocabulary ${tokenizer.vocabularySize}; ${counted(train.length)} samples to train on`,
    ...(numAdapted === undefined
      ? []
      : [`  adapters of ${counted(numAdapted)} parameters are trained; the others stay as they are`]),
  ];
}

/**
 * Returns a string such as `, 3,353,112,576 of them active`. The string is empty if all parameters are
 * active.
 */
export const activeText = (numActive: number | undefined, format: (count: number) => string): string =>
  numActive === undefined ? '' : `, ${format(numActive)} of them active`;

function noteOfNothingLeft(
  { trainIterations, trainSamples, start, globalBatchSize }: PretrainingConfiguration['training'],
  iteration: number,
): readonly string[] {
  if (iteration === 0 || iteration < trainIterations) return [];
  const left = trainSamples === undefined ? 0 : trainSamples - (start?.consumedSamples ?? 0);
  const reached =
    trainSamples === undefined
      ? `${iteration} iterations are done and --train-iters is ${trainIterations}`
      : `${start?.consumedSamples} samples are consumed and --train-samples is ${trainSamples}`;
  const why = left > 0 ? `, less than a global batch of ${globalBatchSize} more` : '';
  return [`  note: ${reached}${why}: nothing is left to train; a larger one goes on`];
}
