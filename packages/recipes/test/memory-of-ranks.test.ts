import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allocateParameters } from '@mtl/autograd';
import { gptModelOf, parseFlags, validateConfiguration } from '@mtl/configuration';
import { createTokenizer } from '@mtl/data';
import { gptParameters, parameterTensors, writeHuggingFaceGpt } from '@mtl/models';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { MeasuredMemory, MeasureMemoryArgument } from './ranks/measure-memory.js';
import { prepareCorpus } from './support/prepare-corpus.js';
import { prepareSentences } from './support/prepare-sentences.js';
import { processTestMs, runProcesses } from './support/run-processes.js';

/** Activations are most of the memory: what layouts do to them cannot hide behind parameters. */
const recipe = [
  ...['--preset', 'none', '--num-layers', '4', '--hidden-size', '64', '--num-attention-heads', '4'],
  ...['--seq-length', '256', '--max-position-embeddings', '256'],
  ...['--lr', '1e-3', '--lr-decay-style', 'constant'],
  ...['--attention-dropout', '0.1', '--hidden-dropout', '0.1', '--clip-grad', '1', '--eval-iters', '0'],
  ...['--split', '90,10,0', '--threads', '1'],
];
interface PipelineSizes {
  readonly numChunks?: number;
  /** The smaller, the more the 0.6 MB show that matmuls take for themselves. */
  readonly microBatch?: number;
}

const tensor = (size: number): string[] => ['--tensor-model-parallel-size', `${size}`];
const pipeline = (
  size: number,
  schedule: string,
  { numChunks, microBatch = 4 }: PipelineSizes = {},
): string[] => [
  ...['--pipeline-model-parallel-size', `${size}`, '--pipeline-schedule', schedule],
  ...(numChunks === undefined ? [] : ['--num-virtual-stages-per-pipeline-rank', `${numChunks}`]),
  // six micro-batches: more than are under way at once in 1F1B; one step has seen all that there is
  ...[
    '--global-batch-size',
    `${6 * microBatch}`,
    '--micro-batch-size',
    `${microBatch}`,
    '--train-iters',
    '1',
  ],
];
const batchOf = (flags: readonly string[]): string[] =>
  flags.includes('--global-batch-size')
    ? []
    : ['--global-batch-size', '16', '--micro-batch-size', '8', '--train-iters', '2'];
const sequence = '--sequence-parallel';
const distributed = ['--use-distributed-optimizer', '--overlap-grad-reduce', '--overlap-param-gather'];
const post = ['--layer-norm-placement', 'post'];
const rotary = [...post, '--position-embedding-type', 'rope', '--rotary-interleaved'];
const recompute = ['--recompute-granularity', 'full', '--recompute-method', 'uniform'];
const lora = ['--lora-rank', '8', '--lora-dropout', '0.1', '--lora-targets', 'c_attn', 'mlp.c_proj'];

const cases = [
  { name: 'one process', worldSize: 1, flags: [] },
  { name: 'one process, recomputed', worldSize: 1, flags: recompute },
  { name: 'one process, bf16', worldSize: 1, flags: ['--bf16'] },
  { name: 'tp 2', worldSize: 2, flags: tensor(2) },
  { name: 'tp 2, sequence parallel', worldSize: 2, flags: [...tensor(2), sequence] },
  {
    name: 'tp 2, sequence parallel, recomputed',
    worldSize: 2,
    flags: [...tensor(2), sequence, ...recompute],
  },
  { name: 'tp 2, sequence parallel, bf16', worldSize: 2, flags: [...tensor(2), sequence, '--bf16'] },
  { name: 'dp 2', worldSize: 2, flags: [] },
  { name: 'dp 2, distributed optimizer', worldSize: 2, flags: distributed },
  { name: 'dp 2, distributed optimizer, bf16', worldSize: 2, flags: [...distributed, '--bf16'] },
  { name: 'tp 4, sequence parallel', worldSize: 4, flags: [...tensor(4), sequence] },
  { name: 'pp 2', worldSize: 2, flags: pipeline(2, '1f1b') },
  { name: 'pp 2, all forward first', worldSize: 2, flags: pipeline(2, 'gpipe') },
  { name: 'pp 2, recomputed', worldSize: 2, flags: [...pipeline(2, 'gpipe'), ...recompute] },
  { name: 'pp 2, interleaved', worldSize: 2, flags: pipeline(2, 'interleaved', { numChunks: 2 }) },
  { name: 'pp 2, breadth-first', worldSize: 2, flags: pipeline(2, 'breadth-first', { numChunks: 2 }) },
  { name: 'pp 2, zb-h1', worldSize: 2, flags: pipeline(2, 'zb-h1') },
  { name: 'pp 2, zb-h2', worldSize: 2, flags: pipeline(2, 'zb-h2') },
  { name: 'pp 2, zb-v', worldSize: 2, flags: pipeline(2, 'zb-v') },
  {
    name: 'pp 2 x tp 2, zb-v, sequence parallel, bf16',
    worldSize: 4,
    flags: [...pipeline(2, 'zb-v', { microBatch: 8 }), ...tensor(2), sequence, '--bf16'],
  },
  {
    name: 'pp 2 x tp 2, sequence parallel, bf16',
    worldSize: 4,
    flags: [...pipeline(2, '1f1b', { microBatch: 8 }), ...tensor(2), sequence, '--bf16'],
  },
  { name: 'tp 2 x dp 2, everything', worldSize: 4, flags: [...tensor(2), sequence, ...distributed] },
  { name: 'LoRA, one process', worldSize: 1, flags: lora },
  { name: 'LoRA, dp 2, distributed optimizer', worldSize: 2, flags: [...lora, ...distributed] },
  {
    name: 'LoRA, tp 2, sequence parallel, bf16, recomputed',
    worldSize: 2,
    flags: [...lora, ...tensor(2), sequence, '--bf16', ...recompute],
  },
  { name: 'BERT, one process', worldSize: 1, model: 'bert', flags: [] },
  { name: 'BERT, one process, norms after sublayers', worldSize: 1, model: 'bert', flags: post },
  {
    name: 'BERT, pp 2, rotary positions',
    worldSize: 2,
    model: 'bert',
    flags: [...pipeline(2, '1f1b'), ...rotary],
  },
  { name: 'BERT, tp 2, sequence parallel', worldSize: 2, model: 'bert', flags: [...tensor(2), sequence] },
  { name: 'BERT, dp 2, distributed optimizer', worldSize: 2, model: 'bert', flags: distributed },
  { name: 'BERT, pp 2', worldSize: 2, model: 'bert', flags: [...pipeline(2, '1f1b'), ...post] },
  { name: 'BERT, pp 2, zb-v', worldSize: 2, model: 'bert', flags: pipeline(2, 'zb-v') },
  {
    name: 'BERT, pp 2 x tp 2, sequence parallel, bf16',
    worldSize: 4,
    model: 'bert',
    flags: [...pipeline(2, '1f1b', { microBatch: 8 }), ...tensor(2), sequence, '--bf16'],
  },
] as const;
const names = cases.map(({ name }) => name);
type Name = (typeof names)[number];

/** What waits at a sender whose receiver is slow, at most: the output of each of six micro-batches. */
function waitingBytes(name: Name): number {
  const flags: readonly string[] = cases.find((each) => each.name === name)!.flags;
  if (!flags.includes('--pipeline-model-parallel-size')) return 0;
  const microBatch = Number(flags[flags.indexOf('--micro-batch-size') + 1]);
  const bytes = flags.includes('--bf16') ? 2 : 4;
  const ranks = flags.includes(sequence) ? 2 : 1;
  return (6 * microBatch * 256 * 64 * bytes) / ranks;
}

const isAdapted = (name: string): boolean => name.startsWith('LoRA');

/** The model of the recipe, for adapters to be trained of. */
async function writeBase(directory: string): Promise<void> {
  const { vocabularySize } = await createTokenizer({ type: 'ByteLevelTokenizer' });
  const unused = ['--data-path', 'unused', '--tokenizer-type', 'ByteLevelTokenizer'];
  const batch = ['--micro-batch-size', '1', '--train-iters', '1'];
  const { model: flags } = validateConfiguration(parseFlags([...recipe, ...unused, ...batch]));
  const model = gptModelOf(flags, vocabularySize);
  const parameters = gptParameters(model);
  const storage = allocateParameters(parameters, { device: 'cpu', dtype: 'float32' });
  await writeHuggingFaceGpt({ directory, model, tensors: parameterTensors(parameters) });
  storage.dispose();
}

describe('the memory of a rank, in processes that train', () => {
  const measured = new Map<Name, readonly MeasuredMemory[]>();
  let directory: string;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-memory-'));
    const base = join(directory, 'base');
    await writeBase(base);
    const corpora = {
      gpt: await prepareCorpus(directory),
      // documents much longer than a sequence, so that samples fill theirs
      bert: [...(await prepareSentences(directory, { numSentences: 900 })), '--short-seq-prob', '0'],
    };
    for (const worldSize of [1, 2, 4]) {
      const own = cases.filter((each) => each.worldSize === worldSize);
      const ranks = await runProcesses<MeasuredMemory[]>({
        worldSize,
        module: new URL('./ranks/measure-memory.ts', import.meta.url),
        argument: own.map((each): MeasureMemoryArgument => {
          const model = 'model' in each ? each.model : 'gpt';
          const flags = [...recipe, ...corpora[model], ...batchOf(each.flags), ...each.flags];
          return { model, flags: isAdapted(each.name) ? [...flags, '--load-hf', base] : flags };
        }),
      });
      own.forEach(({ name }, index) => {
        measured.set(
          name,
          ranks.map((results) => results[index]!),
        );
      });
    }
  }, 3 * processTestMs);
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it.each(names)('is what a dry run counts: %s', (name) => {
    for (const { peak, dry } of measured.get(name)!) {
      // a message waits at its sender until the receiver takes it, which a dry run does at once
      const waiting = waitingBytes(name);
      expect(peak).toBeGreaterThanOrEqual(waiting === 0 ? dry.peakBytes : 0.99 * dry.peakBytes);
      expect(peak).toBeLessThanOrEqual(dry.peakBytes + waiting);
    }
  });

  it('holds an optimizer of the adapters alone', () => {
    const [{ dry: whole }] = measured.get('one process') as [MeasuredMemory];
    const [{ dry: adapted }] = measured.get('LoRA, one process') as [MeasuredMemory];
    const numAdapted = adapted.numParameters - whole.numParameters;
    const { parameters, gradients, optimizer } = adapted.memoryByKind;
    // float32, and what buffers are padded to and allocators round up, an eighth of each at most
    const rounded = 9 / 8;
    expect(parameters).toBeGreaterThanOrEqual(4 * adapted.numParameters);
    expect(parameters).toBeLessThan(4 * adapted.numParameters * rounded);
    expect(gradients).toBeGreaterThanOrEqual(4 * numAdapted);
    expect(gradients).toBeLessThan(4 * numAdapted * rounded);
    // two moments
    expect(optimizer).toBeGreaterThanOrEqual(8 * numAdapted);
    expect(optimizer).toBeLessThan(whole.memoryByKind.optimizer / 8);
  });

  it.each(names)('comes with the FLOPs and bytes that a dry run counts: %s', (name) => {
    for (const { flops, sentBytes, dry } of measured.get(name)!) {
      const { world: _, embedding: __, ...sent } = dry.sentBytes;
      if (name.startsWith('BERT')) {
        // samples of a corpus do not all fill their sequences, as those of a dry run do
        expect(flops / dry.flops).toBeGreaterThan(0.95);
        expect(flops).toBeLessThanOrEqual(dry.flops);
        expect((sentBytes.pp ?? 0) / (sent.pp ?? 1)).toBeLessThanOrEqual(1);
      } else {
        expect({ flops, sentBytes }).toEqual({ flops: dry.flops, sentBytes: sent });
      }
    }
  });
});
