import {
  type Flags,
  type ModelKind,
  type ParsedFlags,
  parseFlags,
  validateConfiguration,
} from '@mtl/configuration';
import { bundledCorpus, FlagReader, missingFlags, tokenizerFlagNames } from '@mtl/configuration/flags';
import { withLoadedFlags } from '@mtl/configuration/internal';
import { splitNames } from '@mtl/data';
import { ConfigurationError, listedNames } from '@mtl/errors';
import { openTrainingData, readLoadedFlags, withHubModels } from '@mtl/runs/internal';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';

const examples = `
It takes the flags of a training run and makes the files that this training run would make at its start, so that
they are there when it begins. These flags matter: --data-path, --split, --seq-length, --seed, the tokenizer,
--train-samples (or --train-iters), --micro-batch-size and --global-batch-size, --eval-iters and --data-cache-path; for a BERT
also --mask-prob, --short-seq-prob and --bert-no-binary-head.

Example:
  mtl data build-index --data-path wiki_text_document --split 969,30,1 --seq-length 1024 --seed 1234 \\
    --train-samples 1000000 --global-batch-size 512 --micro-batch-size 4 --tokenizer-type GPT2BPETokenizer
  mtl data build-index --model bert --data-path wiki_text_sentence --seq-length 512 --train-iters 1000 \\
    --global-batch-size 256 --micro-batch-size 4 --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt`;

/**
 * Creates the command `mtl data build-index`, which builds the sample indices of a training run before it
 * starts.
 */
export function buildIndexCommand(): Command {
  return (
    newCommand('build-index', 'Builds the sample indices of a training run before it starts.')
      .usage('[--model gpt|bert] [flags of the training run]')
      // the training-flag schema parses these flags, so that names, checks and errors are the same as in
      // training
      .argument('[flags...]', 'Flags of a training run.')
      .allowUnknownOption()
      .passThroughOptions()
      .addHelpText('after', examples)
      .action((flags: string[], { debug }: { debug?: true }) =>
        buildIndex(debug ? [...flags, '--debug'] : flags),
      )
  );
}

/** Removes `--model NAME` from any position in the flags. NAME determines the valid flags. */
function splitModel(argv: readonly string[]): { model: ModelKind; flags: readonly string[] } {
  const at = argv.findIndex((word) => /^--model(=|$)/.test(word));
  if (at < 0) return { model: 'gpt', flags: argv };
  const attached = argv[at]!.split('=')[1];
  const name = attached ?? argv[at + 1];
  if (name !== 'gpt' && name !== 'bert') {
    throw new ConfigurationError('MTL_FLAG_VALUE', `mtl data build-index: --model ${name ?? ''}`.trimEnd(), {
      expected: 'gpt or bert',
    });
  }
  return { model: name, flags: argv.toSpliced(at, attached === undefined ? 2 : 1) };
}

/** Placeholder values for required flags on which the indices do not depend. */
const unused: Flags = {
  'num-layers': 1,
  'hidden-size': 1,
  'num-attention-heads': 1,
  'max-position-embeddings': 2 ** 31,
  lr: 1,
};

/**
 * Parses the flags of a training run without a default preset. The default preset would select the bundled
 * corpus, which needs no index. Only a preset that the user names may select this corpus.
 */
function parseTrainingFlags(flags: readonly string[], model: ModelKind): ParsedFlags {
  const parsed = parseFlags(flags, { model, unused });
  const isNamed = parsed.help || parsed.preset === 'none' || parsed.request.preset !== undefined;
  return isNamed ? parsed : parseFlags([...flags, '--preset', 'none'], { model, unused });
}

/** @throws ConfigurationError MTL_FLAG_REQUIRED naming all missing flags */
function refuseMissing(flags: ParsedFlags): void {
  const reader = new FlagReader(flags);
  const dataPath = reader.get('data-path');
  const hasData = (dataPath !== undefined && dataPath.join() !== bundledCorpus) || flags.help;
  const missing = new Set([
    ...(hasData ? [] : ['--data-path']),
    ...missingFlags(reader, flags.preset),
    // the bundled corpus has a tokenizer, so only different data needs a flag for the tokenizer
    ...(hasData || tokenizerFlagNames.some((name) => reader.get(name) !== undefined)
      ? []
      : ['--tokenizer-type']),
  ]);
  if (missing.size === 0) return;
  const names = [...missing];
  throw new ConfigurationError(
    'MTL_FLAG_REQUIRED',
    `mtl data build-index: ${listedNames(names)} ${names.length === 1 ? 'is' : 'are'} missing`,
    {
      expected: missing.has('--data-path')
        ? '--data-path PREFIX, or --data-path WEIGHT PREFIX WEIGHT PREFIX ..., and the other flags of the training run'
        : 'the flags of the training run',
      remedy: 'pass the flags that the training run will have',
      details: { flags: names },
    },
  );
}

async function buildIndex(argv: readonly string[]): Promise<void> {
  const { model, flags } = splitModel(argv);
  const parsed = await withHubModels(parseTrainingFlags(flags, model), {
    needs: 'configuration',
    onMessage: (text) => void process.stderr.write(`${text}\n`),
  });
  const loaded = withLoadedFlags(parsed, await readLoadedFlags(parsed));
  refuseMissing(loaded);
  const configuration = validateConfiguration(loaded);
  const started = performance.now();
  const { datasets } = await openTrainingData(configuration, {
    corpusDirectory: '',
    mustKeepIndices: true,
    onMessage: (text) => process.stdout.write(`${text}\n`),
  });
  for (const name of splitNames) {
    const dataset = datasets[name];
    if (dataset === undefined) continue;
    process.stdout.write(`${name}: ${dataset.length.toLocaleString('en-US')} samples\n`);
    dataset.close();
  }
  process.stdout.write(`done in ${((performance.now() - started) / 1000).toFixed(1)} s\n`);
}
