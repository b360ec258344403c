import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generate, perplexity } from '@mtl/inference';
import { numLiveTensors } from '@mtl/kernels';
import type { TrainerExtension } from '@mtl/trainer';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { checkpointToHuggingFace } from '../src/saved/conversion/from-checkpoint.js';
import { huggingFaceToCheckpoint } from '../src/saved/conversion/to-checkpoint.js';
import { loadGptForInference } from '../src/saved/inference/load-gpt-for-inference.js';
import { type TrainOptions, train } from '../src/training/train.js';
import { preparedCorpus } from './support/prepared-corpus.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-left-open-'));
const locate = (name: string): string => join(directory, name);
const onNotice = (): void => {};

/** Options of a tiny run, on a corpus whose indices are read quickly. */
const tiny = {
  preset: 'char-10m',
  model: { numLayers: 1, hiddenSize: 32, numAttentionHeads: 2, maxPositionEmbeddings: 16 },
  data: { sequenceLength: 16, split: '90,10,0', ...(await preparedCorpus(directory)).data },
  training: { microBatchSize: 2, globalBatchSize: 2, trainIterations: 1, evalIterations: 1 },
  layout: { threads: 1 },
  logging: { noEvalSamples: true },
} as const satisfies TrainOptions;
const conversations = {
  data: {
    sequenceLength: 16,
    tokenizerType: tiny.data.tokenizerType,
    trainData: [locate('train.jsonl')],
    chatTemplate: locate('chat.jinja'),
  },
} satisfies TrainOptions;

beforeAll(async () => {
  writeFileSync(locate('file'), '');
  mkdirSync(locate('folder'));
  writeFileSync(
    locate('chat.jinja'),
    '{% for m in messages %}{{ m.role[0] + m.content + eos_token }}{% endfor %}',
  );
  const messages = [
    { role: 'user', content: '1' },
    { role: 'assistant', content: '2' },
  ];
  writeFileSync(locate('train.jsonl'), `${JSON.stringify({ messages })}\n`.repeat(4));
  await trained({ ...tiny, checkpoint: { save: locate('saved') } });
  // a checkpoint with damaged values and an intact manifest
  cpSync(locate('saved'), locate('damaged'), { recursive: true });
  const shard = locate('damaged/iter_0000001/shard-00000-000.safetensors');
  const bytes = readFileSync(shard);
  bytes[bytes.length - 3]! ^= 1;
  writeFileSync(shard, bytes);
  await checkpointToHuggingFace({ load: locate('saved'), directory: locate('hf'), dtype: 'F32', onNotice });
  cpSync(locate('hf'), locate('hf-damaged'), { recursive: true });
  const weights = locate('hf-damaged/model.safetensors');
  writeFileSync(weights, readFileSync(weights).subarray(0, -8));
});
afterAll(() => rmSync(directory, { recursive: true }));

async function trained(options: TrainOptions, { steps = true } = {}): Promise<void> {
  await using training = await train(options);
  if (steps) await training.run();
}

/** Returns an extension that throws when the loop calls it. */
const failing = (part: 'beforeStep' | 'onGradients' | 'afterStep'): TrainerExtension => ({
  name: part,
  [part]: () => {
    throw new Error(part);
  },
});
const twice: readonly TrainerExtension[] = [{ name: 'a' }, { name: 'a' }];

async function inference(load: string, { isLeft = false } = {}): Promise<void> {
  using loaded = await loadGptForInference({ load: locate(load), device: 'cpu', onNotice });
  const { model } = loaded;
  for await (const _ of generate({ model, prompts: [[1], [2, 3]], maxNewTokens: 4 })) if (isLeft) break;
  await perplexity({ model, tokens: [1, 2, 3, 4], window: 4 });
}

const neverLoaded = async (): Promise<void> => {
  await loadGptForInference({ loadHuggingFace: locate('hf-damaged'), device: 'cpu', onNotice });
};

it.each<[name: string, call: () => Promise<unknown>, error?: string | RegExp]>([
  ['train', () => trained(tiny)],
  ['train on the corpus of its preset', () => trained({ ...tiny, data: { sequenceLength: 16 } })],
  ['train, whose steps are not run', () => trained(tiny, { steps: false })],
  ['train on conversations', () => trained({ ...tiny, ...conversations })],
  ['train from a model', () => trained({ ...tiny, checkpoint: { load: locate('saved'), finetune: true } })],
  ['train that has two extensions of a name', () => trained({ ...tiny, extensions: twice }), 'MTL_EXTENSION'],
  [
    'train that cannot report',
    () => trained({ ...tiny, logging: { tensorboardDirectory: locate('file') } }),
    /EEXIST/,
  ],
  [
    'train that cannot report, nor write metrics',
    () => trained({ ...tiny, logging: { metricsJsonl: locate('folder') } }),
    'MTL_METRICS_FILE',
  ],
  [
    'train whose metrics are open when a service cannot be',
    () =>
      trained({
        ...tiny,
        logging: { metricsJsonl: locate('m.jsonl'), tensorboardDirectory: locate('file') },
      }),
    /EEXIST/,
  ],
  [
    'train that cannot save',
    () => trained({ ...tiny, checkpoint: { save: locate('file') } }),
    'MTL_CHECKPOINT_DENIED',
  ],
  [
    'train from what is damaged',
    () => trained({ ...tiny, checkpoint: { load: locate('damaged'), finetune: true } }),
    /MTL_CHECKPOINT/,
  ],
  [
    'train from a damaged directory',
    () => trained({ ...tiny, checkpoint: { loadHuggingFace: locate('hf-damaged') } }),
    /MTL_/,
  ],
  ['train without data', () => trained({ ...tiny, data: { ...tiny.data, split: '0,1,0' } }), 'MTL_SPLIT'],
  [
    'train that fails before a step',
    () => trained({ ...tiny, extensions: [failing('beforeStep')] }),
    'beforeStep',
  ],
  [
    'train that fails in a step',
    () => trained({ ...tiny, extensions: [failing('onGradients')] }),
    'onGradients',
  ],
  [
    'train that fails after a step',
    () => trained({ ...tiny, extensions: [failing('afterStep')] }),
    'afterStep',
  ],
  ['generate and perplexity', () => inference('saved')],
  ['generate that is left', () => inference('saved', { isLeft: true })],
  ['a model that is damaged', () => inference('damaged'), /MTL_CHECKPOINT/],
  ['a directory that is damaged', neverLoaded, /MTL_/],
  [
    'conversion',
    async () => {
      const to = mkdtempSync(join(directory, 'converted-'));
      await huggingFaceToCheckpoint({ loadHuggingFace: locate('hf'), directory: to, onNotice });
      const back = mkdtempSync(join(directory, 'back-'));
      await checkpointToHuggingFace({ load: to, directory: back, dtype: 'F32', onNotice });
    },
  ],
])('%s leaves no descriptor and no tensor', async (_, call, error) => {
  const once = async (): Promise<void> => {
    const reason = (await call().then(
      () => undefined,
      (cause: unknown) => cause,
    )) as (Error & { code?: string }) | undefined;
    if (error === undefined) expect(reason).toBeUndefined();
    else expect(`${reason?.code} ${reason?.message}`).toMatch(error);
  };
  // resources that a process opens only once, such as threads
  await once();
  const before = { descriptors: openFiles(), numTensors: numLiveTensors() };
  await once();
  expect({ descriptors: openFiles(), numTensors: numLiveTensors() }).toEqual(before);
});

/** Returns the number of open file descriptors of this process. */
const openFiles = (): number => readdirSync('/proc/self/fd').length;
