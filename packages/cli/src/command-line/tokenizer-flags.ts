import { readTokenizerFlags, type TokenizerConfiguration } from '@mtl/configuration';
import { tokenizerTypes } from '@mtl/data';
import { type Command, Option } from 'commander';
import { choiceOption, countOption } from './option-values.js';

/** Values of the options that `addTokenizerFlags` adds. */
export interface TokenizerFlagValues {
  readonly tokenizerType?: string;
  readonly tokenizerModel?: string;
  readonly vocabFile?: string;
  readonly mergeFile?: string;
  readonly vocabSize?: number;
}

/** Adds Megatron-LM's flags that say how text becomes tokens. */
export function addTokenizerFlags<Kind extends Command>(
  command: Kind,
  { mandatory = false }: { mandatory?: boolean } = {},
): Kind {
  return command
    .addOption(
      choiceOption('--tokenizer-type <name>', 'How text becomes tokens.', tokenizerTypes).makeOptionMandatory(
        mandatory,
      ),
    )
    .addOption(
      new Option('--tokenizer-model <path>', 'The tokenizer.json of a HuggingFaceTokenizer, or its folder.'),
    )
    .addOption(
      new Option(
        '--vocab-file <file>',
        'The vocab.json of GPT-2, or vocab.txt of BertWordPiece. [GPT-2: built in]',
      ),
    )
    .addOption(new Option('--merge-file <file>', 'The merges.txt of GPT-2. [built in]'))
    .addOption(countOption('--vocab-size <n>', 'Number of token ids, for NullTokenizer.'));
}

/**
 * The tokenizer that the flags describe; undefined when none is given.
 * @throws ConfigurationError MTL_FLAG_NEEDS
 */
export function tokenizerOfFlags(values: TokenizerFlagValues): TokenizerConfiguration | undefined {
  return readTokenizerFlags({
    'tokenizer-type': values.tokenizerType,
    'tokenizer-model': values.tokenizerModel,
    'vocab-file': values.vocabFile,
    'merge-file': values.mergeFile,
    'vocab-size': values.vocabSize,
  });
}
