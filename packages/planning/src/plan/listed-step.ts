import type { PretrainingConfiguration } from '@mtl/configuration';
import { optimizerSharing, scheduleOfStep } from '@mtl/configuration/strategies';
import { type Layout, listedProfile, type ModelSize, type Profile, type StepOptions } from '@mtl/cost-model';
import type { ListedSoftware } from '@mtl/cost-model/internal';
import { ConfigurationError } from '@mtl/errors';
import {
  type GptModelConfiguration,
  gptBlock,
  numLearnedPositions,
  paddedVocabularySize,
  type TransformerConfiguration,
} from '@mtl/models';
import type { ListedStore } from '@mtl/optimizer';

/**
 * Describes the step of a training run in the form for the operation lists of other programs.
 *
 * @throws ConfigurationError `MTL_PROFILE` for a model that has no operation list, for adapters, experts and
 * several
 *   optimizer instances, and for fp32, because the lists have no bytes and rates for it
 */
export function listedStep(
  configuration: PretrainingConfiguration,
  { model, profile }: { readonly model: TransformerConfiguration; readonly profile: Profile },
): StepOptions {
  if (configuration.kind !== 'gpt') {
    throw new ConfigurationError('MTL_PROFILE', `${profile.name}: a ${configuration.kind} is planned`, {
      expected: 'a GPT: the lists of what other programs run have no other model',
      remedy: 'use a profile whose operations are recorded, such as a100-80gb',
    });
  }
  if (configuration.lora !== undefined) {
    throw new ConfigurationError('MTL_PROFILE', `${profile.name}: a run with --lora-rank is planned`, {
      expected: 'a run that trains all weights: the lists of what other programs run have no adapters',
      remedy: 'use a profile whose operations are recorded, such as a100-80gb',
    });
  }
  const { numExperts } = configuration.model;
  if (numExperts !== undefined) {
    throw new ConfigurationError(
      'MTL_PROFILE',
      `${profile.name}: a model of ${numExperts} experts is planned`,
      {
        expected: 'dense layers: the lists of what other programs run have no experts',
        remedy: 'use a profile whose operations are recorded, such as a100-80gb',
      },
    );
  }
  const sharing = optimizerSharing(configuration.parallel);
  const { numInstances, flagOfInstances } = sharing;
  if (numInstances > 1) {
    throw new ConfigurationError('MTL_PROFILE', `${profile.name}: ${numInstances} instances are planned`, {
      expected: 'states that all data-parallel ranks divide: the lists of other programs have one instance',
      remedy: `leave --${flagOfInstances} out, or use a profile whose operations are recorded`,
    });
  }
  if (configuration.training.precision === 'fp32') {
    throw new ConfigurationError('MTL_PROFILE', `${profile.name}: a step in fp32 is planned`, {
      expected: 'a step in 16 bits: the lists of what other programs run have no other',
      remedy: 'pass --bf16',
    });
  }
  const listed = listedProfile(profile);
  return {
    model: modelSize(configuration, { model, profile }),
    layout: describeLayout(configuration),
    profile: {
      ...listed,
      software: {
        ...listed.software,
        hasDropout: listed.software.hasDropout && configuration.model.hiddenDropout > 0,
        ...softwareOfStore(listed.software, sharing.store),
        ...(sharing.overlapGradientReduction ? { dataOverlap: 'always' as const } : {}),
      },
    },
  };
}

/** Returns true if the output head uses the weight of the embedding. */
export const hasTiedHead = ({ model }: PretrainingConfiguration): boolean =>
  !model.untieEmbeddingsAndOutputWeights;

/**
 * Returns the states that the program of the operation lists shards if it uses the given store: the states
 * that the store shards, and the states that this program always shards.
 */
export function softwareOfStore(
  { shardsParameters = false }: ListedSoftware,
  { divides }: ListedStore,
): Pick<ListedSoftware, 'distributedOptimizer' | 'shardsParameters'> {
  return {
    distributedOptimizer: divides.includes('optimizer'),
    shardsParameters: shardsParameters || divides.includes('parameters'),
  };
}

function describeLayout({ parallel, training }: PretrainingConfiguration): Layout {
  const { pipelineModelParallelSize } = parallel;
  return {
    tp: parallel.tensorModelParallelSize,
    pp: pipelineModelParallelSize,
    dp: parallel.dataParallelSize,
    numChunks: parallel.numVirtualStages,
    ...(pipelineModelParallelSize > 1
      ? { schedule: scheduleOfStep(parallel, training.numMicroBatches) }
      : {}),
    microBatchSize: training.microBatchSize,
    globalBatchSize: training.globalBatchSize,
    sequenceParallel: parallel.sequenceParallel,
    recomputation: training.recompute.granularity,
  };
}

function modelSize(
  { model: sizes }: PretrainingConfiguration,
  { model, profile }: { readonly model: TransformerConfiguration; readonly profile: Profile },
): ModelSize {
  const { attention, feedForward } = gptBlock(model as GptModelConfiguration);
  const { numHeads, headSize, numGroups = numHeads } = attention;
  const block = feedForward.kind === 'swiglu' ? 'llama' : 'gpt';
  const isListed = numHeads * headSize === sizes.hiddenSize && ['swiglu', 'gelu'].includes(feedForward.kind);
  if (!isListed) {
    throw new ConfigurationError(
      'MTL_PROFILE',
      `${profile.name}: feed-forward networks of kind ${feedForward.kind} with heads of ${headSize}`,
      {
        expected: 'blocks of GPT-2 or Llama, whose heads divide the hidden size',
        remedy: 'use a profile whose operations are recorded, such as a100-80gb',
      },
    );
  }
  return {
    numLayers: sizes.numLayers,
    hiddenSize: sizes.hiddenSize,
    numHeads,
    numQueryGroups: numGroups,
    ffnHiddenSize: sizes.ffnHiddenSize,
    sequenceLength: sizes.sequenceLength,
    vocabularySize: paddedVocabularySize(model),
    block,
    tiedEmbeddings: (model as GptModelConfiguration).tieEmbeddings,
    positionEmbeddings: numLearnedPositions(model as GptModelConfiguration) > 0,
  };
}
