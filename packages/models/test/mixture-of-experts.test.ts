import { allocateParameters, initializeParameter, type Parameter, Tape } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { add, observeOperations, setNumThreads, Tensor } from '@mtl/kernels';
import type { StageLoss } from '@mtl/pipeline';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { LayerLosses } from '../src/blocks/stage-losses.js';
import { listLosses, startBalancingLosses } from '../src/experts/balancing-losses.js';
import { specifyExperts } from '../src/experts/experts-specification.js';
import {
  type ExpertVariants,
  type GptModelConfiguration,
  GptStage,
  type GptStageOptions,
  numLossTokens,
  type TokenBatch,
} from '../src/index.js';
import { ScoredLoad } from '../src/routing/expert-load.js';
import { StageUnderTest } from './support/stage-under-test.js';
import { smallBatch, smallGpt } from './tensor-parallel/small-gpt.js';

beforeAll(() => setNumThreads(1));

const sparseGpt: GptModelConfiguration = {
  ...smallGpt,
  hiddenDropout: 0,
  attentionDropout: 0,
  numExperts: 4,
  moeFfnHiddenSize: 24,
  addBiasLinear: false,
};

/** Three rows of four logits; the expected values of the first row are computed by hand. */
const logits = [
  [0.5, -1, 2, 1],
  [1.5, 0, -0.5, 0.2],
  [0.1, 0.4, 2.5, -2],
];

interface BalanceOptions {
  readonly numSequences?: number;
  readonly load?: readonly number[];
  readonly group?: ProcessGroup;
}

/**
 * Returns the values of balancing losses with weight 1, their gradient with respect to the logits, and the
 * operations that ran.
 */
function balances(model: ExpertVariants, { numSequences = 1, load, group }: BalanceOptions = {}) {
  const specification = specifyExperts({ ...smallGpt, numExperts: 4, ...model });
  const names = listLosses(specification);
  const lossFactors = Object.fromEntries(names.map((name) => [name, 1]));
  const losses = new LayerLosses({ names: new Set(names), lossFactors, device: 'cpu' });
  const scoredLoad = new ScoredLoad({ numExperts: 4, device: 'cpu' });
  if (load !== undefined) scoredLoad.set(load);
  using tape = new Tape();
  const input = tape.input(Tensor.from(logits.flat(), { shape: [3, 4], dtype: 'float32' }), {
    requiresGradient: true,
  });
  const operations: string[] = [];
  const observed = <Result>(body: () => Result): Result =>
    observeOperations((name) => operations.push(name), body);
  observed(() =>
    startBalancingLosses(tape, {
      logits: input,
      specification,
      numSequences,
      group,
      losses,
      scoredLoad,
      countsLoads: true,
    }).finish(),
  );
  const values = losses.take().map((loss) => {
    const value = loss.losses.item();
    loss.dispose();
    return value;
  });
  observed(() => tape.backward([]));
  using tensor = tape.takeGradient(input)!;
  const gradient = tensor.toArray();
  input.release();
  losses.release();
  const counted = scoredLoad.take();
  scoredLoad.dispose();
  const countOperations = (name: string): number => operations.filter((each) => each === name).length;
  const passes = [
    countOperations('router_statistics_forward'),
    countOperations('router_statistics_backward'),
  ];
  return { values, gradient, passes, counted };
}

/** Returns the value of one balancing loss of a weight of 1, and the gradient of the logits. */
function balance(model: ExpertVariants, options: BalanceOptions = {}) {
  const { values, gradient } = balances(model, options);
  return { value: values[0]!, gradient };
}

// hand-computed values have six digits
const near = (values: readonly number[]) => values.map((value) => expect.closeTo(value, 5));

describe('the losses of a router', () => {
  it('balance the rows of a micro-batch as Megatron-LM', () => {
    const { value, gradient } = balance({ moeAuxLossCoeff: [1] });
    expect(value).toBeCloseTo(1.091026, 5);
    expect(gradient.slice(0, 4)).toEqual(near([-0.025193, -0.005621, 0.022527, 0.008287]));
  });

  it('balance by sigmoid scores over their sum', () => {
    expect(balance({ moeAuxLossCoeff: [1], moeRouterScoreFunction: 'sigmoid' }).value).toBeCloseTo(
      1.008548,
      5,
    );
  });

  it('takes scores without a softmax as they are where one before the choice is asked for', () => {
    const model = { ...smallGpt, numExperts: 4, moeRouterPreSoftmax: true };
    expect(specifyExperts(model).router.preSoftmax).toBe(true);
    const others = (['sigmoid', 'sqrtsoftplus'] as const).map(
      (moeRouterScoreFunction) => specifyExperts({ ...model, moeRouterScoreFunction }).router,
    );
    expect(others.map((router) => router.preSoftmax)).toEqual([false, false]);
  });

  it('are the losses of each sequence, together', () => {
    const one = { moeRouterLoadBalancingType: ['seq_aux_loss'], moeAuxLossCoeff: [1] } as const;
    // one sequence is the micro-batch
    expect(balance(one).value).toBeCloseTo(1.091026, 5);
    const separate = balance(one, { numSequences: 3 });
    // a sequence of one row: E / k times the sum of the two scores that are chosen
    const scores = logits.map((row) => {
      const powers = row.map(Math.exp);
      const sum = powers.reduce((total, power) => total + power, 0);
      return powers.map((power) => power / sum).sort((a, b) => b - a);
    });
    const expected = scores.reduce((total, [first, second]) => total + 2 * (first! + second!), 0);
    expect(separate.value).toBeCloseTo(expected, 5);
  });

  it('square the log-sum-exp of rows', () => {
    const { value, gradient } = balance({ moeZLossCoeff: 1 });
    expect(value).toBeCloseTo(3 * 5.828514, 4);
    const expected = logits.flatMap((row) => {
      const powers = row.map(Math.exp);
      const sum = powers.reduce((total, power) => total + power, 0);
      return powers.map((power) => (2 * Math.log(sum) * power) / sum);
    });
    expect(gradient).toEqual(near(expected));
  });

  it('balance the global batch by the load of the step before, which is even at first', () => {
    const global = { moeRouterLoadBalancingType: ['global_aux_loss'], moeAuxLossCoeff: [1] } as const;
    const first = balance(global);
    // scores of a row sum to 1, whatever they are: no gradient
    expect(first.value).toBeCloseTo(3, 5);
    expect(first.gradient).toEqual(near(new Array<number>(12).fill(0)));
    // equals the micro-batch's loss if the load is the micro-batch's load
    const own = balance(global, { load: [1, 1, 2, 2] });
    expect(own.value / 3).toBeCloseTo(1.091026, 5);
    const { gradient } = balance({ moeAuxLossCoeff: [1] });
    expect(own.gradient.map((value) => value / 3)).toEqual(near(gradient));
  });

  it.each([1, 3])('are made of one pass and one sum over processes, of %i sequences', (numSequences) => {
    const types = ['aux_loss', 'seq_aux_loss', 'global_aux_loss'] as const;
    const each: readonly ExpertVariants[] = [
      ...types.map((type) => ({ moeRouterLoadBalancingType: [type], moeAuxLossCoeff: [1] })),
      { moeRouterLoadBalancingType: ['none'], moeZLossCoeff: 1 },
    ];
    const options = { numSequences, load: [1, 3, 2, 2] };
    const separate = each.map((model) => balance(model, options));
    const all = { moeRouterLoadBalancingType: types, moeAuxLossCoeff: [1, 1, 1], moeZLossCoeff: 1 };
    const together = balances(all, options);
    expect(together.passes).toEqual([1, 1]);
    expect(together.counted).toEqual([1, 1, 2, 2]);
    expect(together.values).toEqual(near(separate.map(({ value }) => value)));
    const summed = separate[0]!.gradient.map((_, index) =>
      separate.reduce((sum, { gradient }) => sum + gradient[index]!, 0),
    );
    expect(together.gradient).toEqual(near(summed));
    // another process with the same rows: twice the sums
    const reduced: number[] = [];
    const twice = {
      size: 2,
      allReduce: (tensor: Tensor) => {
        reduced.push(tensor.size);
        add({ output: tensor, left: tensor, right: tensor });
        return { wait: () => {} };
      },
    } as unknown as ProcessGroup;
    const shared = balances(all, { ...options, group: twice });
    expect(reduced).toEqual([numSequences * 9]);
    // balance is a mean over rows; the others are sums over rows
    const [balanced, ofSequences, global, z] = together.values;
    expect(shared.values).toEqual(near([balanced!, ofSequences!, 2 * global!, 2 * z!]));
    expect(shared.counted).toEqual([1, 1, 2, 2]);
  });

  it('have a type with a coefficient', () => {
    const names = (model: ExpertVariants) =>
      listLosses(specifyExperts({ ...smallGpt, numExperts: 4, ...model }));
    expect(names({})).toEqual([]);
    expect(
      names({ moeRouterLoadBalancingType: ['aux_loss', 'seq_aux_loss'], moeAuxLossCoeff: [0, 1] }),
    ).toEqual(['seq_load_balancing_loss']);
    expect(names({ moeAuxLossCoeff: [1], moeZLossCoeff: 1 })).toEqual(['load_balancing_loss', 'z_loss']);
  });
});

describe('a GPT with experts', () => {
  const opened: { dispose(): void }[] = [];
  afterEach(() => {
    for (const each of opened.splice(0)) each.dispose();
  });

  function open(model: GptModelConfiguration, dtype: 'float32' | 'bfloat16' = 'float32') {
    const stage = new GptStage({ model, device: 'cpu', dtype, seed: 3 });
    const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype, mainGradients: true });
    for (const parameter of stage.parameters) initializeParameter(parameter, parameter.data, 3);
    opened.push(stage, storage);
    return stage;
  }

  /** Returns the mean loss of a pass forward and backward. */
  function pass(stage: GptStage): number {
    const batch = smallBatch();
    const factor = 1 / numLossTokens(batch);
    const lossFactors = Object.fromEntries(['lm_loss', ...stage.layerLosses].map((name) => [name, factor]));
    stage.forward({ microBatch: 0, batch, lossFactors });
    stage.backwardInput({ microBatch: 0, weights: true });
    const losses = stage.takeLosses(0);
    const main = losses.find(({ name }) => name === 'lm_loss')!;
    const weights = main.weights.toArray();
    const loss = main.losses.toArray().reduce((sum, value, index) => sum + value * weights[index]!, 0);
    for (const each of losses) each.dispose();
    return loss;
  }

  const named = (stage: GptStage, name: string): Parameter =>
    stage.parameters.find((parameter) => parameter.name.endsWith(name))!;

  it('has experts in the layers that it is to have them in', () => {
    const openLayers = (moeLayerFreq: number | readonly number[]) =>
      open({ ...sparseGpt, numLayers: 4, moeLayerFreq }).expertLoads.map(({ layer }) => layer);
    expect(openLayers(2)).toEqual(['decoder.layers.0.mlp', 'decoder.layers.2.mlp']);
    expect(openLayers([0, 0, 0, 1])).toEqual(['decoder.layers.3.mlp']);
    const stage = open({ ...sparseGpt, moeLayerFreq: [0, 1] });
    expect(named(stage, '0.mlp.linear_fc1.weight').shape).toEqual([64, 32]);
    expect(named(stage, '1.mlp.experts.linear_fc1.weight').shape).toEqual([4, 24, 32]);
  });

  it('counts the rows of experts in the forward pass of training, and in no other', () => {
    const stage = open(sparseGpt);
    const numRows = 2 * smallBatch().labels.length;
    stage.evaluate({ microBatch: 1, batch: smallBatch(), lossFactors: { lm_loss: 1 } });
    for (const loss of stage.takeLosses(1)) loss.dispose();
    const taken = () => stage.expertLoads.map((load) => load.take().reduce((sum, count) => sum + count, 0));
    expect(taken()).toEqual([0, 0]);
    pass(stage);
    expect(taken()).toEqual([numRows, numRows]);
    expect(taken()).toEqual([0, 0]);
  });

  it('counts choices that capacity drops, and adds entropies while they are watched, in training only', () => {
    const stage = open({ ...sparseGpt, moeExpertCapacityFactor: 0.5 });
    const numRows = smallBatch().labels.length;
    const [load] = stage.expertLoads;
    // all scores are a quarter; among equal scores the first two experts are chosen
    const router = named(stage, '0.mlp.router.weight');
    router.data.write(new Float32Array(router.size));
    stage.evaluate({ microBatch: 1, batch: smallBatch(), lossFactors: { lm_loss: 1 } });
    for (const loss of stage.takeLosses(1)) loss.dispose();
    pass(stage);
    expect([load!.takeChoices(), load!.takeChoices()]).toEqual([2 * numRows, 0]);
    expect(load!.take()).toEqual([4, 4, 0, 0]);
    expect(load!.entropy.take()).toEqual({ sum: 0, numRows: 0 });
    load!.entropy.isWatched = true;
    stage.evaluate({ microBatch: 1, batch: smallBatch(), lossFactors: { lm_loss: 1 } });
    for (const loss of stage.takeLosses(1)) loss.dispose();
    pass(stage);
    pass(stage);
    const { sum, numRows: numWatched } = load!.entropy.take();
    expect(numWatched).toBe(2 * numRows);
    expect(sum / numWatched).toBeCloseTo(Math.log(4), 6);
    expect(load!.entropy.take()).toEqual({ sum: 0, numRows: 0 });
  });

  it('keeps expert biases in float32 in a model of bfloat16, where they choose and add nothing', () => {
    const model = {
      ...sparseGpt,
      moeRouterScoreFunction: 'sigmoid',
      moeRouterEnableExpertBias: true,
    } as const;
    const stage = open(model, 'bfloat16');
    const bias = named(stage, '0.mlp.router.expert_bias');
    expect([bias.data.dtype, bias.isFrozen]).toEqual(['float32', true]);
    // a step of 1e-3 that bfloat16 would lose next to 1
    bias.data.write(Float32Array.of(1.001, 1.002, -9, -9));
    expect(bias.data.toArray()[0]).toBeCloseTo(1.001, 6);
    pass(stage);
    expect(stage.expertLoads[0]!.take()).toEqual([16, 16, 0, 0]);
  });

  it('leaves expert biases as they are where adapters are trained', () => {
    const model = {
      ...sparseGpt,
      moeRouterScoreFunction: 'sigmoid',
      moeRouterEnableExpertBias: true,
    } as const;
    const lora = { rank: 2, scale: 1, dropout: 0, targets: ['query'] } as const;
    const findRate = (options: Partial<GptStageOptions>) => {
      using stage = new GptStage({ model, device: 'cpu', dtype: 'float32', seed: 3, ...options });
      return stage.expertLoads[0]!.updateRate;
    };
    expect([findRate({}), findRate({ lora })]).toEqual([1e-3, 0]);
  });

  it('refuses dropout of adapters of experts', () => {
    const lora = { rank: 2, scale: 1, dropout: 0.1, targets: ['expertsFc2'] } as const;
    const build = () => new GptStage({ model: sparseGpt, lora, device: 'cpu', dtype: 'float32', seed: 3 });
    expect(build).toThrow(expect.objectContaining({ code: 'MTL_LORA_TARGETS' }));
  });

  it('gives experts without rows no gradient, and others theirs', () => {
    const model = {
      ...sparseGpt,
      moeRouterScoreFunction: 'sigmoid',
      moeRouterEnableExpertBias: true,
    } as const;
    const stage = open(model);
    named(stage, '0.mlp.router.expert_bias').data.write(Float32Array.of(9, 9, 0, 0));
    pass(stage);
    for (const name of ['0.mlp.experts.linear_fc1.weight', '0.mlp.experts.linear_fc2.weight']) {
      const { mainGradient, size } = named(stage, name);
      const values = mainGradient.toArray();
      const norms = [0, 1, 2, 3].map((expert) =>
        Math.hypot(...values.slice((expert * size) / 4, ((expert + 1) * size) / 4)),
      );
      expect(norms.slice(2)).toEqual([0, 0]);
      expect(Math.min(...norms.slice(0, 2))).toBeGreaterThan(0);
    }
  });

  it('computes with fewer rows where experts have room for fewer', () => {
    const [whole, cut] = [open(sparseGpt), open({ ...sparseGpt, moeExpertCapacityFactor: 0.5 })];
    const [loss, loss2] = [pass(whole), pass(cut)];
    expect(Math.abs(loss - loss2)).toBeGreaterThan(1e-4);
    // ceil(16 rows x 2 experts / 4 x 0.5) = 4 rows each
    for (const load of cut.expertLoads) expect(Math.max(...load.take())).toBe(4);
    const byPosition = open({ ...sparseGpt, moeExpertCapacityFactor: 0.5, moeTokenDropPolicy: 'position' });
    expect(Math.abs(pass(byPosition) - loss2)).toBeGreaterThan(1e-5);
  });

  it('is the dense model where all experts and the shared one have its weights', () => {
    // post-softmax: the probabilities of the chosen experts sum to 1
    const dense = open({ ...sparseGpt, numExperts: undefined, ffnHiddenSize: 24 });
    const sparse = open(sparseGpt);
    for (const parameter of sparse.parameters) {
      const name = parameter.name.replace('.experts.', '.');
      const of = dense.parameters.find((each) => each.name === name);
      if (of === undefined) continue;
      const values = of.data.read<'float32'>();
      const copies = parameter.size / values.length;
      parameter.data.write(
        Float32Array.from(
          { length: parameter.size },
          (_, index) => values[index % (parameter.size / copies)]!,
        ),
      );
    }
    // float32 rounding of products with probabilities
    expect(pass(sparse)).toBeCloseTo(pass(dense), 5);
  });

  it('adds shared experts, by their gate where there is one', () => {
    const shared = { ...sparseGpt, moeSharedExpertIntermediateSize: 20 };
    const [without, plain, gated] = [sparseGpt, shared, { ...shared, moeSharedExpertGate: true }].map(
      (model) => open(model),
    );
    // a gate whose logits are 0 halves the output, so with doubled weights the gate changes nothing
    named(gated!, '0.mlp.shared_experts.gate_weight').data.zero();
    named(gated!, '1.mlp.shared_experts.gate_weight').data.zero();
    for (const layer of [0, 1]) {
      const { data } = named(gated!, `${layer}.mlp.shared_experts.linear_fc2.weight`);
      data.write(data.read<'float32'>().map((value) => 2 * value));
    }
    const [a, b, c] = [without, plain, gated].map((stage) => pass(stage!));
    expect(Math.abs(a! - b!)).toBeGreaterThan(1e-4);
    expect(c).toBeCloseTo(b!, 5);
    const gate = named(gated!, '0.mlp.shared_experts.gate_weight');
    expect(Math.hypot(...gate.mainGradient.toArray())).toBeGreaterThan(0);
  });

  it.each(['swiglu', 'squaredRelu', 'quickGeglu'] as const)('trains experts with %s', (activation) => {
    const stage = open({ ...sparseGpt, [activation]: true, moeSharedExpertIntermediateSize: 8 });
    pass(stage);
    for (const { mainGradient, isFrozen, name } of stage.parameters) {
      if (!isFrozen) expect(Math.hypot(...mainGradient.toArray()), name).toBeGreaterThan(0);
    }
  });

  it.each([
    {},
    { swiglu: true },
    { quickGeglu: true },
    { swiglu: true, activationFuncClampValue: 0.3, gluLinearOffset: 1 },
  ])('has router and expert biases where linear layers have them: %j', (activation) => {
    const stage = open({ ...sparseGpt, ...activation, addBiasLinear: true });
    pass(stage);
    for (const name of ['router.bias', 'experts.linear_fc1.bias', 'experts.linear_fc2.bias']) {
      const { mainGradient } = named(stage, `0.mlp.${name}`);
      expect(Math.hypot(...mainGradient.toArray()), name).toBeGreaterThan(0);
    }
  });

  it.each([{ swiglu: true }, { quickGeglu: true, gluLinearOffset: 1, activationFuncClampValue: 0.2 }])(
    'has gradients, also of biases, that match central differences in float64: %j',
    (activation) => {
      const experts = { numExperts: 3, moeFfnHiddenSize: 6, addBiasLinear: true, initMethodStd: 0.3 };
      const sizes = { numLayers: 1, hiddenSize: 8, numAttentionHeads: 2 };
      const model = { ...sparseGpt, ...sizes, ...experts, ...activation };
      const [device, dtype] = ['reference', 'float64'] as const;
      const built = new StageUnderTest({
        stage: new GptStage({ model, device, dtype, seed: 1 }),
        device,
        dtype,
        makeCalls: (batches: readonly TokenBatch[]) =>
          batches.map((batch, microBatch) => ({
            microBatch,
            batch,
            lossFactors: { lm_loss: 1 / numLossTokens(batch) },
          })),
        takeLoss: (stage, microBatch) => {
          const [{ losses, weights, dispose }] = stage.takeLosses(microBatch) as [StageLoss];
          const factors = weights.toArray();
          const total = losses.toArray().reduce((sum, loss, index) => sum + loss * factors[index]!, 0);
          dispose();
          return total;
        },
      });
      // biases start as zeros, which no activation would reveal
      for (const { name, data, size } of built.stage.parameters) {
        if (/experts\.linear_fc.\.bias/.test(name))
          data.write(Float64Array.from({ length: size }, (_, index) => 0.4 * Math.sin(3 * index + 1)));
      }
      built.expectCentralDifferences(smallBatch());
      built.dispose();
    },
  );
});
