#!/usr/bin/env node
import { join } from 'node:path';
import { exitCodeOf, formatError } from '@mtl/errors';
import {
  formatHelp,
  GptTraining,
  parseFlags,
  printConfiguration,
  refuseManyProcesses,
  sampleText,
  validateConfiguration,
} from '@mtl/recipes';

const argv = process.argv.slice(2);

/** runs/PRESET-DATE-TIME: a directory of its own for every run that names none. */
function newRunDirectory(preset: string): string {
  const time = new Date().toISOString().slice(0, 19).replace('T', '-').replaceAll(':', '');
  return join('runs', `${preset}-${time}`);
}

async function main(): Promise<void> {
  const flags = parseFlags(argv);
  if (flags.help) {
    console.log(formatHelp({ program: 'gpt-train', description: 'Trains a GPT.' }));
    return;
  }
  refuseManyProcesses(process.env);
  const save = flags.values.save ?? flags.values.load ?? newRunDirectory(flags.preset);
  const configuration = validateConfiguration({ ...flags, values: { ...flags.values, save } });
  console.log(printConfiguration(configuration, { all: false }));
  const training = await GptTraining.build({ configuration, corpusDirectory: join('.cache', 'mtl') });
  try {
    const { reason, checkpointPath } = await training.run();
    training.reporters.close();
    console.log(training.reporters.summary.text(checkpointPath === undefined ? {} : { checkpointPath }));
    if (reason !== 'done') {
      console.log(`stopped (${reason}); go on with the same flags and --load ${save}`);
    } else if (configuration.data.tokenizer?.type !== 'NullTokenizer') {
      const { stage, tokenizer } = training;
      const sample = await sampleText({
        stage,
        tokenizer,
        prompt: 'The people of',
        maxNewTokens: 120,
        seed: 1,
      });
      console.log(`\nA sample:\n${sample}`);
    }
  } finally {
    await training.close();
  }
}

main().catch((error: unknown) => {
  console.error(formatError(error, { debug: argv.includes('--debug') }));
  process.exit(exitCodeOf(error));
});
