import {
  configurationJson,
  configure,
  parseFlags,
  type RunOptions,
  validateConfiguration,
} from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TrainGptResult } from './ranks/train-gpt.js';
import {
  listNumbers,
  printedTwice,
  TrainingRuns,
  tolerances,
  validationDifference,
} from './support/training-runs.js';
import { withoutFlags } from './support/without-flags.js';

const words = (line: string): readonly string[] => line.trim().split(/\s+/);

/** Every flag that Megatron-LM's example for Llama 3 8B on 8 GPUs passes to its training program. */
const script = words(`
  --use-mcore-models --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
  --group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length 8192
  --max-position-embeddings 8192 --position-embedding-type rope --rotary-base 1000000 --rotary-percent 1.0
  --attention-dropout 0.0 --hidden-dropout 0.0 --swiglu --init-method-std 0.0134 --attention-backend fused
  --apply-layernorm-1p --untie-embeddings-and-output-weights --disable-bias-linear
  --micro-batch-size 1 --global-batch-size 128 --train-samples 1953125000 --lr-decay-samples 1949218748
  --lr-warmup-samples 3906252 --lr 0.00015 --min-lr 0.00001 --decoupled-lr 5.0e-4 --decoupled-min-lr 4.5e-5
  --lr-decay-style cosine --clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --bf16
  --grad-reduce-in-bf16 --cross-entropy-loss-fusion --calculate-per-token-loss --manual-gc
  --empty-unused-memory-level 1 --exit-duration-in-mins 235
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
  --fp8-format hybrid --fp8-amax-history-len 1024 --fp8-amax-compute-algo max --fp8-param-gather
  --tensor-model-parallel-size 1 --context-parallel-size 1 --sequence-parallel
  --mock-data --tokenizer-type NullTokenizer --vocab-size 128256 --data-cache-path cache --tiktoken-pattern v2
  --split 99,1,0 --no-create-attention-mask-in-dataloader --no-mmap-bin-files --num-workers 1
  --log-interval 1 --eval-iters 32 --eval-interval 100 --save-interval 1000 --log-throughput --profile
  --profile-step-start 4 --profile-step-end 6 --ckpt-format torch_dist --distributed-timeout-minutes 60
  --save llama3 --load llama3 --tensorboard-dir logs`);

/** The flags of the script that training runs here do not support: FP8. */
const leftOut = ['--fp8-format', '--fp8-amax-history-len', '--fp8-amax-compute-algo', '--fp8-param-gather'];

/** The flags of the script that are accepted and have no effect. */
const withoutEffect = [
  ...['--use-mcore-models', '--attention-backend', '--apply-layernorm-1p', '--grad-reduce-in-bf16'],
  ...['--cross-entropy-loss-fusion', '--calculate-per-token-loss', '--manual-gc'],
  ...['--empty-unused-memory-level', '--tiktoken-pattern'],
  ...['--no-create-attention-mask-in-dataloader', '--no-mmap-bin-files', '--num-workers'],
  ...['--log-throughput', '--profile', '--profile-step-start', '--profile-step-end', '--ckpt-format'],
];

const accepted = withoutFlags(script, leftOut);

/** The options for the flags of the script that have an effect. */
const example: RunOptions = {
  model: {
    numLayers: 32,
    hiddenSize: 4096,
    ffnHiddenSize: 14_336,
    numAttentionHeads: 32,
    groupQueryAttention: true,
    numQueryGroups: 8,
    headSize: 128,
    maxPositionEmbeddings: 8192,
    positionEmbeddingType: 'rope',
    rotaryBase: 1_000_000,
    rotaryPercent: 1,
    attentionDropout: 0,
    hiddenDropout: 0,
    swiglu: true,
    initMethodStd: 0.0134,
    untieEmbeddingsAndOutputWeights: true,
    disableBiasLinear: true,
  },
  training: {
    microBatchSize: 1,
    globalBatchSize: 128,
    trainSamples: 1_953_125_000,
    bf16: true,
    evalIterations: 32,
    evalInterval: 100,
    exitDurationMinutes: 235,
  },
  optimizer: {
    maxLearningRate: 0.00015,
    minLearningRate: 0.00001,
    decoupledMaxLearningRate: 5e-4,
    decoupledMinLearningRate: 4.5e-5,
    learningRateDecayStyle: 'cosine',
    learningRateDecaySamples: 1_949_218_748,
    learningRateWarmupSamples: 3_906_252,
    clipGrad: 1,
    weightDecay: 0.1,
    adamBeta1: 0.9,
    adamBeta2: 0.95,
  },
  data: {
    sequenceLength: 8192,
    mockData: true,
    tokenizerType: 'NullTokenizer',
    vocabSize: 128_256,
    dataCachePath: 'cache',
    split: '99,1,0',
  },
  layout: {
    useDistributedOptimizer: true,
    overlapGradReduce: true,
    overlapParamGather: true,
    tensorModelParallelSize: 1,
    sequenceParallel: true,
    distributedTimeoutMinutes: 60,
  },
  checkpoint: { save: 'llama3', load: 'llama3', saveInterval: 1000 },
  logging: { logInterval: 1, tensorboardDirectory: 'logs' },
};
const listNames = (notices: readonly string[]): readonly (string | undefined)[] =>
  notices.map((notice) => /^--\S+(?=.* has no effect)/.exec(notice)?.[0]);

describe("Megatron-LM's example for Llama 3 8B", () => {
  const unused = { 'data-path': ['bundled'] };
  const configuration = validateConfiguration(parseFlags(accepted, { unused }), { worldSize: 8 });

  it('is refused with exactly the flags to leave out', () => {
    const refusal = (): unknown => parseFlags(script, { unused });
    expect(refusal).toThrow(
      expect.objectContaining({
        code: 'MTL_FLAG_UNSUPPORTED',
        details: {
          flags: leftOut.map((name) => expect.objectContaining({ flag: name.slice(2) }) as unknown),
        },
      }) as Error,
    );
    const why = 'in Megatron-LM) is not supported: matmuls are computed in fp32, bf16 or fp16; use --bf16';
    expect(refusal).toThrow(
      [
        '4 flags on the command line cannot be used:',
        `  --fp8-format hybrid (training in FP8 ${why}`,
        `  --fp8-amax-history-len 1024 (training in FP8 ${why}`,
        `  --fp8-amax-compute-algo max (training in FP8 ${why}`,
        `  --fp8-param-gather (weights in FP8 ${why}`,
      ].join('\n'),
    );
  });

  it('names the flags that have no effect', () => {
    expect(listNames(configuration.notices)).toEqual([...withoutEffect, '--sequence-parallel']);
  });

  it('is the run that its options describe', () => {
    const { notices: _, sources: __, ...asked } = configuration;
    const { notices: ___, sources: ____, ...meant } = configure(example, { worldSize: 8 });
    expect(asked).toEqual(meant);
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
      swiglu: true,
      addBiasLinear: false,
      untieEmbeddingsAndOutputWeights: true,
    });
    expect(resolved.optimizer).toMatchObject({
      learningRate: { maxLearningRate: 1.5e-4, minLearningRate: 1e-5, unit: 'samples' },
      decoupledLearningRate: { maxLearningRate: 5e-4, minLearningRate: 4.5e-5 },
    });
  });
});

/**
 * 1/64 of the width, in fewer and shorter rows; larger initial values, so that few steps change them visibly.
 */
const sizes: RunOptions = {
  model: {
    hiddenSize: 4096 / 64,
    ffnHiddenSize: 14_336 / 64,
    headSize: 128 / 64,
    numLayers: 4,
    maxPositionEmbeddings: 32,
    initMethodStd: 0.1,
  },
  data: { sequenceLength: 32 },
};

describe('a Llama 3 of 1/64 of the width', () => {
  let runs: TrainingRuns;
  let alone: TrainGptResult;
  const stages: RunOptions = { layout: { pipelineModelParallelSize: 2 } };
  const tensor: RunOptions = { layout: { tensorModelParallelSize: 2, sequenceParallel: true } };
  const full: RunOptions = {
    training: { recomputeGranularity: 'full', recomputeMethod: 'uniform', recomputeNumLayers: 1 },
  };
  const distributed: RunOptions = {
    layout: { useDistributedOptimizer: true, overlapGradReduce: true, overlapParamGather: true },
  };

  beforeAll(async () => {
    const architecture = mergeOptions({ model: example.model }, sizes);
    const recipe: RunOptions = {
      model: { normalization: 'RMSNorm', layerNormEpsilon: 1e-5 },
      training: { trainIterations: 8, evalInterval: 4 },
      optimizer: { maxLearningRate: 2e-3 },
    };
    runs = await TrainingRuns.create(mergeOptions(architecture, recipe));
    alone = (await runs.run(1, [{ name: 'alone' }]))[0]![0]!;
  });
  afterAll(() => runs.remove());

  it('learns', () => {
    const losses = runs.readMetrics('alone').map(({ lm_loss: loss }) => loss);
    expect(losses.length).toBe(8);
    expect(losses[0]! - losses.at(-1)!).toBeGreaterThan(0.2);
  });

  it('trains, evaluates and generates on two stages of two ranks as in one process', async () => {
    const options = mergeOptions(stages, tensor, full);
    const [ranks] = await runs.run(4, [{ name: 'sharded', options }]);
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
    const load: RunOptions = { checkpoint: { load: runs.locate('moved') } };
    const until = (exitInterval: number): RunOptions => ({ training: { exitInterval } });
    await runs.run(4, [{ name: 'moved', options: mergeOptions(stages, tensor, until(4)) }]);
    const first = runs.readMetrics('moved');
    await runs.run(2, [{ name: 'moved', options: mergeOptions(distributed, load, until(6)) }]);
    await runs.run(1, [{ name: 'moved', options: load }]);
    const lines = runs.readMetrics('moved');
    const expected = runs.readMetrics('alone');
    expect(first.length).toBe(4);
    expect(lines.map(({ iteration }) => iteration)).toEqual(expected.map(({ iteration }) => iteration));
    listNumbers(lines).forEach(([loss, norm], index) => {
      const [expectedLoss, expectedNorm] = listNumbers(expected)[index]!;
      expect(Math.abs(loss! / expectedLoss! - 1)).toBeLessThan(tolerances.fp32.loss);
      expect(Math.abs(norm! / expectedNorm! - 1)).toBeLessThan(tolerances.fp32.norm);
    });
  });
});

describe("Megatron-LM's example for Llama 3 8B at 1/64 of the width", () => {
  let runs: TrainingRuns;
  const numSteps = 8;
  // the corpus has its own tokenizer; the example's numbers of samples apply to this many steps of 8 samples
  const options = mergeOptions(example, sizes, {
    data: { mockData: undefined, tokenizerType: undefined, vocabSize: undefined },
    checkpoint: { save: undefined, load: undefined },
    training: {
      trainIterations: undefined,
      globalBatchSize: 8,
      trainSamples: 8 * numSteps,
      evalIterations: 1,
      evalInterval: 4,
    },
    optimizer: {
      learningRateDecayIterations: undefined,
      learningRateDecaySamples: 8 * numSteps - 1,
      learningRateWarmupSamples: 8,
      maxLearningRate: 2e-3,
    },
  });

  beforeAll(async () => {
    runs = await TrainingRuns.create(options);
  });
  afterAll(() => runs.remove());

  async function train(worldSize: number, name: string, layout: RunOptions['layout'] = {}): Promise<string> {
    const options = {
      data: { dataCachePath: runs.locate('cache') },
      logging: { tensorboardDirectory: runs.locate('logs') },
      checkpoint: { load: runs.locate(name) },
      layout,
    };
    const [ranks] = await runs.run(worldSize, [{ name, options }]);
    return ranks![0]!.output;
  }

  it('trains with every option of its list, and learns', async () => {
    await train(1, 'alone');
    const steps = runs.readRecords('alone').filter(({ type }) => type === undefined);
    const losses = steps.map(({ lm_loss: loss }) => loss);
    expect(losses.length).toBe(numSteps);
    expect(losses[0]! - losses.at(-1)!).toBeGreaterThan(0.2);
    // after warm-up, the rates are at their peaks
    expect(steps[1]).toMatchObject({ learning_rate: 2e-3, decoupled_learning_rate: 5e-4 });
  });

  it('trains the same on two replicas of two ranks', async () => {
    const output = await train(4, 'sharded', { tensorModelParallelSize: 2 });
    const { loss, norm } = runs.differences('sharded', 'alone');
    expect(loss).toBeLessThan(tolerances.bf16.loss);
    expect(norm).toBeLessThan(tolerances.bf16.norm);
    expect(output).toContain('validation loss at iteration 8');
  });
});
