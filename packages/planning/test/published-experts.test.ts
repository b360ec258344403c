import { parseFlags, type RunOptions, validateConfiguration } from '@mtl/configuration';
import { loadProfile } from '@mtl/cost-model';
import { TrainingRuns, tolerances } from '@mtl/runs/testing';
import { numberInRuns } from '@mtl/tooling/in-whole-runs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dryRun } from '../src/dry-run/dry-run.js';
import { formatDryRun } from '../src/dry-run/print-dry-run.js';
import { planRun } from '../src/plan/plan-run.js';

/**
 * The flags of Megatron-LM's examples/mixtral/train_mixtral_8x7b_distributed.sh, without data and tokenizer
 * flags.
 */
const mixtral = `
  --use-mcore-models --disable-bias-linear --seq-length 4096 --max-position-embeddings 32768
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --init-method-std 0.01
  --attention-dropout 0.0 --hidden-dropout 0.0 --normalization RMSNorm --position-embedding-type rope --swiglu
  --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 8
  --no-masked-softmax-fusion --no-position-embedding --rotary-base 1000000
  --num-experts 8 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2
  --moe-grouped-gemm --moe-token-dispatcher-type alltoall --overlap-param-gather --overlap-grad-reduce
  --micro-batch-size 1 --global-batch-size 256 --lr 1e-4 --train-iters 500000 --lr-decay-iters 320000
  --lr-decay-style cosine --min-lr 1.0e-5 --weight-decay 0.1 --lr-warmup-iters 500 --clip-grad 1.0 --bf16
  --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8
  --use-distributed-optimizer --sequence-parallel --device cuda --vocab-size 32000`;
/** The flags of the model in its conf/Qwen of post_training/modelopt, with a layout. */
const qwen3 = `
  --disable-bias-linear --seq-length 4096 --max-position-embeddings 40960 --num-layers 48 --hidden-size 2048
  --ffn-hidden-size 6144 --num-attention-heads 32 --group-query-attention --num-query-groups 4
  --kv-channels 128 --qk-layernorm --normalization RMSNorm --norm-epsilon 1e-6 --position-embedding-type rope
  --rotary-base 1000000 --swiglu --untie-embeddings-and-output-weights --attention-dropout 0.0
  --hidden-dropout 0.0 --num-experts 128 --moe-ffn-hidden-size 768 --moe-router-topk 8
  --moe-router-dtype fp32 --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-3
  --moe-grouped-gemm --moe-token-dispatcher-type alltoall --moe-permute-fusion
  --micro-batch-size 1 --global-batch-size 256 --lr 1e-4 --train-iters 1000 --bf16
  --pipeline-model-parallel-size ${numberInRuns({ whole: 2, fast: 1 })}
  --expert-model-parallel-size 8 --use-distributed-optimizer
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
  --device cuda --vocab-size 151936 --make-vocab-size-divisible-by 128`;

const configureRun = (flags: string, worldSize: number) => {
  const words = `${flags} --tokenizer-type NullTokenizer --data-path unused`.trim().split(/\s+/);
  return validateConfiguration(parseFlags(words), { worldSize });
};

describe.each([
  {
    name: 'Mixtral-8x7B',
    flags: mixtral,
    vocabulary: 32_000,
    count: 46_702_792_704,
    billions: ['46.7', '12.9'],
    worldSize: 32,
  },
  {
    name: 'Qwen3-30B-A3B',
    flags: qwen3,
    vocabulary: 151_936,
    count: 30_532_122_624,
    billions: ['30.5', '3.4'],
    worldSize: 16,
  },
])('$name at its full size', ({ name, flags, vocabulary, count, billions, worldSize }) => {
  const configuration = configureRun(flags, worldSize);

  it('has the number of parameters of the published model, each in its place once', async () => {
    const run = await dryRun(configuration);
    expect(run.numParameters).toBe(count);
    const { pipelineModelParallelSize: p, expertModelParallelSize: e } = configuration.parallel;
    const stages = run.ranks.filter(({ coordinates }) => coordinates.tp === 0);
    expect(stages).toHaveLength(p);
    const { numExperts, numLayers, hiddenSize, moeFfnHiddenSize, ffnHiddenSize } = configuration.model;
    const expert = 3 * hiddenSize * (moeFfnHiddenSize ?? ffnHiddenSize);
    // a rank has one of e parts of the experts of each layer
    const elsewhere = numLayers * numExperts! * expert * (1 - 1 / e!);
    expect(stages.reduce((sum, { numParameters }) => sum + numParameters, 0)).toBe(count - elsewhere);
    const text = formatDryRun(configuration, run);
    const [total, active] = billions.map(Number) as [number, number];
    const counts = /dry run: ([\d,]+) parameters, ([\d,]+) of them active/.exec(text)!.slice(1);
    const [all, used] = counts.map((each) => Number(each.replaceAll(',', '')) / 1e9) as [number, number];
    expect([all.toFixed(1), used.toFixed(1)]).toEqual([total.toFixed(1), active.toFixed(1)]);
    expect(text).toMatch(/ ep \d+\.\d GiB/);
    expect(text).toMatch(
      /assumes even routing: a rank whose experts all tokens chose would take \d+\.\d GiB$/,
    );
  });

  // models with experts and a pipeline are planned in @mtl/planning, too
  const tags = name.startsWith('Mixtral') ? ['whole'] : [];
  it('is planned, with the FLOPs of the experts that a token uses', { tags }, async () => {
    const plan = await planRun(configuration, { profile: loadProfile('h100-80gb') });
    expect(plan.numActiveParameters! / 1e9).toBeCloseTo(Number(billions[1]), 0);
    expect(plan.breakdown.expertCommunication).toBeGreaterThan(0);
    expect(Object.values(plan.breakdown).reduce((sum: number, part: number) => sum + part, 0)).toBeCloseTo(
      plan.iterationSeconds,
      6,
    );
    // 6 for each active parameter that is not in the embedding or the router, and attention of S / 2 keys
    const { model, training } = configuration;
    const { numLayers: L, hiddenSize: H, numExperts: E, sequenceLength: S } = model;
    const weights = plan.numActiveParameters! - vocabulary * H - L * (E! * H + 2 * H) - H;
    const heads = L * model.numAttentionHeads * model.headSize;
    const norms = model.qkLayernorm ? 2 * model.headSize * L : 0;
    const flops = training.globalBatchSize * S * (6 * (weights - norms) + 12 * S * heads);
    const counted = plan.teraflopsPerGpu * 1e12 * worldSize * plan.iterationSeconds;
    expect(counted / flops).toBeCloseTo(1, 6);
  });
});

/**
 * The blocks of both models at 1/64 of their width, with one layer on each stage in fast runs, two otherwise;
 * for Qwen with a quarter of its experts in fast runs. Experts are sharded over both data-parallel ranks.
 */
const narrow = (own: RunOptions['model']): RunOptions => ({
  model: {
    numLayers: numberInRuns({ whole: 4, fast: 2 }),
    normalization: 'RMSNorm',
    positionEmbeddingType: 'rope',
    rotaryBase: 1_000_000,
    swiglu: true,
    disableBiasLinear: true,
    untieEmbeddingsAndOutputWeights: true,
    groupQueryAttention: true,
    attentionDropout: 0,
    hiddenDropout: 0,
    moeRouterLoadBalancingType: ['aux_loss'],
    ...own,
  },
  layout: {
    pipelineModelParallelSize: 2,
    expertModelParallelSize: 2,
    useDistributedOptimizer: true,
    overlapGradReduce: true,
    overlapParamGather: true,
  },
});

describe('at 1/64 of their width on four ranks', () => {
  let runs: TrainingRuns;
  beforeAll(async () => {
    runs = await TrainingRuns.create({
      training: { trainIterations: 4, evalIterations: 0 },
      optimizer: { learningRateDecayIterations: 4 },
      checkpoint: { saveInterval: 4 },
    });
  });
  afterAll(() => runs.remove());

  it.each<[string, RunOptions['model']]>([
    [
      'Mixtral-8x7B',
      {
        hiddenSize: 64,
        ffnHiddenSize: 224,
        numAttentionHeads: 8,
        numQueryGroups: 2,
        numExperts: 8,
        moeRouterTopk: 2,
        moeAuxLossCoeff: [1e-2],
      },
    ],
    [
      'Qwen3-30B-A3B',
      {
        hiddenSize: 32,
        ffnHiddenSize: 96,
        numAttentionHeads: 8,
        numQueryGroups: 1,
        headSize: 2,
        qkLayernorm: true,
        numExperts: numberInRuns({ whole: 128, fast: 32 }),
        moeRouterTopk: 8,
        moeFfnHiddenSize: 12,
        moeAuxLossCoeff: [1e-3],
      },
    ],
  ])('%s trains as on one process', async (name, model) => {
    const options = narrow(model);
    const [spread] = await runs.run(4, [{ name, options }]);
    const whole = { ...options, layout: {} };
    await runs.run(1, [{ name: `${name} alone`, options: whole }]);
    expect(spread![0]!.output).toMatch(/GPT of [\d,]+ parameters, [\d,]+ of them active/);
    const { loss, norm } = runs.differences(name, `${name} alone`);
    // tolerances of parity between layouts (packages/runs/parity/layouts.mjs)
    expect(loss).toBeLessThan(tolerances.fp32.loss);
    expect(norm).toBeLessThan(tolerances.fp32.norm);
    const losses = runs.readMetrics(name).map(({ lm_loss }) => lm_loss);
    expect(losses.at(-1)!).toBeLessThan(losses[0]!);
  });
});
