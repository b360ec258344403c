import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ncclProblem } from '@mtl/comm/internal';
import { findGpu } from '@mtl/kernels/internal';
import { prepareCorpus } from '@mtl/runs/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readMetrics, runGptTrain } from '../run-gpt-train.js';
import { runRanks } from '../run-ranks.js';

const { title, problem, isEmulated } = findGpu();
const whyNotNccl =
  problem ?? (isEmulated ? 'emulated devices have no streams' : ncclProblem()?.split('\n')[0]);
const numSteps = 3;
const recipe = [
  ...['--device', 'cuda', '--preset', 'none', '--hidden-size', '32'],
  ...['--num-attention-heads', '2', '--seq-length', '16', '--max-position-embeddings', '16'],
  ...['--micro-batch-size', '1', '--train-iters', String(numSteps)],
  ...['--lr', '1e-3', '--lr-decay-style', 'constant', '--eval-iters', '0', '--log-interval', '1'],
  ...['--attention-dropout', '0.1', '--hidden-dropout', '0.1', '--threads', '1', '--split', '100,0,0'],
];

interface Layout {
  readonly flags: readonly string[];
  /** Default: 2. */
  readonly numLayers?: number;
  /** Default: 2. */
  readonly numProcesses?: number;
  /** Default: 4. */
  readonly globalBatchSize?: number;
}

const pipeline = ['--pipeline-model-parallel-size', '2'];
const interleaved = [...pipeline, '--num-virtual-stages-per-pipeline-rank', '2'];
const recomputed = [
  ...['--recompute-granularity', 'full', '--recompute-method', 'uniform', '--recompute-num-layers', '1'],
];
const tensorParallel = ['--tensor-model-parallel-size', '2'];
const contextParallel = ['--context-parallel-size', '2'];
const overlapping = ['--use-distributed-optimizer', '--overlap-grad-reduce', '--overlap-param-gather'];
const layouts: Readonly<Record<string, Layout>> = {
  'tp 2': { flags: tensorParallel },
  'tp 2 with sequence parallelism': { flags: [...tensorParallel, '--sequence-parallel'] },
  'dp 2': { flags: overlapping },
  'cp 2': { flags: [...contextParallel, ...overlapping] },
  'cp 2 by all-gather': { flags: [...contextParallel, '--cp-comm-type', 'all_gather'] },
  'cp 2, heads exchanged': { flags: [...contextParallel, '--cp-comm-type', 'a2a'] },
  'pp 2': { flags: pipeline },
};

const experts = [
  ...['--normalization', 'RMSNorm', '--swiglu', '--disable-bias-linear', '--num-experts', '4'],
  ...['--moe-ffn-hidden-size', '24', '--moe-shared-expert-intermediate-size', '16'],
  ...['--moe-router-load-balancing-type', 'seq_aux_loss', '--moe-aux-loss-coeff', '0.01'],
  ...['--moe-z-loss-coeff', '0.001'],
];
const spread = [...experts, '--expert-model-parallel-size', '2'];
/** Layouts with experts, which are compared with one process on the CPU. */
const sparse: Readonly<Record<string, Layout>> = {
  'ep 2': { flags: spread },
  'ep 2 by all-gather': { flags: [...spread, '--moe-token-dispatcher-type', 'allgather'] },
};

/** Layouts whose passes are launched as graphs. */
const graphed: Readonly<Record<string, Layout>> = {
  // the first of a step's two micro-batches is launched as graphs, the last one reduces gradients
  'dp 2': { flags: overlapping },
  // up to two micro-batches in flight, layers computed again
  'pp 2': { flags: [...pipeline, ...recomputed] },
  // two model chunks in each process: one receives while passes of the other are recorded
  'pp 2, interleaved': { flags: interleaved, numLayers: 4 },
  // all forward passes first
  'pp 2, breadth-first': { flags: [...interleaved, '--pipeline-schedule', 'breadth-first'], numLayers: 4 },
  // the halves of backward run separately
  'pp 2, zb-h1': { flags: [...pipeline, '--pipeline-schedule', 'zb-h1'] },
  // the same, with embedding and head, which share their weight, on one rank
  'pp 2, zb-v': { flags: [...pipeline, '--pipeline-schedule', 'zb-v'], numLayers: 4 },
  // reductions of one chunk end while passes of the other are recorded
  'dp 2, pp 2, interleaved': {
    flags: [...interleaved, ...overlapping],
    numLayers: 4,
    numProcesses: 4,
    globalBatchSize: 8,
  },
};

describe.skipIf(problem !== undefined)(`ranks on one GPU (${title})`, () => {
  let directory: string;
  let alone: ReturnType<typeof readMetrics>;
  let sparseAlone: ReturnType<typeof readMetrics>;
  let data: readonly string[];

  const makeFlags = (run: string, { flags, numLayers = 2, globalBatchSize = 4 }: Layout): string[] => [
    ...[...recipe, ...data, ...flags],
    ...['--num-layers', String(numLayers), '--global-batch-size', String(globalBatchSize)],
    ...['--save', join(directory, run), '--metrics-jsonl', join(directory, `${run}.jsonl`)],
  ];

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-gpt-cuda-'));
    data = await prepareCorpus(directory);
    const { code, output } = await runGptTrain({ flags: makeFlags('alone', { flags: [] }), directory });
    expect(output.slice(-2000)).toContain(`${numSteps}/`);
    expect(code).toBe(0);
    alone = readMetrics(join(directory, 'alone.jsonl'));
    // the last --device on a command line counts
    const onCpu = [...makeFlags('sparse', { flags: experts }), '--device', 'cpu'];
    const { output: printed } = await runGptTrain({ flags: onCpu, directory });
    expect(printed.slice(-2000)).toContain(`${numSteps}/`);
    sparseAlone = readMetrics(join(directory, 'sparse.jsonl'));
  }, 240_000);
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  const runs = new Map<string, ReturnType<typeof readMetrics>>();

  /** Trains in two or more processes; later calls for the same run do nothing. */
  async function train(run: string, layout: Layout, engine: string) {
    const before = runs.get(run);
    if (before !== undefined) return before;
    const { code, output } = await runRanks({
      numProcesses: layout.numProcesses ?? 2,
      flags: makeFlags(run, layout),
      directory,
      // all ranks may be on one GPU
      variables: engine === 'nccl' ? { MTL_NCCL_SHARE_GPU: '1' } : {},
    });
    expect(code, output.slice(-3000)).toBe(0);
    expect(output).toContain(`ranks communicate over ${engine}`);
    expect(output.includes('passes over micro-batches are launched as graphs')).toBe(
      layout.flags.includes('--cuda-graphs'),
    );
    // the message of any rank
    expect(output).not.toContain('operations are launched one by one');
    const steps = readMetrics(join(directory, `${run}.jsonl`));
    expect(steps).toHaveLength(numSteps);
    runs.set(run, steps);
    return steps;
  }

  /** Compares every step of several processes with the same step of one process. */
  async function compare(run: string, layout: Layout, engine: string, one = alone): Promise<void> {
    const steps = await train(run, layout, engine);
    steps.forEach(({ lm_loss, grad_norm }, step) => {
      const expected = one[step]!;
      // the bounds of layouts against one process: rounding alone was measured at 2e-7 (loss) and 2e-6 (norm)
      expect(Math.abs(lm_loss! / expected.lm_loss! - 1), `loss of step ${step + 1}`).toBeLessThan(2e-6);
      expect(Math.abs(grad_norm! / expected.grad_norm! - 1), `norm of step ${step + 1}`).toBeLessThan(2e-5);
    });
  }

  /** Compares runs with and without graphs: every step, and the weights after the last one. */
  async function compareGraphs(run: string, layout: Layout, engine: string): Promise<void> {
    const withGraphs = { ...layout, flags: [...layout.flags, '--cuda-graphs'] };
    const plain = await train(run, layout, engine);
    const steps = await train(`${run} with graphs`, withGraphs, engine);
    const listNumbers = (all: typeof steps) => all.map(({ lm_loss, grad_norm }) => ({ lm_loss, grad_norm }));
    expect(listNumbers(steps)).toEqual(listNumbers(plain));
    expect(hashShards(join(directory, `${run} with graphs`))).toEqual(hashShards(join(directory, run)));
  }

  const over = (backend: 'local' | 'nccl', { flags, ...more }: Layout): Layout => ({
    ...more,
    flags: ['--distributed-backend', backend, ...flags],
  });

  it.each(Object.entries(layouts))(
    'train as one process does through the memory of the host: %s',
    (name, layout) => compare(`staged+local ${name}`, over('local', layout), 'staged+local'),
    120_000,
  );

  it.skipIf(whyNotNccl !== undefined).each(Object.entries(layouts))(
    `train as one process does over NCCL (${whyNotNccl ?? 'on one GPU'}): %s`,
    (name, layout) => compare(`nccl ${name}`, over('nccl', layout), 'nccl'),
    120_000,
  );

  it.each(Object.entries(sparse))(
    'train experts as one process on the CPU does, through the memory of the host: %s',
    (name, layout) => compare(`staged+local ${name}`, over('local', layout), 'staged+local', sparseAlone),
    120_000,
  );

  it.skipIf(whyNotNccl !== undefined).each(Object.entries(sparse))(
    `train experts as one process on the CPU does, over NCCL (${whyNotNccl ?? 'on one GPU'}): %s`,
    (name, layout) => compare(`nccl ${name}`, over('nccl', layout), 'nccl', sparseAlone),
    120_000,
  );

  it.each(Object.entries(graphed))(
    'launch graphs with the same losses and weights to the bit, through the memory of the host: %s',
    (name, layout) => compareGraphs(`staged+local graphed ${name}`, over('local', layout), 'staged+local'),
    120_000,
  );

  it.skipIf(whyNotNccl !== undefined).each(Object.entries(graphed))(
    `launch graphs with the same losses and weights to the bit over NCCL (${whyNotNccl ?? 'on one GPU'}): %s`,
    (name, layout) => compareGraphs(`nccl graphed ${name}`, over('nccl', layout), 'nccl'),
    120_000,
  );
});

/**
 * Returns the SHA-256 of a checkpoint's files of tensors, by name: weights, their float32 masters and both
 * moments of Adam.
 */
function hashShards(directory: string): Readonly<Record<string, string>> {
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  const shards = files.filter((file) => file.endsWith('.safetensors'));
  expect(shards.length).toBeGreaterThan(0);
  const computeHash = (file: string) =>
    createHash('sha256')
      .update(readFileSync(join(directory, file)))
      .digest('hex');
  return Object.fromEntries(shards.map((file) => [file, computeHash(file)]));
}
