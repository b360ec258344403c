import { basename, dirname, join } from 'node:path';
import { accuracy, encodeMultipleChoice, readRaceDirectory, writeRacePredictions } from '@mtl/data/tasks';
import { largestOf } from './largest-of.js';
import type { OpenTaskOptions } from './open-task-options.js';
import type { OpenedTask, TaskSet } from './task-set.js';

/** RACE from its folders of passages. */
export function openRaceTask({ data, tokenizer, sequenceLength }: OpenTaskOptions): OpenedTask {
  const encode = (examples: ReturnType<typeof readRaceDirectory>) =>
    encodeMultipleChoice({
      examples,
      tokenizer,
      sequenceLength,
      // of a short sequence half at most
      maximumQuestionLength: Math.min(128, Math.floor(sequenceLength / 2)),
    });
  const setOf = (path: string): TaskSet<number> => {
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
      samplesOf: (range) => range,
      predict: (_, logits) => logits.map(largestOf),
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
    valid: data.valid.map(setOf),
    test: data.test.map(setOf),
    notices: [],
  };
}

/** `dev`, or `dev-high` for a half of it. */
export function raceSetName(path: string): string {
  const name = basename(path);
  return name === 'high' || name === 'middle' ? `${basename(dirname(path))}-${name}` : name;
}
