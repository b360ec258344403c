import type { World } from '@mtl/comm';
import { setNumThreads } from '@mtl/kernels';
import { setPoison } from '@mtl/kernels/internal';
import { buildGpt, type LanguageModelResult, useLanguageModel } from '@mtl/models/testing';
import { parameterTensors, readHuggingFaceGpt, writeHuggingFaceGpt } from '../../../src/index.js';

export interface ShardedLanguageModelOptions {
  readonly sequenceParallel: boolean;
  /** The Hugging Face directory to load the model from. */
  readonly load: string;
  /** The directory to save the complete model to. */
  readonly save: string;
}

/** Loads a model's slices, generates and scores with it, and saves it. */
export default async function shardedLanguageModel(
  world: World,
  { sequenceParallel, load, save }: ShardedLanguageModelOptions,
): Promise<LanguageModelResult> {
  setNumThreads(1);
  setPoison(true);
  const { group } = world;
  const built = buildGpt({}, { group, sequenceParallel });
  const { parameters } = built.stage;
  for (const { data } of parameters) data.zero();
  const source = await readHuggingFaceGpt({ directory: load, makeVocabularySizeDivisibleBy: 8 });
  await source.load(parameterTensors(parameters));
  const result = useLanguageModel(built.stage);
  await writeHuggingFaceGpt({
    directory: save,
    model: source.configuration,
    tensors: parameterTensors(parameters),
    group,
  });
  built.dispose();
  return result;
}
