import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hostTensor } from '@mtl/checkpoint';
import { countElements } from '@mtl/kernels';
import { type GptModelConfiguration, modelParameters } from '@mtl/models';
import { smallGpt } from '@mtl/models/testing';
import { afterAll, expect, it } from 'vitest';
import { readMegatron, writeMegatron } from '../src/index.js';

const scratch = mkdtempSync(join(tmpdir(), 'mtl-megatron-positions-'));
afterAll(() => rmSync(scratch, { recursive: true }));

let numDirectories = 0;

async function written(model: GptModelConfiguration): Promise<string> {
  const directory = join(scratch, `${numDirectories++}`);
  const tensors = modelParameters({ kind: 'gpt', model }).map(({ name, globalShape }) => {
    const memory = new Uint8Array(4 * countElements(globalShape));
    return hostTensor({ name, globalShape, dtype: 'F32', memory });
  });
  await writeMegatron({ directory, kind: 'gpt', model, tensors, iteration: 3, consumedSamples: 0 });
  return directory;
}

const yarn = {
  positionEmbeddingType: 'yarn',
  rotaryBase: 150_000,
  rotaryScalingFactor: 32,
  yarnOriginalMaxPositionEmbeddings: 4096,
  yarnBetaFast: 16,
  yarnBetaSlow: 2,
  yarnCorrectionRangeRoundToInt: false,
  mscale: 0.7,
  mscaleAllDim: 0.5,
} as const;
const llama3 = { positionEmbeddingType: 'rope', useRopeScaling: true, ropeScalingFactor: 32 } as const;
const linear = { positionEmbeddingType: 'rope', rotarySeqLenInterpolationFactor: 2.5 } as const;

it.each([yarn, llama3, linear])('goes to Megatron-LM and back: a GPT with %j', async (positions) => {
  await using found = await readMegatron({ directory: await written({ ...smallGpt, ...positions }) });
  expect(found.configuration).toMatchObject(positions);
});

it.each([
  { ...yarn, yarnAttentionFactor: 1.2 },
  { ...llama3, ropeScalingOriginalMaxPositionEmbeddings: 16 },
  { ...llama3, ropeScalingLowFreqFactor: 2 },
  { ...llama3, ropeScalingHighFreqFactor: 2 },
  { attnLogitSoftcapping: 50 },
  { finalLogitSoftcapping: 30 },
])('is refused, as Megatron-LM has no such number: a GPT with %j', async (positions) => {
  const [key, value] = Object.entries(positions).at(-1)!;
  await expect(written({ ...smallGpt, ...positions })).rejects.toMatchObject({
    code: 'MTL_MEGATRON_CHECKPOINT',
    message: expect.stringContaining(`${key} ${value}, which Megatron-LM does not compute`) as string,
  });
});
