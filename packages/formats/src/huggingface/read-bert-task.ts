import type { BertTask } from '@mtl/models';
import { openHuggingFaceDirectory } from './open-huggingface-directory.js';

/** A fine-tuned BERT's task, and the class names of a classification, in order. */
interface StatedTask {
  readonly task: BertTask;
  readonly labels?: readonly string[] | undefined;
}

/**
 * Returns the task of the model in a transformers directory: the model's class determines the task, and the
 * label names are the class names. Undefined for a pretrained model.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG
 */
export async function readBertTask(directory: string): Promise<StatedTask | undefined> {
  const { fields } = await openHuggingFaceDirectory(directory);
  const [className = ''] = [fields.values.architectures].flat() as string[];
  if (className.endsWith('ForQuestionAnswering')) return { task: { kind: 'span' } };
  if (className.endsWith('ForMultipleChoice')) return { task: { kind: 'multiple-choice' } };
  if (!className.endsWith('ForSequenceClassification')) return undefined;
  // by default, a transformers model has two labels, and their names are not written
  const names = (fields.values.id2label ?? { 0: 'LABEL_0', 1: 'LABEL_1' }) as Readonly<
    Record<string, string>
  >;
  const labels = Object.keys(names)
    .map(Number)
    .sort((one, other) => one - other)
    .map((id) => names[id]!);
  return { task: { kind: 'classification', numClasses: labels.length }, labels };
}
