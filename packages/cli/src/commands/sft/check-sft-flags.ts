import type { ParsedFlags } from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';

/** @throws ConfigurationError MTL_FLAG_REQUIRED without a model or without conversations */
export function checkSftFlags({ values }: Pick<ParsedFlags, 'values'>): void {
  const { load, 'load-hf': loadHuggingFace, finetune, 'train-data': trainData } = values;
  if (load === undefined && loadHuggingFace === undefined) {
    throw new ConfigurationError('MTL_FLAG_REQUIRED', 'mtl sft: --model is missing', {
      expected: '--model DIR: a directory of the transformers library, or the --save of a training run',
      remedy: 'pass --model DIR, or --load DIR to go on with a run of mtl sft',
    });
  }
  // a run that is gone on with knows its conversations
  if (trainData !== undefined || (load !== undefined && finetune !== true)) return;
  throw new ConfigurationError('MTL_FLAG_REQUIRED', 'mtl sft: --train-data is missing', {
    expected: '--train-data FILE.jsonl, a conversation on each line',
  });
}
