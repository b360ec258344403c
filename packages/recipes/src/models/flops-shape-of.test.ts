import { fileURLToPath } from 'node:url';
import { parseFlags, validateConfiguration, withLoadedFlags } from '@mtl/configuration';
import { modelFlops } from '@mtl/trainer';
import { expect, it } from 'vitest';
import { dryRun } from '../dry-run/dry-run.js';
import { readLoadedFlags } from '../training/read-loaded-flags.js';
import { flopsShapeOf } from './flops-shape-of.js';

const base = fileURLToPath(new URL('../../../models/fixtures/huggingface-gpt2', import.meta.url));
const sizes = ['--seq-length', '16', '--micro-batch-size', '2', '--global-batch-size', '6'];
const tokenizer = ['--tokenizer-type', 'NullTokenizer', '--vocab-size', '100'];
const rest = ['--lr', '1e-3', '--train-iters', '1', '--threads', '1', '--data-path', 'unused', ...tokenizer];

/** FLOPs of a step: those that a dry run counts, and model FLOPs. */
async function flopsOf(flags: readonly string[]) {
  const parsed = parseFlags(['--load-hf', base, ...sizes, ...rest, ...flags]);
  const configuration = validateConfiguration(withLoadedFlags(parsed, await readLoadedFlags(parsed)));
  const { model, ranks } = await dryRun(configuration);
  const shape = flopsShapeOf(configuration, model);
  return { shape, model, counted: ranks[0]!.flops, inModel: 6 * modelFlops(shape) };
}

it('has the FLOPs that a run of adapters leaves out', async () => {
  const [whole, adapted] = [await flopsOf([]), await flopsOf(['--lora-rank', '4'])];
  const { hiddenSize: H } = whole.model;
  const { sequenceLength: S } = whole.shape;
  // queries, keys and values of the first layer and their adapter: nothing needs the gradient of their input
  const ofFirstInput = 6 * S * (2 * 3 * H * H + 2 * 4 * H);
  expect(whole.counted - adapted.counted - ofFirstInput).toBe(whole.inModel - adapted.inModel);
});
