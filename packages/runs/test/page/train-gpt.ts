import { setNumThreads } from '@mtl/kernels';
import { GptStage, gptModel, numLossTokens, type StageBatch } from '@mtl/models';
import { AdamwOptimizer, createStores } from '@mtl/optimizer';
import { Pipeline } from '@mtl/pipeline';
import { Trainer } from '@mtl/trainer';

// S sequence, B micro-batch
const [S, B] = [32, 4];

const text =
  'she sells sea shells by the sea shore; the shells that she sells are sea shells, she is sure. '.repeat(2);

/** Returns the micro-batch number `index`: samples of the text, each from another letter. */
function makeBatch(index: number): StageBatch {
  const at = (position: number, sample: number) =>
    text.charCodeAt(((index * B + sample) * 7 + position) % text.length) - 32;
  const values = (offset: number) =>
    Int32Array.from({ length: S * B }, (_, i) => at(Math.floor(i / B) + offset, i % B));
  return {
    batchSize: B,
    sequenceLength: S,
    tokens: values(0),
    labels: values(1),
    lossMask: new Float32Array(S * B).fill(1),
    positionIds: Int32Array.from({ length: S * B }, (_, i) => Math.floor(i / B)),
    sampleNumbers: Float64Array.from({ length: B }, (_, sample) => index * B + sample),
    keyStart: undefined,
  };
}

/** Trains a GPT on letters for 20 steps, in Node or in a worker of a page, and returns the loss of each. */
export async function trainGpt({ numThreads }: { readonly numThreads: number }): Promise<number[]> {
  setNumThreads(numThreads);
  const model = gptModel({
    numLayers: 2,
    hiddenSize: 64,
    numAttentionHeads: 4,
    maxPositionEmbeddings: S,
    vocabularySize: 96,
  });
  const [device, dtype, seed] = ['cpu', 'float32', 1234] as const;
  const stage = new GptStage({ model, device, dtype, seed });
  const stores = createStores(stage.parameters, { device, dtype, seed });
  async function* batches() {
    for (let index = 0; ; index++) yield makeBatch(index);
  }
  const trainer = new Trainer<StageBatch>({
    pipeline: new Pipeline({ stages: new Map([[0, stage]]) }),
    optimizer: new AdamwOptimizer(stores),
    learningRate: 3e-3,
    batches: batches(),
    losses: [{ name: 'lm_loss', per: 'token', count: numLossTokens }],
    trainIterations: 20,
  });
  const losses: number[] = [];
  for await (const { loss } of trainer) losses.push(loss);
  return losses;
}
