import { splitNames } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import { openTrainingData, parseFlags, validateConfiguration } from '@mtl/recipes';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';

const examples = `
It takes the flags of a training and makes the files that this training would make at its start, so that
they are there when it begins. What counts is --data-path, --split, --seq-length, --seed, the tokenizer,
--train-samples (or --train-iters with --global-batch-size), --eval-iters and --data-cache-path.

Example:
  mtl data build-index --data-path wiki_text_document --split 969,30,1 --seq-length 1024 --seed 1234 \\
    --train-samples 1000000 --lr-decay-samples 1000000 --tokenizer-type GPT2BPETokenizer`;

/** `mtl data build-index`: builds the sample indices of a training before it starts. */
export function buildIndexCommand(): Command {
  return (
    newCommand('build-index', 'build the sample indices of a training before it starts')
      .usage('[flags of the training]')
      // The schema of a training's flags reads them, with its own names, checks and errors.
      .argument('[flags...]')
      .allowUnknownOption()
      .passThroughOptions()
      .addHelpText('after', examples)
      .action((flags: string[], { debug }: { debug?: true }) =>
        buildIndex(debug ? [...flags, '--debug'] : flags),
      )
  );
}

async function buildIndex(argv: readonly string[]): Promise<void> {
  const configuration = validateConfiguration(parseFlags(argv));
  if (configuration.data.dataPath.length === 0) {
    throw new ConfigurationError('MTL_FLAG_REQUIRED', 'mtl data build-index: --data-path is missing', {
      expected: '--data-path PREFIX, or --data-path WEIGHT PREFIX WEIGHT PREFIX ...',
    });
  }
  const started = performance.now();
  const { datasets } = await openTrainingData(configuration, {
    corpusDirectory: '',
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
