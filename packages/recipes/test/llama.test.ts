import { configurationJson, parseFlags, validateConfiguration } from '@mtl/configuration';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dryRun } from '../src/index.js';
import type { TrainGptResult } from './ranks/train-gpt.js';
import {
  numbersOf,
  printedTwice,
  TrainingRuns,
  tolerances,
  validationDifference,
} from './support/training-runs.js';

/**
 * Megatron-LM's example for Llama 3 8B, without its flags of FP8 and context parallelism; sizes are divided
 * by `divisor`.
 */
const llama3 = (divisor: number): readonly string[] => [
  ...['--use-mcore-models', '--num-layers', '32', '--hidden-size', `${4096 / divisor}`],
  ...['--ffn-hidden-size', `${14_336 / divisor}`, '--num-attention-heads', '32', '--group-query-attention'],
  ...['--num-query-groups', '8', '--kv-channels', `${128 / divisor}`, '--seq-length', '8192'],
  ...['--max-position-embeddings', '8192', '--position-embedding-type', 'rope', '--rotary-base', '1000000'],
  ...['--rotary-percent', '1.0', '--attention-dropout', '0.0', '--hidden-dropout', '0.0', '--swiglu'],
  ...['--init-method-std', '0.0134', '--attention-backend', 'fused', '--normalization', 'RMSNorm'],
  ...['--norm-epsilon', '1e-5', '--untie-embeddings-and-output-weights', '--disable-bias-linear'],
  ...['--transformer-impl', 'transformer_engine', '--micro-batch-size', '1', '--global-batch-size', '128'],
  ...['--train-samples', '1953125000', '--lr-decay-samples', '1949218748', '--lr-warmup-samples', '3906252'],
  ...['--lr', '0.00015', '--min-lr', '0.00001', '--lr-decay-style', 'cosine', '--clip-grad', '1.0'],
  ...['--weight-decay', '0.1', '--adam-beta1', '0.9', '--adam-beta2', '0.95', '--bf16'],
  ...['--cross-entropy-loss-fusion', '--manual-gc', '--use-distributed-optimizer', '--overlap-grad-reduce'],
  ...['--overlap-param-gather', '--sequence-parallel', '--tensor-model-parallel-size', '2'],
];

describe("Megatron-LM's example for Llama 3 8B", () => {
  const parsed = parseFlags([...llama3(1), '--tokenizer-type', 'NullTokenizer', '--vocab-size', '128256'], {
    unused: { 'data-path': ['bundled'] },
  });
  const configuration = validateConfiguration(parsed, { worldSize: 16 });

  it('is a model of 8 billion parameters, of which a dry run counts the memory of a rank', async () => {
    const { numParameters, ranks } = await dryRun(configuration);
    expect(numParameters).toBe(8_030_261_248);
    expect(ranks.length).toBe(2);
    for (const rank of ranks) {
      // half of the matrices
      expect(rank.numParameters / numParameters).toBeGreaterThan(0.5);
      expect(rank.numParameters / numParameters).toBeLessThan(0.501);
      // bf16 values, fp32 gradients, and a shard of an eighth of what the optimizer keeps
      expect(rank.peakBytes).toBeGreaterThan((2 + 4 + 12 / 8) * rank.numParameters);
    }
  });

  it('names the flags that have no effect', () => {
    const names = configuration.notices.map((notice) => /^--\S+/.exec(notice)?.[0]);
    expect(names).toEqual([
      '--use-mcore-models',
      '--attention-backend',
      '--transformer-impl',
      '--cross-entropy-loss-fusion',
      '--manual-gc',
    ]);
  });

  it('is written with the meaning of each flag', () => {
    const { resolved } = configurationJson(configuration);
    expect(resolved.model).toMatchObject({
      headSize: 128,
      groupQueryAttention: true,
      numQueryGroups: 8,
      ffnHiddenSize: 14_336,
      positionEmbeddingType: 'rope',
      rotaryBase: 1_000_000,
      normalization: 'RMSNorm',
      swiglu: true,
      addBiasLinear: false,
      untieEmbeddingsAndOutputWeights: true,
    });
  });
});

describe('a Llama 3 of 1/64 of the width', () => {
  let runs: TrainingRuns;
  let alone: TrainGptResult;
  const stages = ['--pipeline-model-parallel-size', '2'];
  const tensor = ['--tensor-model-parallel-size', '2', '--sequence-parallel'];
  const full = [
    ...['--recompute-granularity', 'full', '--recompute-method', 'uniform'],
    ...['--recompute-num-layers', '1'],
  ];
  const distributed = ['--use-distributed-optimizer', '--overlap-grad-reduce', '--overlap-param-gather'];

  beforeAll(async () => {
    const architecture = llama3(64).slice(0, llama3(64).indexOf('--transformer-impl'));
    const ofTest = ['--num-layers', '4', '--seq-length', '32', '--max-position-embeddings', '32'];
    const recipe = ['--train-iters', '8', '--eval-interval', '4', '--lr', '2e-3', '--init-method-std', '0.1'];
    runs = await TrainingRuns.create([...withoutSizes(architecture), ...ofTest, ...recipe]);
    alone = (await runs.run(1, [{ name: 'alone' }]))[0]![0]!;
  });
  afterAll(() => runs.remove());

  /** Without the sizes that the test has otherwise. */
  function withoutSizes(flags: readonly string[]): readonly string[] {
    const others = new Set([
      '--num-layers',
      '--seq-length',
      '--max-position-embeddings',
      '--init-method-std',
    ]);
    return flags.filter((flag, index) => !others.has(flag) && !others.has(flags[index - 1]!));
  }

  it('learns', () => {
    const losses = runs.metricsOf('alone').map(({ lm_loss: loss }) => loss);
    expect(losses.length).toBe(8);
    expect(losses[0]! - losses.at(-1)!).toBeGreaterThan(0.2);
  });

  it('trains, evaluates and generates on two stages of two ranks as in one process', async () => {
    const flags = [...stages, ...tensor, ...full];
    const [ranks] = await runs.run(4, [{ name: 'sharded', flags }]);
    const { loss, norm } = runs.differences('sharded', 'alone');
    expect(loss).toBeLessThan(tolerances.fp32.loss);
    expect(norm).toBeLessThan(tolerances.fp32.norm);
    const [first] = ranks!;
    expect(validationDifference(first!.output, alone.output)).toBeLessThan(
      tolerances.fp32.loss + printedTwice,
    );
    expect(first!.sample).toBe(alone.sample);
  });

  it('goes on from a checkpoint of another layout', async () => {
    const [exit, load] = [
      ['--exit-interval', '4'],
      ['--load', runs.pathOf('moved')],
    ];
    await runs.run(4, [{ name: 'moved', flags: [...stages, ...tensor, ...exit] }]);
    const first = runs.metricsOf('moved');
    await runs.run(2, [{ name: 'moved', flags: [...distributed, ...load, '--exit-interval', '6'] }]);
    await runs.run(1, [{ name: 'moved', flags: load }]);
    const lines = runs.metricsOf('moved');
    const expected = runs.metricsOf('alone');
    expect(first.length).toBe(4);
    expect(lines.map(({ iteration }) => iteration)).toEqual(expected.map(({ iteration }) => iteration));
    numbersOf(lines).forEach(([loss, norm], index) => {
      const [expectedLoss, expectedNorm] = numbersOf(expected)[index]!;
      expect(Math.abs(loss! / expectedLoss! - 1)).toBeLessThan(tolerances.fp32.loss);
      expect(Math.abs(norm! / expectedNorm! - 1)).toBeLessThan(tolerances.fp32.norm);
    });
  });
});
