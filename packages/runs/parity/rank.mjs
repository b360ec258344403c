#!/usr/bin/env node
/**
 * One rank of parity runs: gpt-train or bert-train, extended to save the gradients of the first step. It runs
 * all trainings that the file MTL_PARITY_TRAININGS lists, one after the other, because starting a process
 * takes longer than training. A training run may have an injected fault, store the state after each step, or
 * start each step from a stored state.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { saveCheckpoint } from '@mtl/checkpoint';
import { configure } from '@mtl/configuration';
import { chooseExitCode, formatError } from '@mtl/errors';
import { openTraining } from '@mtl/runs';
import { joinProcesses } from '@mtl/runs/internal';
import { gradientTensors } from '@mtl/trainer/internal';
import { faultyTraining } from './faulty-training.mjs';
import { faultyWorld } from './faulty-world.mjs';
import { recordRouting } from './routing.mjs';
import { followStates, keepStates } from './states.mjs';

/** Trains with the given options, on the ranks that have joined. */
async function train(joined, { options, gradients, fault, keeps, follows }) {
  const world =
    fault === undefined || joined.world === undefined ? joined.world : faultyWorld(joined.world, fault);
  const worldSize = world?.size ?? 1;
  const configuration = configure(options, { worldSize });
  const saveGradients = async (optimizer, iteration) => {
    if (iteration !== 1) return;
    await saveCheckpoint({
      directory: gradients,
      iteration,
      tensors: gradientTensors(optimizer),
      state: {},
      rank: world?.rank ?? 0,
      worldSize,
      barrier: async (succeeded) => training.trainer.ranks.maximum([succeeded ? 0 : 1])[0] === 0,
    });
  };
  const routing = recordRouting();
  const training = await openTraining({
    local: joined.local,
    job: joined.job,
    world,
    configuration,
    corpusDirectory: join('.cache', 'mtl'),
    extensions: [{ name: 'gradients', onGradients: saveGradients }, routing.extension],
  });
  faultyTraining(training, fault);
  routing.observe(training);
  const states =
    keeps === undefined ? follows && followStates(training, follows) : keepStates(training, keeps);
  await states?.after(0);
  for await (const { iteration } of training.steps()) await states?.after(iteration);
  routing.save(dirname(gradients), world?.rank ?? 0);
  states?.save?.(dirname(gradients), world?.rank ?? 0);
  await training.close();
}

async function main() {
  const joined = await joinProcesses({ variables: process.env, timeoutMinutes: 1 });
  try {
    const trainings = JSON.parse(readFileSync(process.env.MTL_PARITY_TRAININGS, 'utf8'));
    for (const each of trainings) await train(joined, each);
  } catch (error) {
    joined.world?.abort(error);
    throw error;
  }
  joined.world?.close();
}

main().catch((error) => {
  console.error(formatError(error, { debug: true }));
  process.exit(chooseExitCode(error));
});
