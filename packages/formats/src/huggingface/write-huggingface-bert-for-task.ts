import { CheckpointError } from '@mtl/errors';
import type { BertModelConfiguration, BertTask } from '@mtl/models';

import { bertTypeOf } from './bert-configuration.js';
import { bertTaskWeightNames } from './bert-weight-mappings.js';
import type { BertTypeName } from './model-types.js';
import { type SaveHuggingFaceBertOptions, writeBertDirectory } from './write-bert-directory.js';

export interface WriteHuggingFaceBertForTaskOptions extends SaveHuggingFaceBertOptions {
  readonly task: BertTask;
  /**
   * Of classification: what the classes are called, in order. Default: LABEL_0 and so on, as transformers has
   * it.
   */
  readonly labels?: readonly string[] | undefined;
}

const classNames: Readonly<Record<BertTypeName, Readonly<Partial<Record<BertTask['kind'], string>>>>> = {
  bert: {
    classification: 'BertForSequenceClassification',
    'multiple-choice': 'BertForMultipleChoice',
    span: 'BertForQuestionAnswering',
  },
  // its other heads are other layers than a BERT's
  roformer: { span: 'RoFormerForQuestionAnswering' },
};

/**
 * The class of transformers that computes a fine-tuned BERT; undefined where none does.
 */
export const huggingFaceTaskClass = (model: BertModelConfiguration, task: BertTask): string | undefined =>
  classNames[bertTypeOf(model)][task.kind];

/**
 * Saves a fine-tuned BERT, the parameters of a BertTaskStage, as transformers' class for its task:
 * `from_pretrained` loads it, and `readHuggingFaceBertForTask`.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG for a task that transformers' class has other layers for;
 *   else, and UsageError, as `writeHuggingFaceBert` does
 */
export async function writeHuggingFaceBertForTask(
  options: WriteHuggingFaceBertForTaskOptions,
): Promise<void> {
  const { task, model, labels } = options;
  const className = huggingFaceTaskClass(model, task);
  if (className === undefined) {
    throw new CheckpointError(
      'MTL_HUGGING_FACE_CONFIG',
      `a RoFormer of transformers has other layers for ${task.kind} than this model`,
      {
        expected: 'a BERT with learned positions, or a task with answers in spans',
        remedy: 'keep this model as a checkpoint of ours',
        exitCode: 2,
      },
    );
  }
  await writeBertDirectory(options, {
    names: bertTaskWeightNames(model, { task, has: { pooler: task.kind !== 'span', head: true } }),
    className,
    labels: task.kind === 'classification' ? (labels ?? numberedLabels(task.numClasses)) : undefined,
  });
}

const numberedLabels = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `LABEL_${index}`);
