#!/usr/bin/env node
/**
 * One rank of a parity run: gpt-train or bert-train (MTL_PARITY_MODEL) as it is, which also saves the
 * gradients of the first step into MTL_PARITY_GRADIENTS. MTL_PARITY_FAULT makes a mistake on purpose.
 */
import { join } from 'node:path';
import { saveCheckpoint } from '@mtl/checkpoint';
import { exitCodeOf, formatError } from '@mtl/errors';
import { joinProcesses, parseFlags, Training, validateConfiguration } from '@mtl/recipes';
import { gradientTensors } from '@mtl/trainer';
import { faultyTraining } from './faulty-training.mjs';
import { faultyWorld } from './faulty-world.mjs';

const fault = process.env.MTL_PARITY_FAULT;
const directory = process.env.MTL_PARITY_GRADIENTS;
const model = process.env.MTL_PARITY_MODEL;

async function main() {
  const joined = await joinProcesses({ variables: process.env, timeoutMinutes: 1 });
  const world =
    fault === undefined || joined.world === undefined ? joined.world : faultyWorld(joined.world, fault);
  try {
    const worldSize = world?.size ?? 1;
    const configuration = validateConfiguration(parseFlags(process.argv.slice(2), { model }), { worldSize });
    const training = await Training.build({
      ...joined,
      world,
      configuration,
      corpusDirectory: join('.cache', 'mtl'),
      onGradients: async (optimizer, iteration) => {
        if (iteration !== 1) return;
        await saveCheckpoint({
          directory,
          iteration,
          tensors: gradientTensors(optimizer),
          state: {},
          rank: world?.rank ?? 0,
          worldSize,
          barrier: async (succeeded) => training.trainer.ranks.maximum([succeeded ? 0 : 1])[0] === 0,
        });
      },
    });
    faultyTraining(training, fault);
    await training.run();
    await training.close();
  } catch (error) {
    joined.world?.abort(error);
    throw error;
  }
  joined.world?.close();
}

main().catch((error) => {
  console.error(formatError(error, { debug: true }));
  process.exit(exitCodeOf(error));
});
