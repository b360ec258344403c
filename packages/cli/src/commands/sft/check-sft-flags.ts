import type { ParsedFlags } from '@mtl/configuration';
import { ConfigurationError, listedNames } from '@mtl/errors';

/** @throws ConfigurationError MTL_FLAG_REQUIRED naming all that is missing of model and conversations */
export function checkSftFlags({ values }: Pick<ParsedFlags, 'values'>): void {
  const { load, 'load-hf': loadHuggingFace, finetune, 'train-data': trainData } = values;
  const hasModel = load !== undefined || loadHuggingFace !== undefined;
  // a run that is gone on with knows its conversations
  const hasData = trainData !== undefined || (load !== undefined && finetune !== true);
  if (hasModel && hasData) return;
  const missing = [
    ...(hasModel
      ? []
      : [
          [
            '--model',
            '--model DIR: a directory of the transformers library, or the --save of a training run',
          ],
        ]),
    ...(hasData ? [] : [['--train-data', '--train-data FILE.jsonl: a conversation on each line']]),
  ];
  const names = missing.map(([name]) => name!);
  throw new ConfigurationError(
    'MTL_FLAG_REQUIRED',
    `mtl sft: ${listedNames(names)} ${names.length === 1 ? 'is' : 'are'} missing`,
    {
      expected: missing.map(([, usage]) => usage).join('; '),
      ...(hasModel ? {} : { remedy: 'pass --model DIR, or --load DIR to go on with a run of mtl sft' }),
      details: { missing: names },
    },
  );
}
