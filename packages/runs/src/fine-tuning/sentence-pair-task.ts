import { basename, join } from 'node:path';
import {
  accuracy,
  type BrokenGlueRow,
  binaryF1,
  encodeSentencePairs,
  type GlueTaskName,
  readGlueFile,
  type SentencePairExample,
  writeGluePredictions,
} from '@mtl/data/tasks';
import { largestOf } from './largest-of.js';
import { labelledExamples, type OpenTaskOptions, setName } from './open-task-options.js';
import type { OpenedTask, TaskSet } from './task-set.js';

/** MNLI or QQP from files of GLUE. Broken rows of QQP's training file are left out, and counted aloud. */
export function openSentencePairTask(task: GlueTaskName, options: OpenTaskOptions): OpenedTask {
  const { data, tokenizer, sequenceLength } = options;
  const notices: string[] = [];
  const read = (path: string, isTraining: boolean): SentencePairExample[] => {
    const broken: BrokenGlueRow[] = [];
    // only the training file of QQP is known to have such rows: elsewhere they are an error
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
  const setOf = (path: string): TaskSet<number> => {
    const examples = read(path, false);
    const labels = examples.flatMap(({ label }) => label ?? []);
    return {
      name: setName(path),
      path,
      numExamples: examples.length,
      dataset: encodeSentencePairs({ examples, tokenizer, sequenceLength }),
      hasLabels: labels.length === examples.length,
      samplesOf: (range) => range,
      predict: (_, logits) => logits.map(largestOf),
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
    valid: data.valid.map((path) => labelledSet(setOf(path))),
    test: data.test.map(setOf),
    notices,
  };

  function labelledSet(set: TaskSet<number>): TaskSet<number> {
    labelledExamples([set], { path: set.path, hasLabel: ({ hasLabels }) => hasLabels });
    return set;
  }
}
