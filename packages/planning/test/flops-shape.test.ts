import { fileURLToPath } from 'node:url';
import { flagsOfOptions, type RunOptions, validateConfiguration } from '@mtl/configuration';
import { withLoadedFlags } from '@mtl/configuration/internal';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { describeFlopsShape, readLoadedFlags } from '@mtl/runs/internal';
import { modelFlops } from '@mtl/trainer';
import { expect, it } from 'vitest';
import { dryRun } from '../src/dry-run/dry-run.js';

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../formats/fixtures/${name}`, import.meta.url));
const sizes: RunOptions = {
  checkpoint: { loadHuggingFace: fixture('huggingface-gpt2') },
  data: { dataPath: ['unused'], sequenceLength: 16, tokenizerType: 'NullTokenizer', vocabSize: 100 },
  training: { microBatchSize: 2, globalBatchSize: 6, trainIterations: 1 },
  optimizer: { maxLearningRate: 1e-3 },
  layout: { threads: 1 },
};

/** FLOPs of a step: counted by a dry run, and model FLOPs. */
async function countFlops(options: RunOptions) {
  const flags = flagsOfOptions(mergeOptions(sizes, options));
  const configuration = validateConfiguration(withLoadedFlags(flags, await readLoadedFlags(flags)));
  const { model, ranks } = await dryRun(configuration);
  const shape = describeFlopsShape(configuration, model);
  return { shape, model, counted: ranks[0]!.flops, inModel: 6 * modelFlops(shape) };
}

it('has the FLOPs that a run of adapters leaves out', async () => {
  const [whole, adapted] = [await countFlops({}), await countFlops({ lora: { rank: 4 } })];
  const { hiddenSize: H } = whole.model;
  const { sequenceLength: S } = whole.shape;
  // queries, keys and values of the first layer and their adapter: the gradient of their input is not needed
  const ofFirstInput = 6 * S * (2 * 3 * H * H + 2 * 4 * H);
  expect(whole.counted - adapted.counted - ofFirstInput).toBe(whole.inModel - adapted.inModel);
});

it('counts of the adapters of experts those that a token is sent to', async () => {
  const ofRank = (loraRank: number) =>
    countFlops({
      checkpoint: { loadHuggingFace: fixture('huggingface-mixtral') },
      lora: { rank: loraRank, targets: ['experts.gate_up_proj', 'experts.down_proj'] },
    });
  const [small, large] = [await ofRank(4), await ofRank(8)];
  const { hiddenSize: H } = small.model;
  const { sequenceLength: S } = small.shape;
  // of two layers with two of six experts: A and B of [20, 14] and of [14, 10]
  expect(small.shape.numAdapterParameters).toBe(2 * 2 * 4 * (H + 20 + 10 + H));
  // the input of the first adapters, which two experts get: its gradient is not needed
  const ofFirstInput = 6 * S * 2 * 2 * 4 * H;
  expect(large.counted - small.counted + ofFirstInput).toBe(large.inModel - small.inModel);
});
