import { basename } from 'node:path';
import type { SpanConfiguration, TaskDataConfiguration } from '@mtl/configuration';
import type { Tokenizer } from '@mtl/data';
import { DataError } from '@mtl/errors';

/** What a task's files are read and encoded with. */
export interface OpenTaskOptions {
  readonly data: TaskDataConfiguration;
  readonly tokenizer: Tokenizer;
  readonly sequenceLength: number;
  readonly spans: SpanConfiguration;
}

/** What a set is called after its file or folder. */
export function setName(path: string): string {
  return basename(path).replace(/\.(tsv|json)$/, '');
}

/** The examples, all of which must have labels. @throws DataError MTL_DATA_TASK_UNLABELLED */
export function labelledExamples<Example>(
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
