import { broadcastJson } from '@mtl/comm';
import { describeGptModel } from '@mtl/configuration';
import { buildGptDatasets, type SampleDataset } from '@mtl/data';
import { readHuggingFaceGpt, writeHuggingFaceGpt } from '@mtl/formats';
import type { NumberedBatch } from '@mtl/layout';
import {
  buildGptStages,
  type ExpertVariants,
  findDenseName,
  GptLanguageModel,
  type GptModelConfiguration,
  type GptStage,
  gptEmbeddingAndHeadCost,
  gptMatmuls,
  hasExperts,
  makeDenseModel,
  numActiveParameters,
  numLossTokens,
  numParameters,
  pickExpertVariants,
  type StageBatch,
  type TransformerConfiguration,
  upcycledTensors,
} from '@mtl/models';
import { balancingLossNames, gptParameterNames, numLayerWeights, specifyExperts } from '@mtl/models/internal';
import type { LossKind } from '@mtl/trainer';
import { gptAdapters } from '../adapters/gpt-adapters.js';
import { listEndTokens } from '../conversations/turn-tokens.js';
import { prepareDefaultCorpus } from '../corpus/default-corpus.js';
import { type ModelSample, sampleContinuation } from '../samples/sample-continuation.js';
import {
  type ConversationPrompt,
  endAtSentence,
  sampleConversation,
  samplePrompt,
  splitContinuation,
} from '../samples/sample-prompts.js';
import type { ModelRecipe, ShowOptions } from './model-recipe.js';
import { stageBatches } from './stage-batches.js';

/** The functions and settings of a training run that are specific to GPT. */
export const gptRecipe: ModelRecipe<GptModelConfiguration, StageBatch, GptStage> = {
  kind: 'gpt',
  adapters: gptAdapters,
  upcycling: {
    addExperts: (mixture, dense) => ({ ...dense, ...pickExpertVariants(mixture) }),
    makeDense: makeDenseModel,
    isMixture: ({ numExperts }) => numExperts !== undefined,
    denseNames: (names) => names.flatMap((name) => findDenseName(name) ?? []),
    tensors: upcycledTensors,
  },
  prepareCorpus: (options) => prepareDefaultCorpus({ ...options, kind: 'gpt' }),
  openDatasets: ({ data, model, training }, { tokenizer, ...options }) =>
    buildGptDatasets({
      ...options,
      sequenceLength: model.sequenceLength,
      seed: training.seed,
      splitWeights: data.split,
      padId: tokenizer.padId,
      vocabularySize: tokenizer.vocabularySize,
      tokenizerIdentifiers: tokenizer.identifiers,
      endOfDocument: tokenizer.eod,
      eodMaskLoss: data.eodMaskLoss,
      resetPositionIds: data.resetPositionIds,
      resetAttentionMask: data.resetAttentionMask,
    }),
  batches: (options) => stageBatches(options, chooseOutline(options.dataset)),
  placeholderBatch: ({ data, model, training }) => {
    const { sequenceLength } = model;
    const batchSize = training.microBatchSize;
    const ids = new Int32Array(batchSize * sequenceLength);
    return {
      batchSize,
      sequenceLength,
      tokens: ids,
      labels: ids,
      lossMask: new Float32Array(ids.length).fill(1),
      positionIds: ids,
      keyStart: data.resetAttentionMask ? ids : undefined,
      sampleNumbers: Float64Array.from({ length: batchSize }, (_, index) => index),
    };
  },
  describeModel: ({ model }, vocabularySize) => describeGptModel(model, vocabularySize),
  numParameters,
  numActiveParameters: (model) => (model.numExperts === undefined ? undefined : numActiveParameters(model)),
  parameterNames: gptParameterNames,
  describeMatmuls: (_, model) => ({
    ...gptMatmuls(model),
    heldWeights: model.numExperts === undefined ? undefined : numLayerWeights(model),
  }),
  embeddingAndHeadCost: (configuration, model) =>
    gptEmbeddingAndHeadCost(model, configuration.model.sequenceLength),
  buildStages: buildGptStages,
  losses: (model) => [{ name: 'lm_loss', per: 'token', count: numLossTokens }, ...expertLosses(model)],
  openHuggingFace: ({ model }, directory) =>
    readHuggingFaceGpt({ directory, makeVocabularySizeDivisibleBy: model.makeVocabSizeDivisibleBy }),
  saveHuggingFace: ({ tokenizer, ...options }) =>
    writeHuggingFaceGpt({ ...options, endTokens: tokenizer === undefined ? [] : listEndTokens(tokenizer) }),
  show: gptSample,
};

/**
 * Returns a function that makes the outlines of samples (batches without tokens) for the pipeline's middle
 * stages. Returns undefined if attention stops at documents, because every layer must then know where
 * documents end.
 */
function chooseOutline(
  dataset: SampleDataset<StageBatch>,
): ((samples: readonly number[]) => StageBatch) | undefined {
  if (dataset.createBatch(1).keyStart !== undefined) return undefined;
  const { sequenceLength } = dataset;
  return (samples) => ({
    batchSize: samples.length,
    sequenceLength,
    keyStart: undefined,
    sampleNumbers: Float64Array.from(samples),
  });
}

/**
 * The number of tokens to generate for the sample at the end of a run. `mostTokensOfBrief` is the number for
 * a brief sample.
 */
const mostTokens = 120;
const mostTokensOfBrief = 48;

type GptShowOptions = ShowOptions<StageBatch, GptStage>;

/** A prompt to continue, or a conversation to answer. `text` is the conversation so far. */
type Prompt = Pick<ConversationPrompt, 'tokens'> & Partial<ConversationPrompt>;

/**
 * Generates a first impression of what a GPT has learned: continues a held-out text, or answers the first
 * messages of a conversation. Returns undefined if there is no text or conversation.
 */
async function gptSample(options: GptShowOptions): Promise<ModelSample | undefined> {
  const { configuration, part, tokenizer, pipelineGroup, isBrief } = options;
  // a NullTokenizer has ids but no texts
  if (configuration.data.tokenizer?.type === 'NullTokenizer') return undefined;
  const { stages, placement, pipeline } = part;
  // only stages that read data can find the prompt
  const own = pipeline.isFirst ? await findPrompt(options) : undefined;
  const prompt =
    pipelineGroup === undefined ? own : broadcastJson(pipelineGroup, own, { root: placement[0]! });
  if (prompt === undefined) return undefined;
  const { tokens, stopTokens, text } = prompt;
  const whole = pipelineGroup === undefined ? stages.get(0)! : { stages, placement, group: pipelineGroup };
  const model = new GptLanguageModel(whole);
  // a conversation may fill the complete context
  if (tokens.length >= model.maximumContext) return undefined;
  const maxNewTokens = isBrief ? mostTokensOfBrief : mostTokens;
  const sampling = { model, tokenizer, prompt: tokens, stopTokens, maxNewTokens, seed: 1 };
  const answer = await sampleContinuation(sampling);
  const shown = (from: readonly number[]): string => {
    const whole = tokenizer.decode([...from, ...answer.tokens]).trimStart();
    return answer.isEnded ? whole : endAtSentence(whole);
  };
  if (text !== undefined) {
    const label = 'A conversation';
    const completion = tokenizer.decode(answer.tokens);
    return { label, text: `${label}:\n${text}\nassistant: ${shown([])}`, prompt: text, completion };
  }
  const label = 'A sample';
  const split = splitContinuation(tokenizer, { prompt: tokens, continuation: answer.tokens });
  return { label, text: `${label}:\n${shown(tokens)}`, ...split };
}

async function findPrompt({
  configuration,
  tokenizer,
  datasets,
}: GptShowOptions): Promise<Prompt | undefined> {
  const { conversations } = configuration.data;
  if (conversations !== undefined) {
    const { trainData, validationData } = conversations;
    return await sampleConversation(validationData[0] ?? trainData[0]!, tokenizer);
  }
  const tokens = samplePrompt({ dataset: datasets.valid ?? datasets.train, tokenizer });
  return tokens && { tokens };
}

/** The size of a micro-batch, in samples and tokens. */
type Sized = NumberedBatch & { readonly batchSize: number; readonly sequenceLength: number };

/**
 * For each balancing loss, the unit over which it is a mean, and the number of these units in a micro-batch.
 */
const meansOver = {
  aux_loss: { per: 'micro-batch', count: () => 1 },
  seq_aux_loss: { per: 'sequence', count: ({ batchSize }: Sized) => batchSize },
  global_aux_loss: {
    per: 'token',
    count: ({ batchSize, sequenceLength }: Sized) => batchSize * sequenceLength,
  },
} as const;

/**
 * Returns the losses of a model's routers. Each loss is a mean over its units and over the layers with
 * experts. The weight of a loss is its coefficient times the number of these layers, so that its gradients
 * are the gradients of a sum over layers. Megatron-LM reports the same mean.
 */
export function expertLosses(model: GptModelConfiguration): readonly LossKind<Sized>[] {
  if (model.numExperts === undefined) return [];
  const numLayers = layersWithExperts(model).length;
  const { balancingLosses, zLossCoefficient } = specifyExperts(model);
  const kinds = balancingLosses.map(({ type, coefficient }) => ({
    ...meansOver[type],
    name: balancingLossNames[type],
    coefficient,
  }));
  const z =
    zLossCoefficient === undefined
      ? []
      : [{ ...meansOver.global_aux_loss, name: balancingLossNames.z, coefficient: zLossCoefficient }];
  return [...kinds, ...z].map(({ name, per, count, coefficient }) => ({
    name,
    per,
    count: (batch) => numLayers * count(batch),
    weight: numLayers * coefficient,
    isAuxiliary: true,
  }));
}

/** Returns the global indices of the layers with experts. The list is empty for a model without experts. */
export const layersWithExperts = (model: TransformerConfiguration & ExpertVariants): readonly number[] =>
  Array.from({ length: model.numLayers }, (_, layer) => layer).filter((layer) => hasExperts(model, layer));
