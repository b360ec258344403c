// Started as a process of its own: resumes from the newest checkpoint of a directory and saves the following
// iterations one after another until it is killed, printing `saved N` after each.
import { writeSync } from 'node:fs';
import { findCheckpoint, saveCheckpoint } from '../../src/index.js';
import { largeStateOfIteration } from './states.js';

const directory = process.argv[2]!;
const found = await findCheckpoint({ directory, onNotice: () => undefined });
const first = found.kind === 'found' ? found.checkpoint.iteration + 1 : 1;
for (let iteration = first; ; iteration++) {
  const tensors = largeStateOfIteration(iteration);
  // Every third save is done again, so that replacing a checkpoint is among the moments of death.
  for (let time = 0; time < (iteration % 3 === 0 ? 2 : 1); time++) {
    await saveCheckpoint({
      directory,
      iteration,
      tensors,
      state: { iteration },
      keepLast: 2,
      maxShardBytes: 1e6,
    });
  }
  // Written at once: a line in a buffer would die with the process.
  writeSync(1, `saved ${iteration}\n`);
}
