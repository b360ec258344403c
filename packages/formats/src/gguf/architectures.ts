import { CheckpointError } from '@mtl/errors';
import {
  computeHeadSize,
  type GptModelConfiguration,
  gptBlock,
  hasExperts,
  isRotatedLayer,
} from '@mtl/models';
import type { HuggingFaceOrigin } from '../huggingface/huggingface-origin.js';
import type { GptTypeName } from '../huggingface/model-types.js';
import { chooseGptType, unstatedProperties } from '../huggingface/statable-models.js';
import { float32, type Metadata, type MetadataValue, uint32 } from './metadata.js';
import { ropeMetadata } from './rope-metadata.js';
import type { TypedModel } from './stored-dtypes.js';

/** A property of a model that llama.cpp does not compute for the model's architecture. */
interface Difference {
  readonly what: string;
  readonly remedy: string;
}

/** How llama.cpp represents a model type of the transformers library. */
interface Architecture {
  /** llama.cpp's name for the architecture, which is the prefix of the metadata keys. */
  readonly name: string;
  /** True if llama.cpp reads Llama 3's frequency factors (`rope_freqs.weight`) for this architecture. */
  readonly readsFrequencyFactors?: true;
  /**
   * How llama.cpp computes the weights of a token's chosen experts. `normalized` scales them to a sum of 1.
   * Absent if the architecture has no experts.
   */
  readonly expertWeights?: 'normalized' | 'as they are';
  /** Returns the differences that are specific to this architecture. */
  differences?(model: GptModelConfiguration): readonly Difference[];
}

const sparse = { what: 'dense layers among layers with experts', remedy: 'train with experts in all layers' };

/** The architectures, by model type. */
const architectures: Readonly<Record<GptTypeName, Architecture>> = {
  gpt2: {
    name: 'gpt2',
    differences: ({ geluKind }) =>
      geluKind === 'erf'
        ? [{ what: 'GELU by the error function', remedy: 'train with GELU by tanh, which gpt2 computes' }]
        : [],
  },
  llama: { name: 'llama', readsFrequencyFactors: true },
  mistral: { name: 'llama', readsFrequencyFactors: true },
  mixtral: { name: 'llama', readsFrequencyFactors: true, expertWeights: 'normalized' },
  smollm3: { name: 'llama', readsFrequencyFactors: true },
  stablelm: {
    name: 'stablelm',
    differences: () => [
      {
        what: 'gated feed-forward layers behind LayerNorm',
        remedy: 'write a directory of Hugging Face instead',
      },
    ],
  },
  qwen2: { name: 'qwen2' },
  qwen3: { name: 'qwen3' },
  qwen2_moe: { name: 'qwen2moe', expertWeights: 'as they are' },
  qwen3_moe: { name: 'qwen3moe', expertWeights: 'normalized' },
  olmoe: {
    name: 'olmoe',
    expertWeights: 'as they are',
    differences: (model) =>
      countGroups(model) === model.numAttentionHeads
        ? []
        : [{ what: 'fewer heads of keys and values', remedy: 'train without --group-query-attention' }],
  },
};

/**
 * llama.cpp's SmolLM3, in which every fourth layer has no rotary positions. This interval is a constant in
 * llama.cpp, and GGUF files do not store it. A SmolLM3 with rotary positions in every layer is written as a
 * Llama.
 */
const smolLm3: Architecture = {
  name: 'smollm3',
  differences: (model) => {
    const layers = Array.from({ length: model.numLayers }, (_, layer) => layer);
    const isUsual = layers.every((layer) => isRotatedLayer(model, layer) === ((layer + 1) % 4 !== 0));
    const { bias, qkvBias = bias } = gptBlock(model).attention;
    return [
      ...(isUsual
        ? []
        : [
            {
              what: 'other layers without rotation than each fourth (no_rope_layers)',
              remedy: 'train with --no-rope-freq 4, or with rotation in all layers',
            },
          ]),
      ...(bias || qkvBias ? [{ what: 'biases', remedy: 'train without biases' }] : []),
    ];
  },
};

/**
 * Returns the model type with which a GPT is written. If the model was loaded from a directory, and the type
 * in its config.json can describe the model, the result is this type.
 *
 * @throws CheckpointError MTL_GGUF_ARCHITECTURE for blocks that no supported architecture has
 */
export function modelTypeFor(model: GptModelConfiguration, origin?: HuggingFaceOrigin): GptTypeName {
  const type = chooseGptType(model, origin?.config.model_type as string | undefined);
  if (type !== undefined) return type;
  const { nearest, properties } = unstatedProperties(model);
  throw new CheckpointError(
    'MTL_GGUF_ARCHITECTURE',
    `GGUF: no architecture that is written here has these blocks: ${nearest.name} lacks ${properties.join(', ')}`,
    {
      expected:
        "a GPT with a GPT-2's, Llama's, Mistral's, SmolLM3's, Qwen2's, Qwen3's, Mixtral's, Qwen3-MoE's, Qwen2-MoE's or OLMoE's blocks",
      remedy: 'train a model with the blocks of such an architecture',
      exitCode: 2,
    },
  );
}

/** Returns llama.cpp's architecture for a model of the given type. */
export const findArchitecture = (modelType: GptTypeName, model: GptModelConfiguration): Architecture =>
  modelType === 'smollm3' && model.noRopeFreq !== undefined ? smolLm3 : architectures[modelType];

const countGroups = (model: GptModelConfiguration): number =>
  gptBlock(model).attention.numGroups ?? model.numAttentionHeads;

/**
 * Returns the model properties that determine the types of the tensors. llama.cpp treats some models with 80
 * layers as 70B models: each `qwen2`, and each `llama` that has fewer key heads than query heads.
 */
export function describeTypedModel(modelType: GptTypeName, model: GptModelConfiguration): TypedModel {
  const { numLayers, numExperts, tieEmbeddings, numAttentionHeads } = model;
  const { name } = findArchitecture(modelType, model);
  const isOfSize = name === 'qwen2' || (name === 'llama' && countGroups(model) < numAttentionHeads);
  return { numLayers, numExperts, tieEmbeddings, isSeventyBillion: isOfSize && numLayers === 80 };
}

/**
 * Returns the properties of a model that llama.cpp cannot compute, either in this architecture or in general.
 */
function listDifferences(modelType: GptTypeName, model: GptModelConfiguration): readonly Difference[] {
  const { expertWeights, readsFrequencyFactors, differences } = findArchitecture(modelType, model);
  const { windowSize, maxPositionEmbeddings, moeRouterPreSoftmax = false, useRopeScaling = false } = model;
  const window = windowSize === undefined ? undefined : Number.parseInt(windowSize, 10) + 1;
  const layers = Array.from({ length: model.numLayers }, (_, layer) => layer);
  const weights = moeRouterPreSoftmax ? 'as they are' : 'normalized';
  const found: (Difference | false)[] = [
    window !== undefined &&
      window < maxPositionEmbeddings && {
        what: `a window of ${window} tokens (sliding_window)`,
        remedy: `write a model with at most ${window} positions, or without a window`,
      },
    useRopeScaling &&
      readsFrequencyFactors !== true && {
        what: "the scaling of Llama 3's frequencies (rope type llama3)",
        remedy: 'scale by linear or yarn, or train a Llama',
      },
    model.yarnCorrectionRangeRoundToInt === false && {
      what: 'a range of YaRN that is not rounded (truncate is false)',
      remedy: 'train with a rounded range',
    },
    expertWeights !== undefined &&
      weights !== expertWeights && {
        what: `weights of chosen experts that are ${weights} (norm_topk_prob is ${weights === 'normalized'})`,
        remedy: `only weights that are ${expertWeights} can be written for this architecture`,
      },
    model.numExperts !== undefined && !layers.every((layer) => hasExperts(model, layer)) && sparse,
  ];
  return [...found.filter((difference) => difference !== false), ...(differences?.(model) ?? [])];
}

/**
 * Rejects a model that llama.cpp would compute differently.
 *
 * @throws CheckpointError MTL_GGUF_ARCHITECTURE, whose message names the property
 */
export function checkArchitecture(modelType: GptTypeName, model: GptModelConfiguration): void {
  const [difference] = listDifferences(modelType, model);
  if (difference === undefined) return;
  const { name } = findArchitecture(modelType, model);
  throw new CheckpointError(
    'MTL_GGUF_ARCHITECTURE',
    `GGUF: the architecture ${name} of llama.cpp does not compute ${difference.what}`,
    { remedy: `${difference.remedy}; or write it with --save-hf DIR`, exitCode: 2 },
  );
}

/** Returns the metadata that state the number and the sizes of experts. */
function expertMetadata(key: (name: string) => string, model: GptModelConfiguration): Metadata {
  const { numExperts, moeRouterTopk = 2, moeSharedExpertIntermediateSize: shared } = model;
  if (numExperts === undefined) return {};
  const width = model.moeFfnHiddenSize ?? model.ffnHiddenSize;
  return {
    [key('expert_count')]: uint32(numExperts),
    [key('expert_used_count')]: uint32(moeRouterTopk),
    [key('expert_feed_forward_length')]: uint32(width),
    ...(shared === undefined ? {} : { [key('expert_shared_feed_forward_length')]: uint32(shared) }),
  };
}

/** Returns the metadata that describe a model's architecture. */
export function architectureMetadata(modelType: GptTypeName, model: GptModelConfiguration): Metadata {
  const { name, expertWeights } = findArchitecture(modelType, model);
  const key = (field: string): string => `${name}.${field}`;
  const headSize = computeHeadSize(model);
  const width =
    expertWeights === undefined ? model.ffnHiddenSize : (model.moeFfnHiddenSize ?? model.ffnHiddenSize);
  const norm: MetadataValue = float32(model.layerNormEpsilon);
  return {
    [key('context_length')]: uint32(model.maxPositionEmbeddings),
    [key('embedding_length')]: uint32(model.hiddenSize),
    [key('block_count')]: uint32(model.numLayers),
    [key('feed_forward_length')]: uint32(width),
    [key('vocab_size')]: uint32(model.vocabularySize),
    [key('attention.head_count')]: uint32(model.numAttentionHeads),
    ...(modelType === 'gpt2'
      ? { [key('attention.layer_norm_epsilon')]: norm }
      : {
          [key('attention.head_count_kv')]: uint32(countGroups(model)),
          [key('attention.layer_norm_rms_epsilon')]: norm,
          [key('attention.key_length')]: uint32(headSize),
          [key('attention.value_length')]: uint32(headSize),
          [key('rope.dimension_count')]: uint32(headSize),
          ...ropeMetadata(key, model),
        }),
    ...expertMetadata(key, model),
  };
}
