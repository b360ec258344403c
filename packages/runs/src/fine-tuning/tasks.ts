import { join } from 'node:path';
import {
  bestSpans,
  encodeSpans,
  readSquadFile,
  type SpanExamples,
  squadMetrics,
  writeSquadPredictions,
} from '@mtl/data/tasks';
import { type OpenTaskOptions, setName } from './open-task-options.js';
import type { OpenedTask, TaskMetrics, TaskSet } from './task-set.js';

/** The best answer to a question, and how likely there is none. */
type SpanPrediction = [text: string, noAnswerProbability: number];

/** SQuAD, 1.1 or 2.0 as its files say. */
export function openSquadTask({ data, tokenizer, sequenceLength, spans }: OpenTaskOptions): OpenedTask {
  const { documentStride, maximumQueryLength, maximumAnswerLength } = spans;
  const encode = ({ examples }: SpanExamples) =>
    encodeSpans({ examples, tokenizer, sequenceLength, documentStride, maximumQueryLength });
  const setOf = (path: string): TaskSet<SpanPrediction> => {
    const file = readSquadFile(path);
    const { dataset, windows } = encode(file);
    const firstWindows = file.examples.map(() => 0);
    for (let index = windows.length - 1; index >= 0; index--) firstWindows[windows[index]!.example] = index;
    const firstOf = (example: number): number => firstWindows[example] ?? windows.length;
    const name = setName(path);
    return {
      name,
      path,
      dataset,
      numExamples: file.examples.length,
      hasLabels: true,
      samplesOf: ({ from, to }) => ({ from: firstOf(from), to: firstOf(to) }),
      predict: ({ from, to }, logits) =>
        file.examples.slice(from, to).map((example, index) => {
          const [first, end] = [firstOf(from + index), firstOf(from + index + 1)];
          const { candidates, noAnswerProbability } = bestSpans({
            example,
            maximumAnswerLength,
            logits: windows.slice(first, end).map((window, at) => {
              const own = logits[first - firstOf(from) + at]!;
              const half = own.length / 2;
              return { window, start: own.subarray(0, half), end: own.subarray(half) };
            }),
          });
          return [candidates[0]?.text ?? '', noAnswerProbability];
        }),
      metrics: (predictions) => metricsOf(file, predictions),
      write: (predictions, directory) => {
        const path = join(directory, `${name}.json`);
        if (!file.hasUnanswerable) {
          writeSquadPredictions({ path, predictions: textsOf(file, predictions) });
          return [path];
        }
        const probabilitiesPath = join(directory, `${name}-no-answer.json`);
        writeSquadPredictions({
          path,
          probabilitiesPath,
          predictions: decidedTextsOf(file, predictions),
          noAnswerProbabilities: probabilitiesOf(file, predictions),
        });
        return [path, probabilitiesPath];
      },
    };
  };
  return {
    train: encode(readSquadFile(data.train)).dataset,
    valid: data.valid.map(setOf),
    test: data.test.map(setOf),
    notices: [],
  };
}

const byId = <Value>({ examples }: SpanExamples, at: (index: number) => Value): Map<string, Value> =>
  new Map(examples.map(({ id }, index) => [id, at(index)]));

const textsOf = (file: SpanExamples, predictions: readonly SpanPrediction[]) =>
  byId(file, (index) => predictions[index]![0]);

/** '' where "no answer" scores higher than the best answer: BERT's threshold of 0. */
const decidedTextsOf = (file: SpanExamples, predictions: readonly SpanPrediction[]) =>
  byId(file, (index) => (predictions[index]![1] > 0.5 ? '' : predictions[index]![0]));

const probabilitiesOf = (file: SpanExamples, predictions: readonly SpanPrediction[]) =>
  byId(file, (index) => predictions[index]![1]);

/**
 * F1 first, as the paper has it; of 2.0 also the best over all thresholds, which is searched among the best
 * answers.
 */
function metricsOf(examples: SpanExamples, predictions: readonly SpanPrediction[]): TaskMetrics {
  if (!examples.hasUnanswerable) {
    const { f1, exact } = squadMetrics({ examples, predictions: textsOf(examples, predictions) });
    return { f1, exact };
  }
  const decided = squadMetrics({ examples, predictions: decidedTextsOf(examples, predictions) });
  const searched = squadMetrics({
    examples,
    predictions: textsOf(examples, predictions),
    noAnswerProbabilities: probabilitiesOf(examples, predictions),
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
