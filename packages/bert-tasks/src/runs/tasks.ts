import { basename, dirname, join } from 'node:path';
import type { JsonValue } from '@mtl/checkpoint';
import type { TaskDataset } from '@mtl/data';
import { DataError } from '@mtl/errors';
import type { BertTask } from '@mtl/models';
import type { Tokenizer } from '@mtl/tokenizers';
import { bestSpans } from '../data/best-spans.js';
import { encodeMultipleChoice, encodeSentencePairs } from '../data/encode-pairs.js';
import { encodeSpans } from '../data/encode-spans.js';
import {
  type BrokenGlueRow,
  type GlueTaskName,
  glueTasks,
  readGlueFile,
  type SentencePairExample,
} from '../data/read-glue-file.js';
import { readRaceDirectory } from '../data/read-race-directory.js';
import { readSquadFile, type SpanExamples } from '../data/read-squad-file.js';
import { accuracy, binaryF1, squadMetrics } from '../data/task-metrics.js';
import {
  writeGluePredictions,
  writeRacePredictions,
  writeSquadPredictions,
} from '../data/write-predictions.js';
import type {
  FineTuningTaskName,
  SpanConfiguration,
  TaskDataConfiguration,
} from '../flags/fine-tuning-configuration.js';

/** The indices from `from` up to, but not including, `to`. */
export interface IndexRange {
  readonly from: number;
  readonly to: number;
}

/** Scores by name; shares are in percent. */
export type TaskMetrics = Readonly<Record<string, number>>;

/**
 * Examples on which a model is evaluated. An example has one sample, or several consecutive samples (the
 * windows of a question). Its prediction is computed from the logits of all its samples. Predictions are
 * JSON, so that ranks can send them to each other.
 */
export interface TaskSet<Prediction extends JsonValue = JsonValue> {
  /** The name of the set: the file's name without its extension, for example `dev_matched`. */
  readonly name: string;
  readonly path: string;
  readonly dataset: TaskDataset;
  readonly numExamples: number;
  /** True if the examples have labels, so predictions can be scored. */
  readonly hasLabels: boolean;
  findSamples(examples: IndexRange): IndexRange;
  /** Returns the predictions for the given examples from the logits of their samples, in order. */
  predict(examples: IndexRange, logits: readonly Float32Array[]): Prediction[];
  /** Returns the scores of the predictions for all examples. */
  metrics(predictions: readonly Prediction[]): TaskMetrics;
  /**
   * Writes the predictions for all examples into `directory`, in the task's format. Returns the paths of the
   * files.
   */
  write(predictions: readonly Prediction[], directory: string): readonly string[];
}

/** The sets that a model is trained and evaluated on. */
export interface OpenedTask {
  readonly train: TaskDataset;
  readonly valid: readonly TaskSet[];
  readonly test: readonly TaskSet[];
  /** Notes about the files, for the user. */
  readonly notices: readonly string[];
}

interface TaskKind {
  readonly bertTask: BertTask;
  /** The class names of a classification task, in the order and spelling of its files. */
  readonly labels?: readonly string[];
  /** The sequence length in tokens if no flag gives one. */
  readonly sequenceLength: number;
  /** Returns the name of a set, given the path of its file or folder. */
  readonly setName: (path: string) => string;
  readonly open: (options: OpenTaskOptions) => OpenedTask;
}

const classes = (numClasses: number): BertTask => ({ kind: 'classification', numClasses });

/** For each task, the properties that do not depend on its files. */
export const fineTuningTasks: Readonly<Record<FineTuningTaskName, TaskKind>> = {
  mnli: {
    bertTask: classes(glueTasks.MNLI.labels.length),
    labels: glueTasks.MNLI.labels,
    sequenceLength: 128,
    setName,
    open: (options) => openSentencePairTask('MNLI', options),
  },
  qqp: {
    bertTask: classes(glueTasks.QQP.labels.length),
    labels: glueTasks.QQP.labels,
    sequenceLength: 128,
    setName,
    open: (options) => openSentencePairTask('QQP', options),
  },
  race: {
    bertTask: { kind: 'multiple-choice' },
    sequenceLength: 512,
    setName: raceSetName,
    open: openRaceTask,
  },
  squad: { bertTask: { kind: 'span' }, sequenceLength: 384, setName, open: openSquadTask },
};

/** Options for reading and encoding a task's files. */
interface OpenTaskOptions {
  readonly data: TaskDataConfiguration;
  readonly tokenizer: Tokenizer;
  readonly sequenceLength: number;
  readonly spans: SpanConfiguration;
}

/** Returns the name of a set, given the path of its file or folder. */
function setName(path: string): string {
  return basename(path).replace(/\.(tsv|json)$/, '');
}

/**
 * Returns the examples with their labels. Every example must have a label.
 *
 * @throws DataError MTL_DATA_TASK_UNLABELLED
 */
function labelledExamples<Example>(
  examples: readonly Example[],
  { path, hasLabel }: { readonly path: string; readonly hasLabel: (example: Example) => boolean },
): readonly Example[] {
  if (examples.every(hasLabel)) return examples;
  throw new DataError('MTL_DATA_TASK_UNLABELLED', `${path} has no labels`, {
    expected: 'a file to train on or to score: train or dev',
    remedy: 'pass a test set with --test-data: it is predicted, not scored',
    exitCode: 2,
  });
}

/**
 * Opens MNLI or QQP from GLUE files. Broken rows of QQP's training file are skipped, and a note states their
 * number.
 */
function openSentencePairTask(task: GlueTaskName, options: OpenTaskOptions): OpenedTask {
  const { data, tokenizer, sequenceLength } = options;
  const notices: string[] = [];
  const read = (path: string, isTraining: boolean): SentencePairExample[] => {
    const broken: BrokenGlueRow[] = [];
    // only QQP's training file is known to have broken rows; in other files, a broken row is an error
    const takes = isTraining && task === 'QQP';
    const examples = readGlueFile({
      task,
      path,
      ...(takes ? { onBrokenRow: (row: BrokenGlueRow) => void broken.push(row) } : {}),
    });
    if (broken.length > 0) {
      notices.push(
        `${path}: ${broken.length} of ${examples.length + broken.length} rows are broken and were left out ` +
          `(the first is line ${broken[0]!.line}: ${broken[0]!.numColumns} of ${broken[0]!.expectedColumns} columns)`,
      );
    }
    return examples;
  };
  const train = labelledExamples(read(data.train, true), {
    path: data.train,
    hasLabel: ({ label }) => label !== undefined,
  });
  const readSet = (path: string): TaskSet<number> => {
    const examples = read(path, false);
    const labels = examples.flatMap(({ label }) => label ?? []);
    return {
      name: setName(path),
      path,
      numExamples: examples.length,
      dataset: encodeSentencePairs({ examples, tokenizer, sequenceLength }),
      hasLabels: labels.length === examples.length,
      findSamples: (range) => range,
      predict: (_, logits) => logits.map(findLargest),
      metrics: (predictions) => ({
        accuracy: 100 * accuracy({ predictions, labels }),
        ...(task === 'QQP' ? { f1: 100 * binaryF1({ predictions, labels }) } : {}),
      }),
      write: (predictions, directory) => {
        const target = join(directory, `${basename(path).replace(/\.tsv$/, '')}.tsv`);
        writeGluePredictions({ path: target, task, examples, predictions });
        return [target];
      },
    };
  };
  return {
    train: encodeSentencePairs({ examples: train, tokenizer, sequenceLength }),
    valid: data.valid.map((path) => labelledSet(readSet(path))),
    test: data.test.map(readSet),
    notices,
  };

  function labelledSet(set: TaskSet<number>): TaskSet<number> {
    labelledExamples([set], { path: set.path, hasLabel: ({ hasLabels }) => hasLabels });
    return set;
  }
}

/** Opens RACE from its folders of passages. */
function openRaceTask({ data, tokenizer, sequenceLength }: OpenTaskOptions): OpenedTask {
  const encode = (examples: ReturnType<typeof readRaceDirectory>) =>
    encodeMultipleChoice({
      examples,
      tokenizer,
      sequenceLength,
      // A question may fill at most half of a short sequence, so that there is space for the article.
      maximumQuestionLength: Math.min(128, Math.floor(sequenceLength / 2)),
    });
  const readSet = (path: string): TaskSet<number> => {
    const examples = readRaceDirectory(path);
    const levels = [undefined, ...new Set(examples.map(({ level }) => level))].filter(
      (level, index) => index === 0 || level !== undefined,
    );
    const name = raceSetName(path);
    return {
      name,
      path,
      numExamples: examples.length,
      hasLabels: true,
      dataset: encode(examples),
      findSamples: (range) => range,
      predict: (_, logits) => logits.map(findLargest),
      metrics: (predictions) =>
        Object.fromEntries(
          levels.map((level) => {
            const own = examples.flatMap((example, index) =>
              level === undefined || example.level === level ? [index] : [],
            );
            const share = accuracy({
              predictions: own.map((index) => predictions[index]!),
              labels: own.map((index) => examples[index]!.label),
            });
            return [level === undefined ? 'accuracy' : `accuracy_${level}`, 100 * share];
          }),
        ),
      write: (predictions, directory) => {
        const target = join(directory, `${name}.json`);
        writeRacePredictions({ path: target, examples, predictions });
        return [target];
      },
    };
  };
  return {
    train: encode(readRaceDirectory(data.train)),
    valid: data.valid.map(readSet),
    test: data.test.map(readSet),
    notices: [],
  };
}

/**
 * Returns the name of a split of RACE, such as `dev`. If the path is only one half of a split, the name
 * contains the half, as in `dev-high`.
 */
function raceSetName(path: string): string {
  const name = basename(path);
  return name === 'high' || name === 'middle' ? `${basename(dirname(path))}-${name}` : name;
}

/** The best answer to a question, and the probability that it has no answer. */
type SpanPrediction = [text: string, noAnswerProbability: number];

/** Opens SQuAD; the files determine whether the version is 1.1 or 2.0. */
function openSquadTask({ data, tokenizer, sequenceLength, spans }: OpenTaskOptions): OpenedTask {
  const { documentStride, maximumQueryLength, maximumAnswerLength } = spans;
  const encode = ({ examples }: SpanExamples) =>
    encodeSpans({ examples, tokenizer, sequenceLength, documentStride, maximumQueryLength });
  const readSet = (path: string): TaskSet<SpanPrediction> => {
    const file = readSquadFile(path);
    const { dataset, windows } = encode(file);
    const firstWindows = file.examples.map(() => 0);
    for (let index = windows.length - 1; index >= 0; index--) firstWindows[windows[index]!.example] = index;
    const findFirst = (example: number): number => firstWindows[example] ?? windows.length;
    const name = setName(path);
    return {
      name,
      path,
      dataset,
      numExamples: file.examples.length,
      hasLabels: true,
      findSamples: ({ from, to }) => ({ from: findFirst(from), to: findFirst(to) }),
      predict: ({ from, to }, logits) =>
        file.examples.slice(from, to).map((example, index) => {
          const [first, end] = [findFirst(from + index), findFirst(from + index + 1)];
          const { candidates, noAnswerProbability } = bestSpans({
            example,
            maximumAnswerLength,
            logits: windows.slice(first, end).map((window, at) => {
              const own = logits[first - findFirst(from) + at]!;
              const half = own.length / 2;
              return { window, start: own.subarray(0, half), end: own.subarray(half) };
            }),
          });
          return [candidates[0]?.text ?? '', noAnswerProbability];
        }),
      metrics: (predictions) => computeMetrics(file, predictions),
      write: (predictions, directory) => {
        const path = join(directory, `${name}.json`);
        if (!file.hasUnanswerable) {
          writeSquadPredictions({ path, predictions: listTexts(file, predictions) });
          return [path];
        }
        const probabilitiesPath = join(directory, `${name}-no-answer.json`);
        writeSquadPredictions({
          path,
          probabilitiesPath,
          predictions: decideTexts(file, predictions),
          noAnswerProbabilities: listProbabilities(file, predictions),
        });
        return [path, probabilitiesPath];
      },
    };
  };
  return {
    train: encode(readSquadFile(data.train)).dataset,
    valid: data.valid.map(readSet),
    test: data.test.map(readSet),
    notices: [],
  };
}

const byId = <Value>({ examples }: SpanExamples, at: (index: number) => Value): Map<string, Value> =>
  new Map(examples.map(({ id }, index) => [id, at(index)]));

const listTexts = (file: SpanExamples, predictions: readonly SpanPrediction[]) =>
  byId(file, (index) => predictions[index]![0]);

/**
 * Returns the text of each prediction; '' if "no answer" has a higher score than the best answer (a threshold
 * of 0 in BERT's terms).
 */
const decideTexts = (file: SpanExamples, predictions: readonly SpanPrediction[]) =>
  byId(file, (index) => (predictions[index]![1] > 0.5 ? '' : predictions[index]![0]));

const listProbabilities = (file: SpanExamples, predictions: readonly SpanPrediction[]) =>
  byId(file, (index) => predictions[index]![1]);

/**
 * Returns the metrics of SQuAD. F1 comes first, as in the paper. For version 2.0, also returns the best
 * scores over all thresholds, which are computed from the best answers.
 */
function computeMetrics(examples: SpanExamples, predictions: readonly SpanPrediction[]): TaskMetrics {
  if (!examples.hasUnanswerable) {
    const { f1, exact } = squadMetrics({ examples, predictions: listTexts(examples, predictions) });
    return { f1, exact };
  }
  const decided = squadMetrics({ examples, predictions: decideTexts(examples, predictions) });
  const searched = squadMetrics({
    examples,
    predictions: listTexts(examples, predictions),
    noAnswerProbabilities: listProbabilities(examples, predictions),
  });
  const { f1, exact, hasAnswer, noAnswer } = decided;
  return {
    f1,
    exact,
    best_f1: searched.bestF1!,
    best_exact: searched.bestExact!,
    ...(hasAnswer === undefined ? {} : { has_answer_f1: hasAnswer.f1 }),
    ...(noAnswer === undefined ? {} : { no_answer_f1: noAnswer.f1 }),
  };
}

/** Returns the index of the largest value, or of the first of several equally large values. */
function findLargest(values: ArrayLike<number>): number {
  let best = 0;
  for (let index = 1; index < values.length; index++) if (values[index]! > values[best]!) best = index;
  return best;
}
