#!/usr/bin/env node
import { join } from 'node:path';
import { exitCodeOf, formatError } from '@mtl/errors';
import {
  broadcastJson,
  formatHelp,
  GptTraining,
  type JoinedProcesses,
  joinProcesses,
  type ParsedFlags,
  parseFlags,
  printConfiguration,
  validateConfiguration,
} from '@mtl/recipes';

const argv = process.argv.slice(2);

/** runs/PRESET-DATE-TIME: a directory of its own for every run that names none, the same when it is started again. */
function newRunDirectory(preset: string, startedAt = new Date()): string {
  const time = startedAt.toISOString().slice(0, 19).replace('T', '-').replaceAll(':', '');
  return join('runs', `${preset}-${time}`);
}

async function main(): Promise<void> {
  const flags = parseFlags(argv);
  if (flags.help) {
    console.log(formatHelp({ program: 'gpt-train', description: 'Trains a GPT.' }));
    return;
  }
  const {
    device,
    'distributed-backend': backend,
    'distributed-timeout-minutes': timeoutMinutes,
  } = flags.values;
  const how = { timeoutMinutes, device, backend, onMessage: console.log };
  const joined = await joinProcesses({ variables: process.env, ...how });
  try {
    await train(flags, joined);
  } catch (error) {
    // the other processes end with this message instead of waiting for this one
    joined.world?.abort(error as Error);
    throw error;
  }
  joined.world?.close();
}

async function train(flags: ParsedFlags, joined: JoinedProcesses): Promise<void> {
  const { world } = joined;
  const named = flags.values.save ?? flags.values.load ?? newRunDirectory(flags.preset, joined.startedAt);
  const save = world === undefined ? named : broadcastJson(world.group, named);
  const worldSize = world?.size ?? 1;
  const configuration = validateConfiguration({ ...flags, values: { ...flags.values, save } }, { worldSize });
  const say = (text: string): void => {
    if (world === undefined || world.rank === 0) console.log(text);
  };
  say(printConfiguration(configuration, { all: false }));
  if (world !== undefined) say(`  ranks communicate over ${world.group.engine}`);
  const corpusDirectory = join('.cache', 'mtl');
  const training = await GptTraining.build({ configuration, corpusDirectory, ...joined });
  try {
    const { reason, checkpointPath } = await training.run();
    training.reporters.close();
    say(training.reporters.summary.text(checkpointPath === undefined ? {} : { checkpointPath }));
    if (reason !== 'done') {
      say(`stopped (${reason}); go on with the same flags and --load ${save}`);
    } else if (configuration.data.tokenizer?.type !== 'NullTokenizer') {
      const sample = await training.sample('The people of');
      say(`\nA sample:\n${sample}`);
    }
  } finally {
    await training.close();
  }
}

main().catch((error: unknown) => {
  console.error(formatError(error, { debug: argv.includes('--debug') }));
  process.exit(exitCodeOf(error));
});
