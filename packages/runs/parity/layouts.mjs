/**
 * The process layouts that `npm run dev -- parity` compares with a single process: by default a short list,
 * with `--all` all combinations. A layout has sizes along the axes of the mesh, traits and a precision.
 * Dropout is 0.1 in every layout.
 */

import { mergeOptions } from '@mtl/configuration/testing/merge-options';

/**
 * @typedef {object} ParityLayout
 * @property {'gpt' | 'bert' | 'llama' | 'qwen-moe' | 'deepseek'} model
 * @property {string} name
 * @property {Readonly<Record<string, number>>} sizes the sizes above 1, along the axes of the mesh
 * @property {readonly string[]} traits
 * @property {'fp32' | 'bf16'} precision
 * @property {number} numProcesses
 * @property {number} numLayers
 * @property {import('@mtl/configuration').RunOptions} options
 */

/** @typedef {ParityLayout & { fault: string, noticedBy: 'loss' | 'gradientNorm' | 'gradients' }} Fault */

const sizeOptions = { tp: 'tensorModelParallelSize', pp: 'pipelineModelParallelSize' };
/** Sizes along axes that exist only for some models and layouts. */
const otherSizeOptions = {
  cp: 'contextParallelSize',
  ep: 'expertModelParallelSize',
  etp: 'expertTensorParallelSize',
};

/** Traits of a layout (everything except its sizes), and the options that enable them. */
export const traits = {
  'sequence parallel': { layout: { sequenceParallel: true } },
  'distributed optimizer': {
    layout: { useDistributedOptimizer: true, overlapGradReduce: true, overlapParamGather: true },
  },
  'selective recomputation': { training: { recomputeGranularity: 'selective' } },
  'full recomputation': {
    training: { recomputeGranularity: 'full', recomputeMethod: 'uniform', recomputeNumLayers: 1 },
  },
};
const [sequence, distributed, selective, full] = Object.keys(traits);
const [gathered, inPairs, moe] = ['tokens by all-gather', 'micro-batches of 2', 'recomputed experts'];
traits[gathered] = { layout: { moeTokenDispatcherType: 'allgather' } };
traits[inPairs] = { training: { microBatchSize: 2 } };
const sharded = 'fully sharded';
traits[sharded] = { layout: { dataParallelShardingStrategy: 'optim_grads_params' } };
const [pairs, someLayers] = ['recomputed pairs of layers', 'three recomputed layers of each stage'];
traits[pairs] = {
  training: { recomputeGranularity: 'full', recomputeMethod: 'uniform', recomputeNumLayers: 2 },
};
traits[someLayers] = {
  training: { recomputeGranularity: 'full', recomputeMethod: 'block', recomputeNumLayers: 3 },
};
const dividedGradients = 'divided gradients';
traits[dividedGradients] = {
  layout: { dataParallelShardingStrategy: 'optim_grads', overlapParamGather: true },
};
const inInstances = 'two instances';
traits[inInstances] = { layout: { numDistributedOptimizerInstances: 2 } };
traits[moe] = {
  training: { recomputeGranularity: 'selective', recomputeModules: ['moe', 'shared_experts'] },
};

const schedule = (name, numChunks) => ({
  layout: {
    pipelineSchedule: name,
    ...(numChunks === undefined ? {} : { numVirtualStagesPerPipelineRank: numChunks }),
  },
});
/** Pipeline schedules, with the number of chunks on each stage. */
const schedules = {
  gpipe: { numChunks: 1, options: schedule('gpipe') },
  '1f1b': { numChunks: 1, options: schedule('1f1b') },
  'interleaved of 2 chunks': { numChunks: 2, options: schedule('interleaved', 2) },
  'interleaved of 4 chunks': { numChunks: 4, options: schedule('interleaved', 4) },
  'breadth-first of 2 chunks': { numChunks: 2, options: schedule('breadth-first', 2) },
  'breadth-first of 4 chunks': { numChunks: 4, options: schedule('breadth-first', 4) },
  'zb-h1': { numChunks: 1, options: schedule('zb-h1') },
  'zb-h2': { numChunks: 1, options: schedule('zb-h2') },
  'zb-v': { numChunks: 2, options: schedule('zb-v') },
};
for (const [name, { options }] of Object.entries(schedules)) traits[name] = options;
traits['balanced layers'] = { layout: { pipelineModelParallelLayout: 'balanced' } };
const [gatheredKeys, exchangedHeads, inBlocks] = [
  'keys by all-gather',
  'heads exchanged',
  'heads exchanged in pairs',
];
traits[gatheredKeys] = { layout: { cpCommType: ['all_gather'] } };
traits[exchangedHeads] = { layout: { cpCommType: ['a2a'] } };
traits[inBlocks] = { layout: { cpCommType: ['a2a+p2p'], hierarchicalContextParallelSizes: [2, 2] } };
const [normAfter, window] = ['layer norm after sublayers', 'a window of 9'];
const [someWindows, sinks, zeroSinks, someRotated] = [
  'a window in every other layer',
  'trained sinks',
  'sinks of score 0',
  'rotation in every other layer',
];
const [softCaps, qkClip, partlyRotated, groups] = [
  'soft caps',
  'QK-clip',
  'rotation of a part of each head',
  'groups of 2 heads',
];
/** The trait of layouts whose sequences contain several documents, which do not attend to each other. */
export const documents = 'documents';
traits[normAfter] = { model: { layerNormPlacement: 'post' } };
// with this trait, the number of counted tokens also differs between the chunks of a sequence
traits[documents] = { data: { resetAttentionMask: true, resetPositionIds: true, eodMaskLoss: true } };
traits[window] = { model: { windowSize: '9,0' } };
traits[someWindows] = { model: { windowSize: '9,0', windowAttnSkipFreq: '2' } };
traits[sinks] = { model: { softmaxType: 'learnable' } };
traits[zeroSinks] = { model: { softmaxType: 'off-by-one' } };
traits[someRotated] = { model: { noRopeFreq: '2' } };
// these caps are within the range of the scores and logits of so small a model
traits[softCaps] = { model: { attnLogitSoftcapping: 0.1, finalLogitSoftcapping: 5 } };
// Weights larger than usual give scores of about 1. In some heads and steps, the highest score is above the
// threshold; in others, it is below. This trait is not used for models with Llama blocks, because they set
// their own initial weights
traits[qkClip] = {
  model: { initMethodStd: 0.06 },
  optimizer: { qkClip: true, qkClipThreshold: 0.5, qkClipAlpha: 0.7 },
};
// 4 of 10 features of a head, or 6 of 16
traits[partlyRotated] = { model: { positionEmbeddingType: 'rope', rotaryPercent: 0.4 } };
traits[groups] = { model: { groupQueryAttention: true, numQueryGroups: 2 } };
/**
 * Traits that give individual layers their own windows, attention sinks, rotations, soft caps or groups of
 * heads.
 */
export const traitsOfLayers = [
  ...[someWindows, sinks, zeroSinks, someRotated],
  ...[softCaps, qkClip, partlyRotated, groups],
];
/** Traits that a layout shares with its single-process reference run. */
export const traitsOfBoth = [normAfter, documents, window, ...traitsOfLayers];

/**
 * Returns the number of layers of the model: enough for a pipeline of eight stages, or for all chunks of a
 * pipeline that has more than eight.
 */
const chooseNumLayers = ({ pp }, with_) =>
  pp === undefined ? 2 : Math.max(8, ...with_.map((trait) => pp * (schedules[trait]?.numChunks ?? 1)));
/** The number of layers of the deepest models. More layers would take longer and prove little more. */
const mostLayers = 16;

/**
 * @param sizes along tp, cp, pp and dp, and for experts along ep and etp. Each defaults to 1, except etp,
 * which defaults to the size of tp
 */
function layout(sizes, with_ = [], precision = 'fp32') {
  const { tp = 1, cp = 1, pp = 1, dp = 1 } = sizes;
  const numProcesses = tp * cp * pp * dp;
  const axes = Object.entries(sizes).map(([axis, size]) => `${axis} ${size}`);
  const mesh = axes.length === 0 ? 'one process' : axes.join(' x ');
  const name = `${precision === 'fp32' ? '' : `${precision}: `}${[mesh, ...with_].join(', ')}`;
  const sizesOfMesh = [
    ...Object.entries(sizeOptions).map(([axis, option]) => [option, sizes[axis] ?? 1]),
    ...Object.entries(otherSizeOptions).flatMap(([axis, option]) =>
      sizes[axis] === undefined ? [] : [[option, sizes[axis]]],
    ),
  ];
  return {
    model: 'gpt',
    name,
    sizes,
    traits: with_,
    precision,
    numProcesses,
    numLayers: chooseNumLayers(sizes, with_),
    options: mergeOptions(
      { layout: Object.fromEntries(sizesOfMesh) },
      ...with_.map((trait) => traits[trait]),
    ),
  };
}

/**
 * Returns a layout of BERT. The model's two losses have separate counts, and its matmuls leave out padding.
 */
const bert = (layoutOfGpt) => ({
  ...layoutOfGpt,
  model: 'bert',
  name: `BERT: ${layoutOfGpt.name}`,
  options: mergeOptions(layoutOfGpt.options, modelOptions.bert),
});

/**
 * Weights are initialized with a standard deviation of 0.05. With 0.02, RMSNorm multiplies gradients of the
 * small residual stream so much that norms reach 18. Steps with such norms amplified rounding from 1e-8 to
 * 1e-1, although only the order of sums differed.
 */
const llamaBlocks = {
  model: {
    initMethodStd: 0.05,
    numAttentionHeads: 8,
    groupQueryAttention: true,
    numQueryGroups: 4,
    headSize: 10,
    positionEmbeddingType: 'rope',
    normalization: 'RMSNorm',
    qkLayernorm: true,
    disableBiasLinear: true,
    swiglu: true,
    ffnHiddenSize: 96,
    untieEmbeddingsAndOutputWeights: true,
  },
};
/** Returns a layout of a GPT with Llama blocks. Its reference run has the same blocks. */
const llama = (layoutOfGpt) => ({
  ...layoutOfGpt,
  model: 'llama',
  name: `Llama: ${layoutOfGpt.name}`,
  options: mergeOptions(layoutOfGpt.options, llamaBlocks),
});

/**
 * Experts as in Qwen2-MoE and Qwen3-MoE: softmax over the chosen experts, gated shared experts, in all
 * layers.
 */
const qwenExperts = {
  model: {
    ...llamaBlocks.model,
    numExperts: 8,
    moeRouterTopk: 2,
    moeFfnHiddenSize: 48,
    moeSharedExpertIntermediateSize: 64,
    moeSharedExpertGate: true,
    moeRouterLoadBalancingType: ['seq_aux_loss'],
    moeAuxLossCoeff: [0.01],
    moeZLossCoeff: 0.001,
  },
};
/** Experts as in DeepSeek-V3: sigmoid, groups, and a bias that follows the loads, in every second layer. */
const deepseekExperts = {
  model: {
    ...llamaBlocks.model,
    numExperts: 8,
    moeLayerFreq: '2',
    moeRouterTopk: 3,
    moeFfnHiddenSize: 32,
    moeRouterScoreFunction: 'sigmoid',
    moeRouterTopkScalingFactor: 2.5,
    moeRouterNumGroups: 4,
    moeRouterGroupTopk: 2,
    moeRouterEnableExpertBias: true,
    // large enough that a step changes choices
    moeRouterBiasUpdateRate: 0.01,
    moeRouterLoadBalancingType: ['seq_aux_loss', 'global_aux_loss'],
    moeAuxLossCoeff: [0.001, 0.01],
    moeSharedExpertIntermediateSize: 48,
  },
};
const withExperts = (model, name, options) => (layoutOfGpt) => ({
  ...layoutOfGpt,
  model,
  name: `${name}: ${layoutOfGpt.name}`,
  options: mergeOptions(layoutOfGpt.options, options),
});
const qwen = withExperts('qwen-moe', 'Qwen-MoE', qwenExperts);
const deepseek = withExperts('deepseek', 'DeepSeek', deepseekExperts);
/** The options that distinguish the models. The single-process runs also need them. */
export const modelOptions = {
  gpt: {},
  bert: { model: { kind: 'bert' } },
  llama: llamaBlocks,
  'qwen-moe': qwenExperts,
  deepseek: deepseekExperts,
};

/**
 * Marks the layouts that `--few` selects and CI runs. Together they cover every axis, model and precision.
 */
const few = (layoutOrFault) => ({ ...layoutOrFault, isOfFew: true });

/**
 * Layouts with experts. They cover every axis, including the axes of experts, both dispatchers, all kinds of
 * recomputation, and micro-batches of two sizes.
 */
const expertLayouts = [
  qwen(layout({}, [full])),
  qwen(layout({}, [inPairs])),
  qwen(layout({ dp: 2, ep: 2 }, [moe, distributed])),
  deepseek(layout({ tp: 2 }, [moe, sequence])),
  qwen(layout({ dp: 2, ep: 2 })),
  qwen(layout({ dp: 2 }, [distributed, inPairs])),
  qwen(layout({ dp: 4, ep: 2 }, [distributed, full])),
  qwen(layout({ dp: 4, ep: 4 }, [gathered])),
  qwen(layout({ tp: 2 })),
  qwen(layout({ tp: 2, ep: 2, etp: 1 }, [inPairs])),
  qwen(layout({ tp: 2 }, [sequence, full])),
  qwen(layout({ tp: 4, ep: 2, etp: 2 }, [sequence, selective])),
  qwen(layout({ tp: 2, dp: 2, ep: 2 }, [gathered, distributed])),
  few(qwen(layout({ tp: 2, dp: 2, ep: 2 }, [sequence, distributed, full]))),
  qwen(layout({ tp: 2, dp: 2, ep: 4, etp: 1 }, [sequence, distributed])),
  qwen(layout({ tp: 2, dp: 4, ep: 4, etp: 2 }, [sequence, distributed])),
  qwen(layout({ pp: 2 }, ['1f1b'])),
  qwen(layout({ pp: 2, dp: 2, ep: 2 }, ['zb-h1', distributed])),
  few(qwen(layout({ pp: 2, tp: 2, dp: 2, ep: 2 }, ['interleaved of 2 chunks', sequence, gathered]))),
  deepseek(layout({}, [full, inPairs])),
  deepseek(layout({ dp: 2, ep: 2 }, [distributed, inPairs])),
  few(deepseek(layout({ dp: 4, ep: 4 }, [full]))),
  deepseek(layout({ tp: 2, ep: 2, etp: 1 }, [sequence])),
  deepseek(layout({ tp: 4, ep: 4, etp: 1 })),
  few(deepseek(layout({ tp: 2, dp: 2, ep: 2, etp: 1 }, [sequence, gathered, full]))),
  deepseek(layout({ pp: 2, tp: 2 }, ['zb-v', sequence])),
  deepseek(layout({ pp: 4, dp: 2, ep: 2 }, ['interleaved of 2 chunks', distributed])),
  deepseek(layout({ pp: 2, dp: 4, ep: 2 }, ['gpipe', gathered, distributed])),
];

/**
 * Layouts with context parallelism. They cover every further axis, every type of communication, masks that
 * hide different amounts in the chunks of a sequence, and every kind of recomputation. Chunks have 8
 * positions with two processes, and 4 positions with four processes.
 */
const contextLayouts = [
  layout({ cp: 2 }),
  layout({ cp: 2 }, [gatheredKeys, selective]),
  layout({ cp: 2 }, [exchangedHeads]),
  layout({ cp: 4 }, [full]),
  layout({ cp: 4 }, [gatheredKeys]),
  layout({ cp: 4 }, [exchangedHeads, selective]),
  layout({ cp: 2 }, [documents]),
  layout({ cp: 4 }, [documents, gatheredKeys]),
  layout({ cp: 4 }, [documents, exchangedHeads]),
  layout({ cp: 4 }, [window]),
  layout({ cp: 4 }, [inBlocks]),
  layout({ cp: 4 }, [inBlocks, documents, inPairs]),
  llama(layout({ tp: 2, cp: 4 }, [inBlocks, sequence])),
  bert(layout({ cp: 4, dp: 2 }, [inBlocks, distributed])),
  layout({ cp: 2 }, [window, gatheredKeys]),
  layout({ tp: 2, cp: 2 }),
  layout({ tp: 2, cp: 2 }, [sequence, gatheredKeys, full]),
  layout({ tp: 2, cp: 2 }, [sequence, exchangedHeads]),
  layout({ cp: 2, dp: 2 }, [distributed]),
  layout({ cp: 2, dp: 2 }, [exchangedHeads, inPairs]),
  layout({ cp: 4, dp: 2 }, [gatheredKeys, distributed, documents]),
  few(layout({ tp: 2, cp: 2, dp: 2 }, [sequence, distributed, documents, full])),
  layout({ pp: 2, cp: 2 }, ['1f1b', gatheredKeys]),
  layout({ pp: 2, cp: 2 }, ['zb-h1', documents]),
  layout({ pp: 2, cp: 4 }, ['zb-v', exchangedHeads]),
  layout({ pp: 2, cp: 2, dp: 2 }, ['interleaved of 2 chunks', distributed]),
  layout({ pp: 2, tp: 2, cp: 2 }, ['gpipe', sequence]),
  llama(layout({ cp: 4 })),
  llama(layout({ cp: 2 }, [exchangedHeads, full])),
  qwen(layout({ cp: 2 })),
  few(qwen(layout({ tp: 2, cp: 2, ep: 2, etp: 1 }, [sequence, documents, inPairs]))),
  qwen(layout({ tp: 2, cp: 2, ep: 4, etp: 1 }, [gatheredKeys])),
  deepseek(layout({ cp: 2, dp: 2, ep: 4 }, [distributed, exchangedHeads, moe])),
  deepseek(layout({ pp: 2, cp: 4, ep: 2 }, ['1f1b'])),
  few(llama(layout({ pp: 2, tp: 2, cp: 2 }, ['interleaved of 2 chunks', sequence, gatheredKeys]))),
  bert(layout({ cp: 2 })),
  bert(layout({ cp: 4 }, [gatheredKeys])),
  bert(layout({ cp: 2, dp: 2 }, [exchangedHeads, distributed])),
  few(bert(layout({ tp: 2, cp: 2 }, [sequence, full]))),
  bert(layout({ pp: 2, cp: 2 }, ['interleaved of 2 chunks', gatheredKeys])),
  layout({ cp: 2 }, [documents, inPairs, window]),
  layout({ cp: 2 }, [documents], 'bf16'),
  layout({ tp: 2, cp: 2 }, [sequence, gatheredKeys], 'bf16'),
];

/** Layouts whose ranks shard parameters completely, for every axis and kind of recomputation. */
const shardedLayouts = [
  few(layout({ dp: 2 }, [sharded])),
  layout({ dp: 2 }, [sharded, full]),
  layout({ dp: 4 }, [sharded, selective, inPairs]),
  layout({ dp: 4 }, [sharded, full], 'bf16'),
  layout({ tp: 2, dp: 2 }, [sharded, sequence]),
  layout({ cp: 2, dp: 2 }, [sharded, full]),
  layout({ pp: 2, dp: 2 }, [sharded, '1f1b']),
  layout({ pp: 2, dp: 2 }, [sharded, 'interleaved of 2 chunks']),
  layout({ pp: 2, dp: 2 }, [sharded, 'zb-h1']),
  layout({ pp: 2, dp: 2 }, [sharded, 'zb-h2', pairs]),
  layout({ pp: 2, dp: 2 }, [sharded, 'zb-v']),
  layout({ pp: 2, dp: 2 }, [sharded, 'zb-v', full]),
  layout({ pp: 2, dp: 2 }, [sharded, '1f1b', pairs]),
  layout({ pp: 2, dp: 2 }, [sharded, '1f1b', someLayers]),
  llama(layout({ dp: 2 }, [sharded, selective])),
  layout({ dp: 2 }, [sharded, qkClip, groups]),
  bert(layout({ dp: 2 }, [sharded, full])),
  qwen(layout({ dp: 2, ep: 2 }, [sharded])),
  deepseek(layout({ dp: 4, ep: 2 }, [sharded, full])),
];

/** Layouts whose ranks have all values and shard only gradients, for every axis and model. */
const dividedLayouts = [
  few(layout({ dp: 2 }, [dividedGradients])),
  layout({ dp: 4 }, [dividedGradients, full, inPairs]),
  layout({ tp: 2, dp: 2 }, [dividedGradients, sequence]),
  layout({ cp: 2, dp: 2 }, [dividedGradients, selective]),
  layout({ pp: 2, dp: 2 }, [dividedGradients, 'interleaved of 2 chunks']),
  layout({ pp: 2, dp: 2 }, [dividedGradients, 'zb-h1']),
  layout({ pp: 2, dp: 2 }, [dividedGradients, 'zb-v']),
  llama(layout({ dp: 2 }, [dividedGradients], 'bf16')),
  bert(layout({ dp: 2 }, [dividedGradients])),
  qwen(layout({ dp: 2, ep: 2 }, [dividedGradients])),
  deepseek(layout({ dp: 4, ep: 2 }, [dividedGradients, full])),
];

/** Layouts with two instances of a store (hybrid sharding), for every store, axis and model. */
const hybridLayouts = [
  few(layout({ dp: 4 }, [distributed, inInstances])),
  layout({ dp: 4 }, [dividedGradients, inInstances, inPairs]),
  layout({ dp: 4 }, [sharded, inInstances, full]),
  layout({ dp: 4 }, [sharded, inInstances], 'bf16'),
  // each data-parallel rank is an instance
  layout({ tp: 2, dp: 2 }, [distributed, inInstances, sequence]),
  layout({ tp: 2, dp: 4 }, [sharded, inInstances, sequence]),
  layout({ cp: 2, dp: 2 }, [dividedGradients, inInstances]),
  layout({ pp: 2, dp: 4 }, ['1f1b', distributed, inInstances]),
  layout({ pp: 2, dp: 4 }, ['zb-h1', sharded, inInstances]),
  bert(layout({ dp: 4 }, [sharded, inInstances])),
  llama(layout({ dp: 4 }, [dividedGradients, inInstances])),
  layout({ dp: 4 }, [sharded, qkClip, groups, inInstances]),
  qwen(layout({ dp: 4, ep: 2 }, [distributed, inInstances])),
  deepseek(layout({ dp: 4, ep: 2 }, [sharded, inInstances])),
];

/**
 * Layouts whose layers have different windows, attention sinks and rotations, with every axis and every type
 * of communication.
 */
const layersOfTheirOwn = [
  few(layout({ tp: 2 }, [sequence, someWindows, sinks, full])),
  layout({ tp: 4, dp: 2 }, [distributed, sinks, inPairs]),
  layout({ dp: 2 }, [distributed, zeroSinks, someWindows]),
  few(
    llama(
      layout({ pp: 2, dp: 2 }, ['interleaved of 2 chunks', someWindows, sinks, someRotated, distributed]),
    ),
  ),
  llama(layout({ pp: 2, tp: 2 }, ['zb-v', sequence, someWindows, sinks, someRotated])),
  layout({ pp: 4 }, ['1f1b', someWindows, sinks]),
  layout({ cp: 4 }, [someWindows, sinks]),
  layout({ cp: 2 }, [someWindows, zeroSinks, documents, inPairs]),
  layout({ cp: 4 }, [gatheredKeys, someWindows, sinks, documents]),
  layout({ cp: 4 }, [exchangedHeads, someWindows, sinks, selective]),
  layout({ cp: 4 }, [inBlocks, sinks, documents]),
  few(llama(layout({ tp: 2, cp: 2 }, [sequence, exchangedHeads, sinks, someWindows, someRotated]))),
  llama(layout({ pp: 2, cp: 2 }, ['1f1b', gatheredKeys, sinks, someWindows, full])),
  few(qwen(layout({ tp: 2, dp: 2, ep: 2 }, [sequence, distributed, sinks, someWindows, full]))),
  qwen(layout({ cp: 2, ep: 2 }, [sinks, documents, inPairs])),
  llama(layout({ tp: 2, cp: 2 }, [sequence, sinks, someWindows], 'bf16')),
  few(layout({ tp: 2 }, [sequence, softCaps, full])),
  llama(layout({ tp: 4, dp: 2 }, [distributed, softCaps, partlyRotated])),
  layout({ dp: 2 }, [distributed, softCaps, selective]),
  few(llama(layout({ pp: 2, dp: 2 }, ['interleaved of 2 chunks', softCaps, partlyRotated, distributed]))),
  layout({ pp: 2, tp: 2 }, ['zb-v', sequence, softCaps]),
  layout({ cp: 4 }, [softCaps, sinks]),
  layout({ cp: 4 }, [gatheredKeys, softCaps, documents]),
  layout({ cp: 4 }, [exchangedHeads, softCaps, selective]),
  llama(layout({ cp: 4 }, [inBlocks, softCaps, partlyRotated])),
  few(layout({ tp: 2, cp: 2 }, [sequence, softCaps, partlyRotated, documents, inPairs])),
  qwen(layout({ tp: 2, dp: 2, ep: 2 }, [sequence, distributed, softCaps, full])),
  llama(layout({ tp: 2, cp: 2 }, [sequence, softCaps, partlyRotated])),
  llama(layout({ tp: 2, cp: 2 }, [sequence, softCaps, partlyRotated], 'bf16')),
  layout({ tp: 2 }, [sequence, qkClip, groups, full]),
  few(layout({ tp: 2, dp: 2 }, [distributed, qkClip, groups])),
  layout({ dp: 4 }, [distributed, qkClip, inPairs]),
  layout({ pp: 2, tp: 2 }, ['zb-v', sequence, qkClip]),
  few(layout({ pp: 2, dp: 2 }, ['interleaved of 2 chunks', distributed, qkClip, groups])),
  layout({ cp: 4 }, [qkClip, selective]),
  layout({ cp: 2, dp: 2 }, [gatheredKeys, distributed, qkClip, groups]),
  layout({ cp: 2 }, [exchangedHeads, qkClip, groups, documents]),
  layout({ cp: 4 }, [inBlocks, qkClip]),
  layout({ tp: 2, dp: 2 }, [sequence, distributed, qkClip, groups], 'bf16'),
];

/**
 * The default layouts of the command. In float32, where bounds are tight, every pair of values of mesh,
 * sequence parallelism, optimizer and recomputation occurs. In bf16, every mesh occurs, and every pair of
 * values of sequence parallelism, optimizer and recomputation. `allLayouts` also tests faults that occur only
 * with a combination of three values. A test counts the pairs.
 *
 * @type {readonly ParityLayout[]}
 */
export const layouts = [
  layout({}, [full]),
  layout({ tp: 2 }),
  layout({ tp: 2 }, [sequence, selective]),
  layout({ tp: 2 }, [sequence, full]),
  layout({ tp: 4 }, [sequence]),
  few(layout({ tp: 4 }, [sequence, selective])),
  layout({ tp: 4 }, [full]),
  layout({ dp: 2 }),
  layout({ dp: 2 }, [distributed, selective]),
  layout({ dp: 2 }, [distributed, full]),
  few(layout({ dp: 4 }, [distributed])),
  layout({ dp: 4 }, [selective]),
  layout({ dp: 4 }, [full]),
  layout({ tp: 2, dp: 2 }, [sequence]),
  layout({ tp: 2, dp: 2 }, [distributed, selective]),
  few(layout({ tp: 2, dp: 2 }, [sequence, distributed, full])),
  layout({ tp: 2, dp: 4 }),
  layout({ tp: 2, dp: 4 }, [sequence, distributed]),
  layout({ tp: 2, dp: 4 }, [selective]),
  layout({ tp: 2, dp: 4 }, [distributed, full]),
  layout({ tp: 2 }, [sequence], 'bf16'),
  layout({ tp: 4 }, [sequence, full], 'bf16'),
  layout({ dp: 2 }, [selective], 'bf16'),
  layout({ dp: 4 }, [distributed, full], 'bf16'),
  layout({ tp: 2, dp: 2 }, [sequence, distributed, selective], 'bf16'),
  layout({ tp: 2, dp: 4 }, [distributed], 'bf16'),
  // pipelines: every schedule, every mesh
  layout({ pp: 2 }, ['1f1b', 'balanced layers']),
  layout({ pp: 2 }, ['interleaved of 4 chunks']),
  few(layout({ pp: 2, tp: 2 }, ['zb-v', sequence])),
  layout({ pp: 4 }, ['zb-h2', full]),
  layout({ pp: 4 }, ['interleaved of 4 chunks']),
  layout({ pp: 2, dp: 4 }, ['gpipe', distributed]),
  layout({ pp: 2, tp: 2, dp: 2 }, ['zb-h1', sequence, distributed, full]),
  few(layout({ pp: 4, dp: 2 }, ['interleaved of 2 chunks', distributed])),
  layout({ pp: 4, tp: 2 }, ['breadth-first of 2 chunks']),
  layout({ pp: 8 }, ['1f1b']),
  few(layout({ pp: 2, tp: 2, dp: 2 }, ['interleaved of 2 chunks', sequence, distributed, full], 'bf16')),
  // BERT with every axis, the last of several chunks, and both positions of layer norm
  bert(layout({ tp: 2 }, [sequence, full])),
  bert(layout({ dp: 2 }, [distributed])),
  bert(layout({ tp: 2, dp: 2 }, [sequence, normAfter])),
  bert(layout({ pp: 2 }, ['1f1b', 'balanced layers'])),
  few(bert(layout({ pp: 2, tp: 2, dp: 2 }, ['interleaved of 2 chunks', sequence, distributed, full]))),
  bert(layout({ pp: 2, tp: 2 }, ['zb-h1', sequence], 'bf16')),
  // Llama blocks with every axis and the last of several chunks
  llama(layout({ tp: 2 })),
  llama(layout({ tp: 4 }, [sequence, full])),
  llama(layout({ dp: 2 }, [distributed, selective])),
  few(llama(layout({ pp: 2, tp: 2 }, ['zb-v', sequence]))),
  llama(layout({ pp: 2, tp: 2, dp: 2 }, ['interleaved of 2 chunks', sequence, distributed, full])),
  llama(layout({ pp: 2, tp: 2 }, ['1f1b', sequence], 'bf16')),
  ...expertLayouts,
  ...contextLayouts,
  ...shardedLayouts,
  ...dividedLayouts,
  ...hybridLayouts,
  ...layersOfTheirOwn,
];

/** All combinations: 98 runs without pipelines and 210 with pipelines, for each model. */
const crossed = [
  ...crossMeshes({
    meshes: [{ tp: 2 }, { tp: 4 }, { dp: 2 }, { dp: 4 }, { tp: 2, dp: 2 }, { tp: 2, dp: 4 }],
    recomputations: [[], [selective], [full]],
  }),
  ...listPipelines([
    ...[{ pp: 2 }, { pp: 4 }, { pp: 8 }, { pp: 2, tp: 2 }, { pp: 4, tp: 2 }],
    ...[
      { pp: 2, dp: 4 },
      { pp: 4, dp: 2 },
      { pp: 2, tp: 2, dp: 2 },
    ],
  ]),
];

/**
 * All layouts, which `parity --all` compares.
 *
 * @type {readonly ParityLayout[]}
 */
export const allLayouts = [
  ...crossed,
  ...crossed.map(bert),
  ...crossed.map(llama),
  ...expertLayouts,
  ...contextLayouts,
  ...shardedLayouts,
  ...dividedLayouts,
  ...hybridLayouts,
  ...layersOfTheirOwn,
];

/**
 * Returns every schedule on every suitable mesh, first without traits and then with all traits that the mesh
 * allows. In bf16, each occurs only with all traits.
 */
function listPipelines(meshes) {
  return meshes.flatMap((sizes) => {
    const numMicroBatches = 8 / (sizes.dp ?? 1);
    const fitting = Object.entries(schedules).filter(
      ([name, { numChunks }]) =>
        sizes.pp * numChunks <= mostLayers && !(name.startsWith('interleaved') && numMicroBatches < sizes.pp),
    );
    const all = [
      ...(sizes.tp === undefined ? [] : [sequence]),
      ...(sizes.dp === undefined ? [] : [distributed]),
      full,
    ];
    return fitting.flatMap(([name]) => [
      layout(sizes, [name]),
      layout(sizes, [name, ...all]),
      layout(sizes, [name, ...all], 'bf16'),
    ]);
  });
}

function crossMeshes({ meshes, recomputations }) {
  const alone = recomputations.slice(2).map((recomputation) => [{}, recomputation]);
  const sharded = meshes.flatMap((sizes) => {
    const sequences = sizes.tp === undefined ? [[]] : [[], [sequence]];
    const optimizers = sizes.dp === undefined ? [[]] : [[], [distributed]];
    const all = sequences.flatMap((first) => optimizers.map((second) => [...first, ...second]));
    return all.flatMap((some) => recomputations.map((recomputation) => [sizes, [...some, ...recomputation]]));
  });
  const every = [...alone, ...sharded];
  return ['fp32', 'bf16'].flatMap((precision) =>
    every.map(([sizes, some]) => layout(sizes, some, precision)),
  );
}

/**
 * Injected faults that must be noticed. Each has a layout in which the fault can happen, and the check that
 * must fail.
 *
 * @type {readonly Fault[]}
 */
export const faults = [
  few({ fault: 'drop-gradient-reduce', noticedBy: 'gradients', ...layout({ dp: 2 }) }),
  { fault: 'drop-scattered-sums', noticedBy: 'gradients', ...layout({ dp: 2 }, [sharded]) },
  few({ fault: 'keep-stale-values', noticedBy: 'loss', ...layout({ dp: 2 }, [sharded, full]) }),
  few({ fault: 'drop-scattered-sums', noticedBy: 'gradients', ...layout({ dp: 2 }, [dividedGradients]) }),
  { fault: 'keep-stale-values', noticedBy: 'loss', ...layout({ dp: 2 }, [dividedGradients]) },
  { fault: 'keep-last-micro-batch', noticedBy: 'gradients', ...layout({ dp: 2 }, [dividedGradients]) },
  { fault: 'skip-tied-sum', noticedBy: 'gradients', ...layout({ pp: 2, dp: 2 }, [sharded, '1f1b']) },
  { fault: 'drop-instance-sums', noticedBy: 'gradients', ...layout({ dp: 4 }, [sharded, inInstances]) },
  few({
    fault: 'count-instances',
    noticedBy: 'gradientNorm',
    ...layout({ dp: 4 }, [distributed, inInstances]),
  }),
  few({ fault: 'drop-tensor-reduce', noticedBy: 'loss', ...layout({ tp: 2 }) }),
  { fault: 'drop-partial-sums', noticedBy: 'gradients', ...layout({ tp: 2 }, [sequence]) },
  few({ fault: 'skip-one-partial-gradient', noticedBy: 'gradients', ...layout({ tp: 2 }, [sequence]) }),
  { fault: 'reduce-tied-weight-twice', noticedBy: 'gradients', ...layout({ dp: 2 }) },
  { fault: 'count-tied-weight-twice', noticedBy: 'gradientNorm', ...layout({ tp: 2 }) },
  { fault: 'count-tied-weight-twice', noticedBy: 'gradientNorm', ...layout({ tp: 2, dp: 2 }, [distributed]) },
  { fault: 'shrink-token-count', noticedBy: 'gradientNorm', ...layout({ dp: 2 }) },
  { fault: 'shift-samples', noticedBy: 'loss', ...layout({ dp: 2 }) },
  { fault: 'shift-one-mask', noticedBy: 'gradients', ...layout({ tp: 2 }, [sequence]) },
  few({ fault: 'skip-tied-sum', noticedBy: 'gradients', ...layout({ pp: 2 }, ['1f1b']) }),
  { fault: 'skip-tied-sum', noticedBy: 'gradients', ...layout({ pp: 2, dp: 4 }, ['gpipe', distributed]) },
  { fault: 'count-tied-weight-twice', noticedBy: 'gradientNorm', ...layout({ pp: 2 }, ['1f1b']) },
  { fault: 'shift-one-mask', noticedBy: 'gradients', ...layout({ pp: 2 }, ['zb-h1']) },
  { fault: 'swap-two-messages', noticedBy: 'gradients', ...layout({ pp: 2 }, ['gpipe']) },
  { fault: 'use-stale-input', noticedBy: 'gradients', ...layout({ pp: 2 }, ['1f1b']) },
  few({
    fault: 'swap-two-messages',
    noticedBy: 'gradients',
    ...layout({ pp: 2 }, ['interleaved of 2 chunks']),
  }),
  {
    fault: 'use-stale-input',
    noticedBy: 'gradients',
    ...layout({ pp: 2 }, ['breadth-first of 2 chunks']),
  },
  few({ fault: 'shift-one-mask', noticedBy: 'gradients', ...layout({ pp: 2 }, ['zb-v']) }),
  { fault: 'skip-tied-sum', noticedBy: 'gradients', ...layout({ pp: 2, tp: 2 }, ['zb-h2', sequence]) },
  // deep layouts, wide layouts and layouts with three axes
  { fault: 'skip-tied-sum', noticedBy: 'gradients', ...layout({ pp: 8 }, ['1f1b']) },
  { fault: 'use-stale-input', noticedBy: 'gradients', ...layout({ pp: 4 }, ['interleaved of 4 chunks']) },
  {
    fault: 'drop-gradient-reduce',
    noticedBy: 'gradients',
    ...layout({ pp: 4, dp: 2 }, ['interleaved of 2 chunks']),
  },
  {
    fault: 'skip-tied-sum',
    noticedBy: 'gradients',
    ...layout({ pp: 4, tp: 2 }, ['breadth-first of 2 chunks']),
  },
  {
    fault: 'skip-one-partial-gradient',
    noticedBy: 'gradients',
    ...layout({ pp: 2, tp: 2, dp: 2 }, ['zb-h1', sequence, distributed, full]),
  },
  { fault: 'skip-tied-sum', noticedBy: 'gradients', ...layout({ pp: 2 }, ['1f1b'], 'bf16') },
  { fault: 'drop-tensor-reduce', noticedBy: 'gradients', ...layout({ tp: 4 }, [], 'bf16') },
  { fault: 'skip-one-partial-gradient', noticedBy: 'gradients', ...layout({ tp: 2 }, [sequence], 'bf16') },
  { fault: 'drop-partial-sums', noticedBy: 'gradients', ...bert(layout({ tp: 2 }, [sequence])) },
  few({ fault: 'shrink-token-count', noticedBy: 'loss', ...bert(layout({ dp: 2 })) }),
  { fault: 'shift-samples', noticedBy: 'loss', ...bert(layout({ dp: 2 })) },
  { fault: 'skip-tied-sum', noticedBy: 'gradients', ...bert(layout({ pp: 2 }, ['1f1b'])) },
  { fault: 'drop-tensor-reduce', noticedBy: 'gradients', ...bert(layout({ pp: 2, tp: 2 }, ['zb-h1'])) },
  few({ fault: 'drop-tensor-reduce', noticedBy: 'loss', ...llama(layout({ tp: 2 })) }),
  { fault: 'shift-one-mask', noticedBy: 'gradients', ...llama(layout({ tp: 2 }, [sequence])) },
  { fault: 'drop-gradient-reduce', noticedBy: 'gradients', ...llama(layout({ dp: 2 })) },
  {
    fault: 'drop-partial-sums',
    noticedBy: 'gradients',
    ...llama(layout({ pp: 2, tp: 2 }, ['zb-v', sequence])),
  },
  { fault: 'use-stale-input', noticedBy: 'gradients', ...llama(layout({ pp: 2 }, ['1f1b'])) },
  few({ fault: 'drop-expert-counts', noticedBy: 'loss', ...deepseek(layout({ dp: 2, ep: 2 })) }),
  { fault: 'move-biases-twice', noticedBy: 'loss', ...deepseek(layout({ dp: 2, ep: 2 })) },
  few({ fault: 'average-expert-gradients', noticedBy: 'gradients', ...qwen(layout({ dp: 2, ep: 2 })) }),
  few({ fault: 'skip-shared-gate-sum', noticedBy: 'gradients', ...qwen(layout({ tp: 2 }, [sequence])) }),
  { fault: 'drop-gradient-reduce', noticedBy: 'gradients', ...deepseek(layout({ dp: 2 })) },
  few({ fault: 'skip-ring-step', noticedBy: 'loss', ...layout({ cp: 2 }) }),
  { fault: 'shift-labels-of-chunks', noticedBy: 'loss', ...layout({ cp: 2 }, [gatheredKeys]) },
  few({ fault: 'count-tokens-of-copies', noticedBy: 'loss', ...layout({ cp: 2, dp: 2 }) }),
  { fault: 'count-tokens-of-copies', noticedBy: 'loss', ...bert(layout({ cp: 2, dp: 2 })) },
  { fault: 'skip-ring-step', noticedBy: 'loss', ...layout({ cp: 2 }, [documents]) },
  { fault: 'drop-by-local-position', noticedBy: 'loss', ...layout({ cp: 2 }, [exchangedHeads]) },
  few({ fault: 'count-layers-of-stages', noticedBy: 'loss', ...layout({ pp: 4 }, ['1f1b', someWindows]) }),
  { fault: 'drop-sink-gradients', noticedBy: 'gradients', ...layout({ tp: 2 }, [sequence, sinks]) },
  few({ fault: 'drop-sink-gradients', noticedBy: 'gradients', ...layout({ cp: 2 }, [sinks]) }),
  { fault: 'drop-sink-gradients', noticedBy: 'gradients', ...layout({ cp: 4 }, [inBlocks, sinks]) },
  { fault: 'skip-ring-step', noticedBy: 'loss', ...layout({ cp: 2 }, [sinks]) },
  { fault: 'skip-ring-step', noticedBy: 'loss', ...layout({ cp: 2 }, [softCaps]) },
  { fault: 'leave-scores-uncapped', noticedBy: 'gradients', ...layout({ cp: 4 }, [gatheredKeys, softCaps]) },
  few({ fault: 'leave-scores-uncapped', noticedBy: 'gradients', ...layout({ tp: 2 }, [sequence, softCaps]) }),
  {
    fault: 'leave-scores-uncapped',
    noticedBy: 'gradients',
    ...llama(layout({ tp: 2, cp: 2 }, [sequence, softCaps, partlyRotated], 'bf16')),
  },
  few({ fault: 'forget-highest-scores', noticedBy: 'loss', ...layout({ tp: 2 }, [sequence, qkClip]) }),
  { fault: 'forget-highest-scores', noticedBy: 'loss', ...layout({ pp: 2 }, ['1f1b', qkClip]) },
  { fault: 'forget-highest-scores', noticedBy: 'loss', ...layout({ cp: 4 }, [exchangedHeads, qkClip]) },
];

/**
 * Returns the bounds for the largest relative difference from a single process, over all steps. For the
 * gradients of step 1, the difference of a parameter is the norm of the difference divided by the norm of the
 * gradient.
 *
 * float32: rounding alone was measured at 2e-7 (loss) and 2e-6 (gradient norm). bfloat16 has 8 bits, so a
 * value has an error of up to 2^-8, with a root mean square of 1.6e-3. With tensor parallelism, each process
 * rounds its partial sum before the sums are added. This adds about the same error independently at 9 sums: 2
 * in forward and 2 in backward for each of 2 layers, and 1 for the head. The total is sqrt(9) x 1.6e-3 = 5e-3
 * (measured: 6e-3). The bound is four times this error, so that only more than rounding exceeds it. Data
 * parallelism sums float32 gradients of activations with the same bits, so it has the bound of float32.
 * Context parallelism sums gradients of keys and values in a different order before they are rounded.
 */
export function chooseBounds({ model, precision, sizes, traits }) {
  if (precision === 'fp32') return { loss: 2e-6, gradientNorm: 2e-5, gradients: 1e-5 };
  // Here, the Llama model has 8 layers, and norms of queries and keys with 10 weights, whose gradients are
  // sums of terms with both signs. In a single process, these gradients in bfloat16 differ from float32 by
  // 1.5e-2 to 3.5e-2. With two processes they differ by up to 3.8e-2 from a single process in bfloat16, by up
  // to 2.9e-2 from float32, and by 3e-6 if everything is in float32. Soft caps leave less of these sums: with
  // them a single process in bfloat16 differs from float32 by 9.0e-2, four processes by 6.0e-2 (and by 8.2e-2
  // from the single process), and by 5.8e-6 if everything is in float32. Two runs that are rounded
  // differently differ by at most the sum of their errors. Scores left uncapped differ by 2.0.
  const ofLlama = traits.includes(softCaps) ? 9e-2 + 6e-2 : 8e-2;
  const rounding = model === 'llama' ? ofLlama : 2e-2;
  return {
    loss: 2e-3,
    gradientNorm: 2e-2,
    gradients: (sizes.tp ?? 1) * (sizes.cp ?? 1) > 1 ? rounding : 1e-5,
  };
}

/**
 * Bounds for a step that begins with the state of a single process, in float32. They limit the largest
 * relative difference of the losses, of the gradient norm, and of the state after the step. The difference of
 * the state is relative to the change that the step makes (see `readStates`). Rounding alone was measured at
 * 3e-8, 2e-6 and 9e-6 in 100 steps of mixture-of-experts models with 8 layers, the deepest models. Among the
 * injected faults that exceed the bounds, the smallest differences were 6e-6, 6e-6 and 2e-4.
 */
export const boundsOfOneStep = { loss: 2e-7, gradientNorm: 5e-6, state: 1e-4 };
