import type { GptModelConfiguration } from '@mtl/models';
import { configurations, parseModel, type TinyModelName, tinyModelNames } from '../gguf/tiny-models.js';

const llama = parseModel(configurations.llama);
const gpt2 = parseModel(configurations.gpt2);

/** Models that no type of the transformers library describes. */
const others = {
  interleaved: { ...llama, rotaryInterleaved: true, rotaryPercent: 0.5 },
  sinks: { ...llama, softmaxType: 'learnable' },
  'off-by-one': { ...llama, softmaxType: 'off-by-one' },
  capped: { ...llama, attnLogitSoftcapping: 2, finalLogitSoftcapping: 3 },
  windowed: { ...llama, windowSize: '5,0', windowAttnSkipFreq: 2 },
  clamped: { ...llama, quickGeglu: true, swiglu: false, gluLinearOffset: 1, activationFuncClampValue: 0.5 },
  'clamped-swiglu': { ...llama, activationFuncClampValue: 0.5 },
  'squared-relu': { ...gpt2, squaredRelu: true },
  erf: { ...gpt2, geluKind: 'erf' },
  'no-positions': { ...gpt2, positionEmbeddingType: 'none' },
  'head-norms': { ...gpt2, qkLayernorm: true },
  'wide-norms': { ...llama, qkLayernorm: true, qkNormWholeWidth: true },
  'grouped-experts': {
    ...llama,
    numExperts: 8,
    moeRouterTopk: 4,
    moeRouterScoreFunction: 'sigmoid',
    moeRouterEnableExpertBias: true,
    moeRouterNumGroups: 4,
    moeRouterGroupTopk: 2,
    moeRouterTopkScalingFactor: 2.5,
    moeSharedExpertIntermediateSize: 64,
  },
  'one-expert': { ...llama, numExperts: 4, moeRouterTopk: 1, moeRouterScoreFunction: 'sqrtsoftplus' },
  'gelu-experts': { ...gpt2, numExperts: 4, moeRouterTopk: 3, moeSharedExpertIntermediateSize: 32 },
  'clamped-experts': {
    ...llama,
    numExperts: 4,
    moeLayerFreq: 2,
    addBiasLinear: true,
    quickGeglu: true,
    swiglu: false,
    gluLinearOffset: 1,
    activationFuncClampValue: 0.5,
    moeSharedExpertIntermediateSize: 64,
    moeSharedExpertGate: true,
  },
} as const satisfies Readonly<Record<string, GptModelConfiguration>>;

export type ModelName = TinyModelName | keyof typeof others;

/** Models of all architectures. */
export const models = {
  ...Object.fromEntries(tinyModelNames.map((name) => [name, parseModel(configurations[name])])),
  ...others,
} as unknown as Readonly<Record<ModelName, GptModelConfiguration>>;
