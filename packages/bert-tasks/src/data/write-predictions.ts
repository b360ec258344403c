import { UsageError } from '@mtl/errors';
import { writeFileAtomically } from '@mtl/errors/files';
import { type GlueTaskName, glueTasks, type SentencePairExample } from './read-glue-file.js';
import type { MultipleChoiceExample } from './read-race-directory.js';

/**
 * Writes GLUE's predictions as tab-separated lines: the header `index` and `prediction`, then the id and the
 * predicted label of each example.
 */
export function writeGluePredictions(options: {
  readonly path: string;
  readonly task: GlueTaskName;
  readonly examples: readonly SentencePairExample[];
  /** The index of the predicted label for each example. */
  readonly predictions: ArrayLike<number>;
}): void {
  const { path, task, examples, predictions } = options;
  const { labels } = glueTasks[task];
  checkPredictions({ predictions, numExamples: examples.length, numClasses: labels.length });
  const rows = examples.map(({ id }, i) => `${id}\t${labels[predictions[i]!]}\n`);
  writeFileAtomically(path, ['index\tprediction\n', rows.join('')]);
}

/**
 * Writes RACE's predictions: a JSON object that maps each passage's id to the letters of its answers, as in
 * RACE's files.
 */
export function writeRacePredictions(options: {
  readonly path: string;
  readonly examples: readonly MultipleChoiceExample[];
  /** The index of the predicted option for each example. */
  readonly predictions: ArrayLike<number>;
}): void {
  const { path, examples, predictions } = options;
  checkPredictions({ predictions, numExamples: examples.length, numClasses: 4 });
  const answers = new Map<string, string[]>();
  for (const [i, { passage, question }] of examples.entries()) {
    const letters = answers.get(passage) ?? [];
    letters[question] = 'ABCD'[predictions[i]!]!;
    answers.set(passage, letters);
  }
  writeFileAtomically(path, [`${JSON.stringify(Object.fromEntries(answers))}\n`]);
}

/**
 * Writes SQuAD's predictions: a JSON object that maps question ids to answers ('' for no answer). If
 * `probabilitiesPath` is given, also writes an object that maps ids to no-answer probabilities, which the
 * official evaluation of 2.0 reads.
 */
export function writeSquadPredictions(options: {
  readonly path: string;
  readonly predictions: ReadonlyMap<string, string>;
  readonly probabilitiesPath?: string | undefined;
  readonly noAnswerProbabilities?: ReadonlyMap<string, number> | undefined;
}): void {
  const { path, predictions, probabilitiesPath, noAnswerProbabilities } = options;
  const missing = [...predictions.keys()].find((id) => noAnswerProbabilities?.has(id) === false);
  if (missing !== undefined || (probabilitiesPath === undefined) !== (noAnswerProbabilities === undefined)) {
    const what =
      missing === undefined ? 'probabilities and their path' : `no probability for question ${missing}`;
    throw new UsageError('MTL_DATA_PREDICTIONS', what, {
      expected: 'both, with one probability for each prediction, or neither',
    });
  }
  writeFileAtomically(path, [`${JSON.stringify(Object.fromEntries(predictions))}\n`]);
  if (probabilitiesPath === undefined) return;
  writeFileAtomically(probabilitiesPath, [`${JSON.stringify(Object.fromEntries(noAnswerProbabilities!))}\n`]);
}

function checkPredictions(options: {
  predictions: ArrayLike<number>;
  numExamples: number;
  numClasses: number;
}): void {
  const { predictions, numExamples, numClasses } = options;
  const fail = (what: string, expected: string): never => {
    throw new UsageError('MTL_DATA_PREDICTIONS', what, { expected });
  };
  if (predictions.length !== numExamples) {
    fail(`${predictions.length} predictions for ${numExamples} examples`, 'one for each');
  }
  const wrong = Array.from(predictions).findIndex(
    (value) => !Number.isInteger(value) || value < 0 || value >= numClasses,
  );
  if (wrong >= 0) fail(`prediction ${wrong} is ${predictions[wrong]}`, `0 to ${numClasses - 1}`);
}
