import type { BertTask } from '../bert/bert-task.js';
import { bertTaskWeightNames } from './bert-weight-mappings.js';
import { type SaveHuggingFaceBertOptions, writeBertDirectory } from './write-bert-directory.js';

export interface WriteHuggingFaceBertForTaskOptions extends SaveHuggingFaceBertOptions {
  readonly task: BertTask;
  /**
   * Of classification: what the classes are called, in order. Default: LABEL_0 and so on, as transformers has
   * it.
   */
  readonly labels?: readonly string[] | undefined;
}

const classNames: Readonly<Record<BertTask['kind'], string>> = {
  classification: 'BertForSequenceClassification',
  'multiple-choice': 'BertForMultipleChoice',
  span: 'BertForQuestionAnswering',
};

/**
 * Saves a fine-tuned BERT, the parameters of a BertTaskStage, as transformers' class for its task:
 * `from_pretrained` loads it, and `readHuggingFaceBertForTask`.
 *
 * @throws CheckpointError, UsageError as `writeHuggingFaceBert` does
 */
export async function writeHuggingFaceBertForTask(
  options: WriteHuggingFaceBertForTaskOptions,
): Promise<void> {
  const { task, model, labels } = options;
  await writeBertDirectory(options, {
    names: bertTaskWeightNames(model, { task, has: { pooler: task.kind !== 'span', head: true } }),
    className: classNames[task.kind],
    labels: task.kind === 'classification' ? (labels ?? numberedLabels(task.numClasses)) : undefined,
  });
}

const numberedLabels = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `LABEL_${index}`);
